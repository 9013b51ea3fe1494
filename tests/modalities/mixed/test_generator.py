"""Rows with texts: cells as in a table, texts that are asked for with the cells they must agree with."""

import json
from dataclasses import replace
from datetime import date
from typing import Any

import numpy as np
import pytest

from contracts.generator import TextGeneratorContract
from gape.core.errors import InputError, ServiceError
from gape.core.protocols import Generator
from gape.core.types import Samples
from gape.generators.prompted import PromptedText
from gape.generators.prompts import Prompts, generic
from gape.generators.resampled import ResampledText
from gape.language.request import Request
from gape.language.scripted import ScriptedModel
from gape.modalities.mixed.columns import Prose, Telling
from gape.modalities.mixed.generator import MixedGenerator
from gape.modalities.mixed.schema import MixedSchema
from gape.modalities.rows.columns import Choices, Dates, Numbers
from gape.modalities.rows.schema import Schema
from generators.writing import write

CELLS = Schema(
    {
        "stars": Choices((1, 2, 3, 4, 5)),
        "price": Numbers(0.0, 9.0, 1, missing=True),
        "seen": Dates.between(date(2020, 1, 1), date(2022, 12, 31), "month"),
    }
)
REVIEWS = MixedSchema(
    ("stars", "title", "price", "seen", "review"),
    CELLS,
    {
        "title": Prose("titles of reviews", 8, missing=True, agrees=("stars",)),
        "review": Prose("customer reviews", 30, agrees=("stars", "title")),
    },
)
TEXTS_ONLY = MixedSchema(("review",), None, {"review": Prose("customer reviews", 30)})
PROMPTS: Prompts = generic("short everyday texts")


def generator(schema: MixedSchema = REVIEWS, answer: Any = write, **options: Any) -> tuple[MixedGenerator, Any]:
    model = ScriptedModel(answer)
    return MixedGenerator(schema, ResampledText(model, PROMPTS), PROMPTS.given, **options), model


class TestResampledRows(TextGeneratorContract):
    def make(self) -> Generator:
        return generator()[0]


class TestPromptedRows(TextGeneratorContract):
    def make(self) -> Generator:
        model = ScriptedModel(write, can_continue=False)
        return MixedGenerator(REVIEWS, PromptedText(model, PROMPTS), PROMPTS.given)


class TestTextsOnly(TextGeneratorContract):
    def make(self) -> Generator:
        return generator(TEXTS_ONLY)[0]


def rows(samples: Samples) -> list[dict[str, Any]]:
    return [json.loads(line) for line in samples]


def test_a_text_is_asked_for_with_the_cells_that_it_must_agree_with() -> None:
    made, model = generator()
    for row in rows(made.random(12, np.random.default_rng(0))):
        asked = next(call for call in model.calls if row["review"] in call.opening + write(call))
        cells = [f"stars: {row['stars']}"] + ([] if row["title"] is None else [f'title: "{row["title"]}"'])
        assert asked.prompt.endswith("\n" + "\n".join(cells))
        assert "customer reviews" in asked.prompt
        assert "price" not in asked.prompt


def test_a_value_is_told_by_what_it_means_and_texts_begin_as_the_schema_says() -> None:
    telling = {"stars": Telling({"1": "You are very angry."}, {"1": ("Never again",), "5": ("What a day", "So good")})}
    schema = MixedSchema(("stars", "review"), Schema({"stars": Choices((1, 2, 5))}), {"review": Prose("reviews", 30)})
    made, model = generator(replace(schema, telling=telling))
    made.vary(made.random(30, np.random.default_rng(0)), np.full(30, 0.9), np.random.default_rng(1))
    angry = [call for call in model.calls if call.prompt.endswith("\nYou are very angry.")]
    assert angry
    assert {call.opening for call in angry if "Write about the same" not in call.prompt} == {"Never again"}
    assert not any("stars: 1" in call.prompt for call in model.calls)
    assert {call.opening for call in model.calls if "stars: 5" in call.prompt} == {"What a day", "So good"}
    assert any("stars: 2" in call.prompt and call.opening not in {"What a day", "So good"} for call in model.calls)


def test_cells_can_change_under_the_same_texts() -> None:
    made, model = generator(text_only=0.0, cells_only=1.0)
    before = rows(made.random(40, np.random.default_rng(0)))
    model.calls.clear()
    after = rows(made.vary(as_lines(before), np.full(40, 0.6), np.random.default_rng(1)))
    for old, new in zip(before, after, strict=True):
        assert old["review"] == new["review"]
        assert old["title"] in {new["title"], None} or new["title"] is None
    assert np.mean([old != new for old, new in zip(before, after, strict=True)]) > 0.9
    assert len(model.calls) < 20  # only texts that were missing


