"""A drafted schema has the columns and types of the data, nothing of their content, and is refused until filled in."""

import tomllib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from command import gape, one_line_error
from gape.core.errors import InputError
from gape.modalities import usual_modality
from gape.modalities.drafting import draft_schema
from gape.modalities.mixed import MixedSchema
from gape.modalities.rows.columns import FILL_IN

ROWS: list[dict[str, Any]] = [
    {"stars": 4711, "price": 47.11, "seen": "1931-07-23", "good": True, "city": "Zebra", "review": "quokka raincoat"},
    {"stars": None, "price": 4711, "seen": "1931-07-24", "good": None, "city": "Ibex", "review": ""},
]


def test_a_draft_has_names_and_types_and_nothing_else() -> None:
    for source in (ROWS, pa.Table.from_pylist(ROWS[:1])):
        draft = draft_schema(source)
        tables = tomllib.loads(draft)
        assert list(tables) == list(ROWS[0])
        assert tables["stars"] == tables["price"] == {"least": FILL_IN, "most": FILL_IN}
        assert tables["seen"] == {"least": FILL_IN, "most": FILL_IN, "resolution": "day"}
        assert tables["good"] == {"choices": ["false", "true"]}
        assert tables["city"] == {"choices": [FILL_IN]}
        assert tables["review"] == {"text": FILL_IN, "words": FILL_IN}
        assert not any(value in draft for value in ("4711", "47.11", "1931", "Zebra", "Ibex", "quokka"))


def test_a_draft_does_not_depend_on_anything_but_types() -> None:
    others = [row | {"stars": 5, "price": 0.5, "seen": "2024-01-01", "city": "x", "review": "y " * 500} for row in ROWS]
    assert draft_schema(others) == draft_schema(ROWS)
    assert draft_schema([ROWS[0] | {"stars": "many"}]) != draft_schema(ROWS)


def test_lists_are_drafted_as_conversations() -> None:
    tables = tomllib.loads(draft_schema([{"chat": [{"role": "zebra", "content": "quokka"}]}]))
    assert tables == {"chat": {"roles": [FILL_IN], "least": FILL_IN, "most": FILL_IN, "words": FILL_IN}}


def test_names_that_may_be_content_are_left_out() -> None:
    long = "a name that has too many words to be a name"
    draft = draft_schema([{"stars": 1, long: 2, 'a "b"\\': 3}])
    assert long not in draft
    assert list(tomllib.loads(draft)) == ["stars", 'a "b"\\']
    assert "1 columns whose names may be content are left out" in draft


def test_the_command_writes_a_draft_that_is_refused_until_it_is_filled_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("reviews.csv").write_text("stars,review\n4711,quokka raincoat\n")
    shown = gape("schema", "reviews.csv")
    assert shown.exit_code == 0
    assert gape("schema", "reviews.csv", "--out", "reviews.toml").exit_code == 0
    assert Path("reviews.toml").read_text() == shown.stdout
    assert "exists and nothing is overwritten" in one_line_error(gape("schema", "reviews.csv", "--out", "reviews.toml"))
    planned = gape("plan", "reviews.csv", "--schema", "reviews.toml", "--epsilon", "1")
    assert "least of column 'stars' of reviews.toml is still to be filled in" in one_line_error(planned)
    filled = shown.stdout.replace(f'least = "{FILL_IN}"', "least = 1").replace(f'most = "{FILL_IN}"', "most = 5")
    filled = filled.replace(f'words = "{FILL_IN}"', "words = 80").replace(FILL_IN, "customer reviews")
    Path("filled.toml").write_text(filled)
    assert usual_modality("filled.toml") == "mixed"
    assert list(MixedSchema.read("filled.toml").columns) == ["stars", "review"]


def test_data_without_columns_has_no_schema() -> None:
    with pytest.raises(InputError, match="has no columns"):
        draft_schema(["a text"])
