"""A GPU that other processes have filled: less at once, then waiting, then one sentence."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gape._support.memory import Pressure, is_full
from gape.cli.shared import resumable
from gape.core.errors import DeviceError
from gape.embedders.sentence_transformers import SentenceTransformer
from gape.language.gpu.decoding import Batch
from gape.language.request import Request
from gape.language.transformers import TransformersModel
from gape.selection.flow import device as selection_device
from gape.selection.flow.objective import signed_points
from small_model import FOLDER

FULL = "CUDA out of memory. Tried to allocate 2.00 GiB"


@pytest.fixture(autouse=True)
def waited(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The seconds that would have been waited."""
    seconds: list[float] = []
    monkeypatch.setattr("gape._support.memory.time.sleep", seconds.append)
    return seconds


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError(FULL),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
        RuntimeError("CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`"),
    ],
    ids=lambda error: str(error)[:30],
)
def test_a_full_device_is_told_from_other_errors(error: Exception) -> None:
    assert is_full(error)
    assert not is_full(RuntimeError("mat1 and mat2 shapes cannot be multiplied"))
    assert not is_full(MemoryError())


def test_less_is_tried_at_once_before_anything_is_waited_for(waited: list[float]) -> None:
    pressure, tried = Pressure(2048, "an answer"), []
    for _ in range(11):
        tried.append(pressure.batch)
        pressure.relieve(torch.OutOfMemoryError(FULL), 10**6)
    assert tried == [2**power for power in range(11, 0, -1)]
    assert waited == []
    pressure.relieve(torch.OutOfMemoryError(FULL), 10**6)
    assert pressure.batch == 1
    assert waited == [1.0]


def test_what_cannot_fit_stops_in_one_sentence_after_a_minute(waited: list[float]) -> None:
    pressure, full = Pressure(1, "an answer"), torch.OutOfMemoryError(FULL)
    for _ in range(6):
        pressure.relieve(full, 1)
    with pytest.raises(DeviceError, match="too little free memory for an answer") as refused:
        pressure.relieve(full, 1)
    assert sum(waited) == 60.0
    assert "\n" not in str(refused.value)


def test_another_error_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        Pressure(8, "an answer").relieve(ZeroDivisionError(), 8)


def test_a_model_waits_for_others_and_goes_on(monkeypatch: pytest.MonkeyPatch, waited: list[float]) -> None:
    model, whole = TransformersModel(FOLDER, device="cpu", batch=2), Batch._next
    requests = [Request(f"Tim {i}", max_tokens=4, seed=i) for i in range(3)]
    expected = sorted(model.complete(requests))

    def others_leave_later(batch: Batch, ids: Any, mask: Any, cache: Any) -> Any:
        if len(waited) < 3:
            raise torch.OutOfMemoryError(FULL)
        return whole(batch, ids, mask, cache)

    monkeypatch.setattr(Batch, "_next", others_leave_later)
    assert sorted(model.complete(requests)) == expected
    assert waited == [1.0, 2.0, 4.0]


def test_a_model_that_cannot_fit_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> Any:
        raise torch.OutOfMemoryError(FULL)

    model = TransformersModel(FOLDER, device="cpu", batch=2)
    monkeypatch.setattr(Batch, "_next", never)
    with pytest.raises(DeviceError, match="set CUDA_VISIBLE_DEVICES= to use the CPU"):
        list(model.complete([Request("Tim", max_tokens=4)]))
    monkeypatch.setattr("transformers.AutoModelForCausalLM.from_pretrained", never)
    with pytest.raises(DeviceError, match="too little free memory to load"):
        TransformersModel(FOLDER, device="cpu")


def test_an_embedder_that_cannot_be_loaded_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> Any:
        raise RuntimeError("CUDA error: out of memory. Search for `cudaErrorMemoryAllocation' in its manual")

    monkeypatch.setattr("sentence_transformers.SentenceTransformer", never)
    with pytest.raises(DeviceError, match="too little free memory to load some/folder; stop other programs") as refused:
        SentenceTransformer("some/folder")
    assert "cudaError" not in str(refused.value)


class _Encoder:
    """What encodes on a device that holds four texts."""

    def __init__(self) -> None:
        self.batches: list[int] = []

    def encode(self, texts: list[str], batch_size: int, **_: object) -> Any:
        self.batches.append(batch_size)
        if min(batch_size, len(texts)) > 4:
            raise torch.OutOfMemoryError(FULL)
        return np.array([[len(text), 1.0] for text in texts])


def test_an_embedder_takes_fewer_texts_at_once() -> None:
    embedder: Any = SentenceTransformer.__new__(SentenceTransformer)
    embedder.batch, embedder._model = 32, _Encoder()
    rows = embedder._in_batches([f"{i}" for i in range(20)])
    assert rows[:, 0].tolist() == [1.0] * 10 + [2.0] * 10
    assert embedder._model.batches == [32, 10, 5, 2]


def test_selection_goes_on_without_a_device_that_is_full(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full:
        def __init__(self, *_: object) -> None:
            raise torch.OutOfMemoryError(FULL)

        def costs(self, *_: object) -> Any:
            raise torch.OutOfMemoryError(FULL)

    points = np.random.default_rng(0).normal(size=(9, 3)).astype(np.float32)
    signed = signed_points(points, np.arange(9, dtype=np.int64) - 4, 2.0)
    full: Any = Full.__new__(Full)
    on_full = replace(signed, device=full)
    rows = np.arange(5)
    assert np.array_equal(on_full.costs(rows, rows), signed.costs(rows, rows))
    monkeypatch.setattr(selection_device, "DeviceCosts", Full)
    assert selection_device.on_device(points, "cuda") is None


@pytest.mark.parametrize("begun", [False, True])
def test_a_run_that_stops_says_how_to_go_on(tmp_path: Path, begun: bool) -> None:  # noqa: FBT001  (two cases)
    if begun:
        (tmp_path / "internal").mkdir()
        (tmp_path / "internal" / "settings.toml").touch()

    def stop() -> None:
        with resumable(tmp_path):
            raise DeviceError("the GPU is full; stop other programs on it")

    with pytest.raises(DeviceError, match="`gape resume" if begun else "then repeat the command"):
        stop()
