"""Slots that several threads share."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pytest

from gape.core.errors import InputError
from gape.language.gpu.slots import Slots
from gape.language.request import Completion, Request, are_answered_together
from gape.language.transformers import TransformersModel
from small_model import FOLDER, MIXED, answers, model


def shared(batch: int) -> TransformersModel:
    made = TransformersModel(FOLDER, device="cpu", batch=batch)
    made._slots_up_to = np.inf
    return made


def asked_at_once(own: TransformersModel, lists: Sequence[Sequence[Request]]) -> list[list[Completion]]:
    together = threading.Barrier(len(lists))

    def ask(requests: Sequence[Request]) -> list[Completion]:
        together.wait()
        return answers(*requests, by=own)

    with ThreadPoolExecutor(len(lists)) as pool:
        return list(pool.map(ask, lists))


@pytest.mark.parametrize("batch", [2, 5, 64])
def test_every_thread_gets_its_own_answers(batch: int) -> None:
    own = shared(batch)
    lists = [[replace(request, seed=100 * number + request.seed) for request in MIXED] for number in range(4)]
    assert asked_at_once(own, lists) == [answers(*requests) for requests in lists]
    assert own._writer._thread is None or not own._writer._thread.is_alive() or not own._writer._waiting


def test_answers_of_several_threads_are_written_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    own = shared(64)
    most, whole = 0, Slots._front

    def front(slots: Slots, held: dict[int, object]) -> int:
        nonlocal most
        most = max(most, len(held))
        return whole(slots, held)  # type: ignore[arg-type]

    monkeypatch.setattr(Slots, "_front", front)
    long = [replace(request, max_tokens=60, temperature=1.0) for request in MIXED]
    asked_at_once(own, [long, long[::-1]])
    assert most > len(long)


def test_a_request_that_needs_longer_slots_is_answered_after_the_others() -> None:
    own = shared(64)
    lists = [MIXED, [Request("Tim", max_tokens=150)], [Request("The sun", max_tokens=300)]]
    assert asked_at_once(own, lists) == [answers(*requests) for requests in lists]


def test_answers_that_nobody_waits_for_are_dropped() -> None:
    own = shared(4)
    for _ in own.complete([replace(request, max_tokens=200) for request in MIXED]):
        break
    assert own._writer._thread is None
    assert not own._writer._waiting
    assert not own._writer._owners
    assert answers(*MIXED, by=own) == answers(*MIXED)


def test_an_error_reaches_every_thread() -> None:
    own = shared(2)
    own._model.model.norm.weight.data.fill_(float("nan"))

    def ask(_: int) -> str:
        with pytest.raises(InputError, match="computes values that are not finite"):
            answers(*MIXED[:3], by=own)
        return "refused"

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(ask, range(3))) == ["refused"] * 3


def test_only_models_with_slots_are_asked_by_several_threads() -> None:
    assert are_answered_together(shared(2))
    assert not are_answered_together(model())
    assert not are_answered_together(None)
