import struct
from dataclasses import replace
from pathlib import Path

import pytest

import made_gguf
from gape.core.errors import InputError
from gape.language.gguf import Header, read_header
from gape.language.weights import SMOLLM2, fetch


def test_a_real_file() -> None:
    header = read_header(fetch(SMOLLM2))
    assert header.architecture == "llama"
    assert (header.first_token, header.last_token, header.adds_first_token) == ("<|im_start|>", "<|im_end|>", False)
    assert header.chat_template is not None
    assert "named SmolLM" in header.chat_template


def test_a_file_made_by_hand(tmp_path: Path) -> None:
    file = made_gguf.make(tmp_path / "m.gguf", made_gguf.LLAMA)
    header = Header("llama", "stories", made_gguf.LLAMA, "<s>", "</s>", adds_first_token=True, tokenizer="llama")
    assert read_header(file) == header
    told = made_gguf.make(tmp_path / "m.gguf", tokenizer__ggml__add_bos_token=(made_gguf.BOOL, False))
    assert read_header(told) == replace(header, chat_template=None, adds_first_token=False)


def test_every_cut_is_noticed(tmp_path: Path) -> None:
    content = made_gguf.make(tmp_path / "m.gguf").read_bytes()[:2000]
    for length in range(0, 2000, 37):
        (tmp_path / "cut.gguf").write_bytes(content[:length])
        with pytest.raises(InputError, match="is not a complete GGUF file"):
            read_header(tmp_path / "cut.gguf")


@pytest.mark.parametrize(
    "entry",
    [
        struct.pack("<Q", 2**60),  # the length of a key
        struct.pack("<Q1sI", 1, b"a", 77),  # a kind that does not exist
        struct.pack("<Q1sIIQ", 1, b"a", 9, 8, 2**62),  # the length of an array
        struct.pack("<Q1sIIQ", 1, b"a", 9, 9, 1),  # an array of arrays
        struct.pack("<Q1sIIQ", 1, b"a", 9, 0, 2**20),  # longer than the file
    ],
)
def test_sizes_that_cannot_be(tmp_path: Path, entry: bytes) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + entry)
    with pytest.raises(InputError, match="is not a complete GGUF file"):
        read_header(file)
