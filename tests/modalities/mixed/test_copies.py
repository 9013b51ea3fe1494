"""Near copies among rows: recognised by their texts, whatever the other cells are."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gape.core.copies import repeats
from gape.core.protocols import Candidates
from gape.core.types import Samples, as_samples
from gape.evolution.last_pass import LastPass
from gape.modalities import Columns, Mixed
from gape.runs.resolve import make_plan, resolved
from gape.runs.selector import make_selector
from gape.runs.settings import Settings

SCHEMA = """
[stars]
choices = [1, 2, 3, 4, 5]
[review]
text = "customer reviews"
missing = true
[chat]
roles = ["customer", "agent"]
missing = true
"""
SAME = "We went there in the evening and the soup was cold again."


@pytest.fixture
def schema(tmp_path: Path) -> Path:
    path = tmp_path / "reviews.toml"
    path.write_text(SCHEMA)
    return path


def rows(*cells: dict[str, Any]) -> Samples:
    return as_samples([json.dumps({"stars": 3, "review": None, "chat": None} | row) for row in cells])


def chat(*turns: str) -> list[dict[str, str]]:
    return [{"role": ("customer", "agent")[i % 2], "content": text} for i, text in enumerate(turns)]


def test_rows_with_the_same_text_are_near_copies_and_rows_with_the_same_cells_are_not(schema: Path) -> None:
    kind = Mixed(schema)
    samples = rows(
        {"stars": 1, "review": SAME},
        {"stars": 5, "review": f"Hear this. {SAME}"},
        {"stars": 1, "review": "Another place, and a better one."},
        {"stars": 1},
        {"stars": 1},
    )
    assert repeats(kind.wording(samples)).tolist() == [True, True, False, False, False]
    assert repeats(Mixed().wording(samples)).tolist() == [True, True, False, False, False]


def test_conversations_that_begin_alike_are_not_near_copies(schema: Path) -> None:
    kind = Mixed(schema)
    hello = "Hello, I have a question about my order."
    one, other = (chat(hello, f"Of course: {answer}") for answer in ("which of the two is it, the red one?", "go on!"))
    third = chat(hello, "Of course: which of the two is it, the red one or the blue one?")
    first, second, copy = kind.wording(rows({"chat": one}, {"chat": other}, {"chat": third}))
    assert first.split()[:2] == ["Of", "course:"]
    assert second.startswith(hello)
    assert repeats([first, copy]).all()


def test_of_near_copies_one_survives_with_the_cells_that_won_the_votes(schema: Path) -> None:
    settings = Settings(
        data="", epsilon=4.0, samples=2, rounds=1, schema=str(schema), modality="mixed", generator="hf:tiny"
    )
    kind = settings.records
    known = kind.read([{"stars": 1, "review": f"A text of day {i}.", "chat": None} for i in range(50)], Columns())
    settings = resolved(settings, known)
    samples = rows(
        {"stars": 1, "review": SAME},
        {"stars": 5, "review": SAME},
        {"stars": 2, "review": "Another place, and a better one."},
    )
    points = np.eye(3, dtype=np.float32)
    rule = make_selector(settings, make_plan(settings)).among(Candidates(samples, np.zeros(3)))  # type: ignore[attr-defined]
    chosen = rule(np.array([900, 4000, 500]), points, 2, np.random.default_rng(0))
    assert sorted(chosen.indices.tolist()) == [1, 2]


def test_the_last_pass_rewrites_rows_by_their_texts(schema: Path) -> None:
    class Fresh:
        def vary(self, samples: Samples, scales: object, rng: object) -> Samples:
            return rows(*({"stars": 2, "review": f"Number {i} is a new text."} for i in range(len(samples))))

    class Nowhere:
        def embed(self, samples: Samples) -> Any:
            return np.zeros((len(samples), 1), dtype=np.float32)

    kind = Mixed(schema)
    samples = rows({"stars": 1, "review": SAME}, {"stars": 2, "review": SAME}, {"stars": 2}, {"stars": 2})
    last = LastPass(Fresh(), Nowhere(), 0.9, wording=kind.wording)  # type: ignore[arg-type]
    rewritten = last(samples, np.random.default_rng(0))
    assert rewritten.tolist()[::2] == samples.tolist()[::2]
    assert rewritten[3] == samples[3]
    assert json.loads(rewritten[1])["review"] == "Number 0 is a new text."
