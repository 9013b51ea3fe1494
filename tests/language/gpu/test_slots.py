"""Slots against the model itself, and against batches."""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from gape.core.errors import InputError
from gape.language.gpu import slots as slots_module
from gape.language.gpu.sampling import Sampling, block_width, likeliest
from gape.language.gpu.slots import Slots
from gape.language.request import Request
from gape.language.row import Ends, Row, ends_sentence
from gape.language.transformers import TransformersModel
from small_model import FOLDER, MIXED, answers, model, tokens

ENDLESS = Ends(frozenset(), frozenset())


@cache
def slotted(batch: int) -> TransformersModel:
    """The small model as a GPU would have it: heads share keys, and answers are written in slots."""
    made = TransformersModel(FOLDER, device="cpu", batch=batch)
    made._slots_up_to = np.inf
    return made


@pytest.mark.parametrize("batch", [1, 3, 64])
def test_answers_are_those_of_batches(batch: int) -> None:
    assert answers(*MIXED, by=slotted(batch)) == answers(*MIXED)
    assert answers(*MIXED[::-1], by=slotted(batch)) == answers(*MIXED[::-1])  # in slots that were used before


def test_answers_that_move_to_the_front_stay_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    own = slotted(3)
    prompts = [tokens(text) for text in ("Once upon a time", "The sun", "Lily", "A big red ball", "Tim had")]

    def written(fewest: int) -> tuple[list[list[int]], set[int]]:
        monkeypatch.setattr(slots_module, "_FEWEST", fewest)
        rows = [Row(i, Request("", seed=i), prompt, 5 + 12 * i) for i, prompt in enumerate(prompts)]  # the longest last
        parts = (own._torch, own._transformers, own._model, Sampling(50, 1.0, 0.0), ENDLESS)
        slots = Slots(*parts, count=5, room=96)
        assert len(list(slots.write(rows))) == len(rows)
        return [row.tokens for row in rows], set(slots._steps)

    whole, sizes = written(fewest=5)
    assert sizes == {5}
    assert written(fewest=1) == (whole, {5, 2, 1})


def test_the_small_model_has_heads_that_share_keys() -> None:
    config = slotted(3)._model.config
    assert config.num_key_value_heads < config.num_attention_heads


def test_at_temperature_zero_every_token_is_the_likeliest_of_the_model_alone() -> None:
    import torch  # noqa: PLC0415  (heavy)

    own = slotted(3)
    prompts = [tokens(text) for text in ("Once upon a time there was a dog.", "The sun", "Lily", "A big red ball")]
    rows = [Row(i, Request("", temperature=0.0), prompt, 4 + 3 * i) for i, prompt in enumerate(prompts)]
    slots = Slots(torch, own._transformers, own._model, Sampling(50, 1.0, 0.0), ENDLESS, count=3, room=64)
    assert {row.index for row in slots.write(rows)} == {0, 1, 2, 3}
    for row in rows:
        assert len(row.tokens) == row.limit
        with torch.inference_mode():
            logits = model()._model(input_ids=torch.tensor([row.prompt + row.tokens])).logits[0]
        assert logits[len(row.prompt) - 1 : -1].argmax(1).tolist() == row.tokens


def test_a_prompt_of_one_token_needs_no_reading() -> None:
    import torch  # noqa: PLC0415  (heavy)

    own = slotted(3)
    slots = Slots(torch, own._transformers, own._model, Sampling(50, 1.0, 0.0), ENDLESS, count=2, room=16)
    (row,) = slots.write([Row(0, Request("", temperature=0.0), [1], 5)])
    with torch.inference_mode():
        logits = model()._model(input_ids=torch.tensor([[1, *row.tokens]])).logits[0]
    assert logits[:-1].argmax(1).tolist() == row.tokens


@pytest.mark.parametrize("made", [slotted, model])
def test_an_answer_ends_with_the_first_sentence_after_enough_tokens(made: Callable[[int], TransformersModel]) -> None:
    own = made(3)
    whole = [replace(request, max_tokens=60) for request in MIXED]
    for request, short, long in zip(
        whole,
        answers(*(replace(request, enough=20) for request in whole), by=own),
        answers(*whole, by=own),
        strict=True,
    ):
        written = own._tokenizer.encode(long.text, add_special_tokens=False)
        assert long.text.startswith(short.text), request
        assert short.completion_tokens <= long.completion_tokens
        if short.completion_tokens < long.completion_tokens:
            assert short.completion_tokens >= 20
            assert short.text.endswith((".", "!", "?", '"'))
            assert not short.finished
        else:
            assert not any(ends_sentence(token) for token in own._tokenizer.convert_ids_to_tokens(written[20:-1]))


def test_which_tokens_end_a_sentence() -> None:
    assert all(map(ends_sentence, (".", '."', "!)", "?\u201d")))
    assert not any(map(ends_sentence, ("\u2581end", ",", ")", "")))


def test_slots_are_kept_between_calls_and_made_anew_for_longer_ones() -> None:
    own = TransformersModel(FOLDER, device="cpu", batch=2)
    own._slots_up_to = np.inf
    answers(*MIXED, by=own)
    first = own._writer.slots
    assert first is not None
    answers(*MIXED, by=own)
    assert own._writer.slots is first
    answers(Request("Tim", max_tokens=first.room), by=own)
    assert own._writer.slots is not None
    assert own._writer.slots.room > first.room


def test_too_many_slots_for_the_memory_are_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    own = TransformersModel(FOLDER, device="cpu", batch=8)
    own._slots_up_to = np.inf
    whole, steps = Slots._advance, 0

    def short_of_memory(slots: Slots, front: int) -> None:
        nonlocal steps
        steps += 1
        if slots.count > 4 and steps > 20:  # some answers are done by then
            raise own._torch.OutOfMemoryError("there is no more")
        whole(slots, front)

    monkeypatch.setattr(Slots, "_advance", short_of_memory)
    assert answers(*MIXED, by=own) == answers(*MIXED)
    assert own._writer.slots is not None
    assert own._writer.slots.count <= 4


def test_values_that_are_no_numbers_are_refused() -> None:
    own = TransformersModel(FOLDER, device="cpu", batch=2)
    own._slots_up_to = np.inf
    own._model.model.norm.weight.data.fill_(np.nan)
    with pytest.raises(InputError, match="computes values that are not finite"):
        answers(*MIXED[:2], by=own)


def test_the_likeliest_of_blocks_are_the_likeliest_of_all() -> None:
    import torch  # noqa: PLC0415  (heavy)

    class OnGpu:
        """Logits that say they lie on a GPU, where blocks are used."""

        is_cuda = True

        def __init__(self, logits: Any) -> None:
            self._logits, self.shape = logits, logits.shape

        def __getattr__(self, name: str) -> Any:
            return getattr(self._logits, name)

        def topk(self, kept: int) -> Any:
            raise AssertionError(f"all {self.shape[1]} were searched for {kept}")

    for kept in (1, 50, 400):
        logits = torch.randn(7, 12 * 1024, generator=torch.Generator().manual_seed(kept))
        logits[0, : kept + 10] += 10  # many in a few blocks
        values, places = likeliest(OnGpu(logits), kept)
        expected = logits.topk(kept)
        assert torch.equal(values, expected.values)
        assert torch.equal(places, expected.indices)


def test_blocks_are_chosen_so_that_few_values_are_searched() -> None:
    assert [block_width(49_152, kept) for kept in (1, 50, 400)] == [192, 32, 12]
    assert block_width(49_157, 50) == 1  # a prime number
    assert block_width(1_000, 400) == 1
