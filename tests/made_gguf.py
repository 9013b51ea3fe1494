"""A GGUF file of 1 MB made by hand: stories260K, with any chat template or none."""

import json
import struct
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file
from tokenizers.pre_tokenizers import ByteLevel

from small_model import FOLDER

UINT32, FLOAT32, BOOL, STRING, ARRAY = 4, 6, 7, 8, 9
_ALIGNMENT = 32
_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "input_layernorm": "attn_norm",
    "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
LLAMA = (  # the kind of template that most differs from ChatML: no names of roles, and no room for a system turn
    "{{ bos_token }}{% for message in messages %}{% if message['role'] == 'system' %}"
    "{{ raise_exception('no system turn') }}{% endif %}[INST] {{ message['content'] }} [/INST]{% endfor %}"
)


def make(
    path: Path, template: str | None = None, *, small: bool = False, half: bool = False, **further: tuple[int, Any]
) -> Path:
    """Write the model with a chat template, its matrices as Q4_1 if `small`, as F16 if `half`.

    `further` are more entries, (kind, value), with `__` for a dot.
    """
    config = json.loads((FOLDER / "config.json").read_text())
    entries = _entries(config) | {key.replace("__", "."): value for key, value in further.items()}
    if template is not None:
        entries["tokenizer.chat_template"] = (STRING, template)
    tensors = {_renamed(name): _rotated(name, array, config) for name, array in load_file(_weights()).items()}
    content = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(entries))
    content += b"".join(
        _text(key) + struct.pack("<I", kind) + _value(kind, value) for key, (kind, value) in entries.items()
    )
    data = b""
    for name, array in tensors.items():
        shape = array.shape[::-1]
        quantised = small and len(shape) == 2 and not shape[0] % 32 and name != "token_embd.weight"
        kind = 3 if quantised else int(half and len(shape) == 2)
        content += _text(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, kind, len(data))
        data += _padded(q4_1(array) if quantised else array.astype(("<f4", "<f2")[kind]).tobytes())
    path.write_bytes(_padded(content) + data)
    return path


def make_with_letters(path: Path) -> Path:
    """Write the model as OpenVINO reads one: in half precision, with a GPT-2 tokenizer. It writes nonsense."""
    letters = sorted(ByteLevel.alphabet())
    size = json.loads((FOLDER / "config.json").read_text())["vocab_size"]
    tokens = ["<unk>", "<s>", "</s>", *letters, "th", *(f"<{number}>" for number in range(len(letters) + 4, size))]
    return make(
        path,
        half=True,
        general__file_type=(UINT32, 1),
        llama__vocab_size=(UINT32, size),
        llama__rope__freq_base=(FLOAT32, 10_000.0),
        tokenizer__ggml__model=(STRING, "gpt2"),
        tokenizer__ggml__pre=(STRING, "smollm"),
        tokenizer__ggml__tokens=(ARRAY, (STRING, tokens)),
        tokenizer__ggml__token_type=(ARRAY, (5, [3, 3, 3] + [1] * (size - 3))),
        tokenizer__ggml__merges=(ARRAY, (STRING, ["t h"])),
        tokenizer__ggml__padding_token_id=(UINT32, 2),
    )


def q4_1(array: np.ndarray[Any, Any]) -> bytes:
    """Quantise to blocks of 32 weights with 16 levels each, from the least to the largest."""
    blocks = array.reshape(-1, 32)
    least = blocks.min(axis=1, keepdims=True).astype(np.float16)
    scale = ((blocks.max(axis=1, keepdims=True) - least) / 15).astype(np.float16)
    levels = np.clip(np.rint((blocks - least) / scale), 0, 15).astype(np.uint8)
    packed = levels[:, :16] | (levels[:, 16:] << 4)
    return np.concatenate([scale.view(np.uint8), least.view(np.uint8), packed], axis=1).tobytes()


def _weights() -> Path:
    return FOLDER / "model.safetensors"


def _entries(config: dict[str, Any]) -> dict[str, tuple[int, Any]]:
    vocabulary = json.loads((FOLDER / "tokenizer.json").read_text())["model"]["vocab"]
    tokens = sorted(vocabulary, key=vocabulary.__getitem__)
    known = {"<unk>": 2, "<s>": 3, "</s>": 3}  # the rest are bytes, 6, and pieces of words, 1
    kinds = [known.get(token, 6 if token.startswith("<0x") else 1) for token in tokens]
    return {
        "general.architecture": (STRING, "llama"),
        "general.name": (STRING, "stories"),
        "llama.block_count": (UINT32, config["num_hidden_layers"]),
        "llama.context_length": (UINT32, config["max_position_embeddings"]),
        "llama.embedding_length": (UINT32, config["hidden_size"]),
        "llama.feed_forward_length": (UINT32, config["intermediate_size"]),
        "llama.attention.head_count": (UINT32, config["num_attention_heads"]),
        "llama.attention.head_count_kv": (UINT32, config["num_key_value_heads"]),
        "llama.attention.layer_norm_rms_epsilon": (FLOAT32, config["rms_norm_eps"]),
        "llama.rope.dimension_count": (UINT32, config["head_dim"]),
        "tokenizer.ggml.model": (STRING, "llama"),
        "tokenizer.ggml.tokens": (ARRAY, (STRING, tokens)),
        "tokenizer.ggml.scores": (ARRAY, (FLOAT32, [-float(rank) for rank in range(len(tokens))])),
        "tokenizer.ggml.token_type": (ARRAY, (5, kinds)),
        "tokenizer.ggml.bos_token_id": (UINT32, config["bos_token_id"]),
        "tokenizer.ggml.eos_token_id": (UINT32, config["eos_token_id"]),
        "tokenizer.ggml.unknown_token_id": (UINT32, 0),
    }


def _renamed(name: str) -> str:
    name = name.removesuffix(".weight")
    if name.startswith("model.layers."):
        _, _, layer, part = name.split(".", 3)
        return f"blk.{layer}.{_NAMES[part]}.weight"
    return f"{_NAMES[name]}.weight"


def _rotated(name: str, array: np.ndarray[Any, Any], config: dict[str, Any]) -> np.ndarray[Any, Any]:
    """Order the rows of queries and keys as llama.cpp rotates them: pairs of neighbours instead of halves."""
    if ".q_proj." not in name and ".k_proj." not in name:
        return array
    heads = config["num_attention_heads" if ".q_proj." in name else "num_key_value_heads"]
    rows, columns = array.shape
    return array.reshape(heads, 2, rows // heads // 2, columns).swapaxes(1, 2).reshape(rows, columns)


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(kind: int, value: Any) -> bytes:
    if kind == STRING:
        return _text(value)
    if kind == ARRAY:
        inner, items = value
        return struct.pack("<IQ", inner, len(items)) + b"".join(_value(inner, item) for item in items)
    return struct.pack({UINT32: "<I", 5: "<i", FLOAT32: "<f", BOOL: "<?"}[kind], value)


def _padded(content: bytes) -> bytes:
    return content + b"\0" * (-len(content) % _ALIGNMENT)
