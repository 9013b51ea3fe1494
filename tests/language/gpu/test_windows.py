"""Models with a sliding window: slots as far as every layer sees the whole text, batches beyond."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gape.language.gpu.decoding import Batch
from gape.language.gpu.library import Library
from gape.language.gpu.slots import longest_text
from gape.language.gpu.writer import Writer
from gape.language.request import Request
from gape.language.row import Row
from gape.language.transformers import TransformersModel
from language.gpu.test_llama import COUNT, ROOM, SIZES, assert_same_logits, small
from small_model import FOLDER, MIXED, answers, model, tokens

WINDOW = 64
GEMMA: dict[str, Any] = {
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "rope_parameters": {
        "sliding_attention": {"rope_type": "default", "rope_theta": 50.0},
        "full_attention": {"rope_type": "default", "rope_theta": 1e6},
    },
    "query_pre_attn_scalar": 5,  # a Gemma does not scale by the width of its heads
}


def gemma(**settings: Any) -> Any:
    """A Gemma of random weights with both kinds of layers, each with angles of its own."""
    import torch  # noqa: PLC0415  (heavy)
    import transformers  # noqa: PLC0415  (heavy)

    torch.manual_seed(0)
    made = transformers.Gemma3ForCausalLM(transformers.Gemma3TextConfig(**SIZES | GEMMA | settings)).eval()
    for weights in made.parameters():
        torch.nn.init.normal_(weights, std=0.2)
    return made


@pytest.fixture
def writer(tmp_path: Path) -> TransformersModel:
    """A Gemma with the words of the small model, which writes in slots where its window allows it."""
    sizes = {"sliding_window": WINDOW, "vocab_size": 512, "max_position_embeddings": 512}
    gemma(**sizes, bos_token_id=1, eos_token_id=2).save_pretrained(tmp_path)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copy(FOLDER / name, tmp_path)
    made = TransformersModel(tmp_path, device="cpu", batch=4)
    assert not made.concurrent  # on a processor nothing is written in slots
    made._slots_up_to = longest_text(made._transformers, made._model, {"position_ids"})
    assert made._slots_up_to == WINDOW
    return made


def writes(monkeypatch: pytest.MonkeyPatch) -> tuple[list[int], list[int]]:
    """Note how long the texts are that slots and batches are asked for."""
    slotted: list[int] = []
    batched: list[int] = []
    for owner, noted in ((Writer, slotted), (Batch, batched)):
        whole = owner.write

        def write(self: Any, rows: list[Row], *others: Any, whole: Any = whole, noted: list[int] = noted) -> Any:
            noted.extend(len(row.prompt) + row.limit for row in rows)
            return whole(self, rows, *others)

        monkeypatch.setattr(owner, "write", write)
    return slotted, batched


def test_logits_are_those_of_the_model_alone_up_to_the_window() -> None:
    import torch  # noqa: PLC0415  (heavy)
    import transformers  # noqa: PLC0415  (heavy)

    def compare(window: int) -> None:
        alone, made = gemma(sliding_window=window), gemma(sliding_window=window)
        assert_same_logits(alone, Library(torch, transformers, made, COUNT, ROOM), (9, 1, 4), 1e-4)

    compare(13)  # nine tokens and four after them
    with pytest.raises(AssertionError, match="Tensor-likes are not close"):
        compare(12)


def test_answers_are_those_of_batches(writer: TransformersModel, monkeypatch: pytest.MonkeyPatch) -> None:
    slotted, batched = writes(monkeypatch)
    found = answers(*MIXED, by=writer)
    assert slotted
    assert batched
    assert max(slotted) <= WINDOW < min(batched)
    assert len(slotted) + len(batched) == len(MIXED)
    assert answers(*MIXED[::-1], by=writer) == found[::-1]  # in slots and with a model that were used before
    writer._slots_up_to = 0
    assert answers(*MIXED, by=writer) == found


def test_a_text_as_long_as_the_window_is_the_last_in_slots(
    writer: TransformersModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    slotted, batched = writes(monkeypatch)
    prompt = "One day a big red dog"
    room = WINDOW - len(tokens(f"{prompt}\n"))
    requests = [
        Request(prompt, max_tokens=room + more, temperature=1.0, seed=seed) for more in (0, 1) for seed in (1, 2)
    ]
    found = answers(*requests, by=writer)
    assert (slotted, batched) == ([WINDOW] * 2, [WINDOW + 1] * 2)
    assert all(answer.completion_tokens == request.max_tokens for answer, request in zip(found, requests, strict=True))
    writer._slots_up_to = 0
    assert answers(*requests, by=writer) == found


def test_in_slots_longer_texts_would_be_others(writer: TransformersModel) -> None:
    requests = [Request("Lily", max_tokens=2 * WINDOW, temperature=1.0, seed=seed) for seed in range(4)]
    found = answers(*requests, by=writer)
    writer._slots_up_to = np.inf
    assert answers(*requests, by=writer) != found


def test_how_long_a_text_in_a_slot_may_be() -> None:
    own = model()
    library, accepted = own._transformers, {"position_ids"}
    assert longest_text(library, own._model, accepted) == np.inf
    assert longest_text(library, own._model, set()) == 0
    assert longest_text(library, small("Mistral", sliding_window=4), accepted) == 4
    assert longest_text(library, gemma(sliding_window=7), accepted) == 7
    shared = gemma(sliding_window=7)
    shared.config.num_kv_shared_layers = 1  # a layer that reads the keys of another one
    assert longest_text(library, shared, accepted) == 0
    unusual = gemma(sliding_window=7)
    unusual.set_attn_implementation("eager")
    assert longest_text(library, unusual, accepted) == 0
