from pathlib import Path

import numpy as np
import pytest

import made_gguf
from gape.language.embedded import EmbeddedModel
from gape.language.faster import in_fast_format, to_q8_0
from gape.language.gguf import read_header, read_layout
from gape.language.request import Request


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GAPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_the_weights_stay_what_they_were() -> None:
    weights = np.random.default_rng(0).normal(size=(40, 32)).astype(np.float32)
    weights[3] = 0
    slow = np.frombuffer(made_gguf.q4_1(weights + 1e-3 * np.arange(32)), [("d", "<f2"), ("m", "<f2"), ("q", "u1", 16)])
    levels = np.concatenate([slow["q"] & 15, slow["q"] >> 4], axis=1)
    before = levels * slow["d"].astype(float)[:, None] + slow["m"].astype(float)[:, None]
    fast = np.frombuffer(to_q8_0(slow.tobytes()), [("d", "<f2"), ("q", "i1", 32)])
    after = fast["q"] * fast["d"].astype(float)[:, None]
    step = np.abs(before).max(axis=1, keepdims=True) / 127
    assert np.all(np.abs(after - before) <= 0.51 * step + 127 * step * 2**-11)  # rounding, and a scale of 11 bits


def test_a_block_of_zeros() -> None:
    assert to_q8_0(bytes(20)) == bytes(34)


def test_a_file_without_such_weights_is_used_itself(tmp_path: Path, cache: Path) -> None:
    file = made_gguf.make(tmp_path / "m.gguf")
    assert in_fast_format(file, "digest") == file
    assert not cache.exists()


def test_the_copy_is_made_once_and_differs_in_the_weights_alone(tmp_path: Path, cache: Path) -> None:
    file = made_gguf.make(tmp_path / "m.gguf", made_gguf.LLAMA, small=True)
    fast = in_fast_format(file, "digest")
    made = fast.stat().st_mtime_ns
    assert in_fast_format(file, "digest") == fast
    assert fast.stat().st_mtime_ns == made
    assert [path.name for path in cache.iterdir()] == [fast.name]
    assert read_header(fast) == read_header(file)
    before, after = read_layout(file).tensors, read_layout(fast).tensors
    assert [(tensor.name, tensor.shape) for tensor in before] == [(tensor.name, tensor.shape) for tensor in after]
    assert {(old.kind, new.kind) for old, new in zip(before, after, strict=True)} == {(0, 0), (3, 8)}


def test_a_copy_that_was_cut_is_made_again(tmp_path: Path) -> None:
    file = made_gguf.make(tmp_path / "m.gguf", small=True)
    fast = in_fast_format(file, "digest")
    content = fast.read_bytes()
    fast.write_bytes(content[:1000])
    assert in_fast_format(file, "digest").read_bytes() == content


def test_without_room_the_file_itself_is_used(tmp_path: Path, cache: Path) -> None:
    cache.write_text("in the way")
    file = made_gguf.make(tmp_path / "m.gguf", small=True)
    assert in_fast_format(file, "digest") == file


def test_the_answers_are_those_of_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = made_gguf.make(tmp_path / "m.gguf", small=True)
    request = Request("One day, Lily met a", temperature=0.0, max_tokens=16)
    fast = EmbeddedModel(file, slots=1, context=64)
    monkeypatch.setattr("gape.language.embedded.in_fast_format", lambda file, _: file)
    slow = EmbeddedModel(file, slots=1, context=64)
    assert "as Q8_0" in fast.name
    assert "as Q8_0" not in slow.name
    ((_, quick),), ((_, plain),) = fast.complete([request]), slow.complete([request])
    assert quick.text == plain.text