def test_rows_are_written_to_wanted_cells() -> None:
    made, _ = generator()
    before = made.random(40, np.random.default_rng(0))
    wanted = [{"stars": str(1 + i % 2), "price": "3.5"} for i in range(40)]
    after = rows(made.vary_to(before, np.full(40, 0.9), wanted, np.random.default_rng(1)))
    delivered = [(old, new, i) for i, (old, new) in enumerate(zip(rows(before), after, strict=True)) if old != new]
    assert len(delivered) > 30
    for old, new, i in delivered:
        assert (new["stars"], new["price"]) == (1 + i % 2, 3.5)
        assert old["review"] != new["review"] or old["title"] != new["title"]
    with pytest.raises(InputError, match="'review' is not a column without texts"):
        made.vary_to(before, np.full(40, 0.9), [{"review": "x"}] * 40, np.random.default_rng(1))


def test_texts_change_where_what_they_agree_with_changed_and_nowhere_else() -> None:
    made, _ = generator(text_only=0.0, cells_only=0.0)
    before = rows(made.random(60, np.random.default_rng(0)))
    after = rows(made.vary(as_lines(before), np.full(60, 0.6), np.random.default_rng(1)))
    changed = 0
    for old, new in zip(before, after, strict=True):
        agree = ("stars", "title")
        if all(old[name] == new[name] for name in agree):
            assert old["review"] == new["review"]
        else:
            changed += 1
            assert old["review"] != new["review"]
    assert 0 < changed < 60


def test_a_variation_of_texts_leaves_the_cells_and_rewrites_a_share() -> None:
    made, model = generator(text_only=1.0, cells_only=0.0)
    before = rows(made.random(40, np.random.default_rng(0)))
    model.calls.clear()
    after = rows(made.vary(as_lines(before), np.full(40, 0.4), np.random.default_rng(1)))
    for old, new in zip(before, after, strict=True):
        assert [old[name] for name in CELLS.columns] == [new[name] for name in CELLS.columns]
        assert (old["title"] is None) == (new["title"] is None)
    assert np.mean([old != new for old, new in zip(before, after, strict=True)]) > 0.8
    kept = [set(new["review"].split()) & set(old["review"].split()) for old, new in zip(before, after, strict=True)]
    assert np.mean([len(words) > 10 for words in kept]) > 0.2
    assert {call.prompt.count("stars: ") for call in model.calls} == {1}


def test_a_row_whose_text_fails_stays_as_it_was() -> None:
    before = generator()[0].random(20, np.random.default_rng(0))
    made, _ = generator(answer=lambda _: None)
    after = made.vary(before, np.full(20, 0.6), np.random.default_rng(1))
    same = [old == new for old, new in zip(before, after, strict=True)]
    assert np.mean(same) > 0.5
    for old, new in zip(rows(before), rows(after), strict=True):
        assert old["review"] == new["review"]
        assert old["stars"] == new["stars"]


def test_a_model_that_never_answers_is_an_error() -> None:
    with pytest.raises(ServiceError, match="gave usable answers to 0 of"):
        generator(answer=lambda _: None)[0].random(20, np.random.default_rng(0))


def test_rows_whose_text_fails_at_the_start_are_replaced_by_whole_rows() -> None:
    def moody(request: Request) -> str | None:
        return None if "stars: 3" in request.prompt else write(request)

    drawn = rows(generator(answer=moody)[0].random(60, np.random.default_rng(0)))
    assert len(drawn) == 60
    assert 3 not in {row["stars"] for row in drawn}


@pytest.mark.parametrize("hostile", ["{topic} {unknown}", 'a " quote', "<|im_end|>", "x" * 10_000])
def test_cells_that_look_like_templates_stay_what_they_are(hostile: str) -> None:
    schema = MixedSchema(
        ("kind", "review"), Schema({"kind": Choices((hostile, "b"))}), {"review": Prose("customer reviews", 30)}
    )
    made, model = generator(schema)
    drawn = made.random(8, np.random.default_rng(0))
    assert {row["kind"] for row in rows(drawn)} <= {hostile, "b"}
    assert any(hostile[:100] in call.prompt for call in model.calls)
    made.vary(drawn, np.full(8, 0.6), np.random.default_rng(1))


def test_samples_of_another_schema_are_refused() -> None:
    with pytest.raises(InputError, match="text 1 of 1 is not a row of this schema"):
        generator()[0].vary(
            generator(TEXTS_ONLY)[0].random(1, np.random.default_rng(0)), np.ones(1), np.random.default_rng(0)
        )


def as_lines(samples: list[dict[str, Any]]) -> Samples:
    return np.array([json.dumps(row, ensure_ascii=False) for row in samples], dtype=object)
