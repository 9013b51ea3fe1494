"""Rows read as the cells of a survey are the rows that `load_rows` reads: contents, users, errors and all."""

import math
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gape.core.errors import InputError
from gape.modalities import Columns, Records, Rows, Schema, load_rows
from gape.modalities.rows import coded
from gape.modalities.rows.cells import Cells
from gape.modalities.rows.columns import Choices, Dates, Numbers
from gape.modalities.rows.survey import TableSurvey
from gape.runs.electorate import TextElectorate, text_fingerprint

SCHEMA = Schema(
    {
        "age": Numbers(17, 90),
        "gain": Numbers(-50.0, 100.0, 1, missing=True),
        "kind": Choices(("a", "1", "true"), missing=True),
        "seen": Dates.between(date(2020, 1, 1), date(2022, 12, 31), missing=True),
        "hour": Dates.between(date(2020, 1, 1), date(2020, 1, 9), "hour"),
    },
    spelled={"gain": frozenset({"NA", "-1"}), "kind": frozenset({"?"})},
)
AGES = ["39", " 39 ", 39, 39.4, "1e3", Decimal(40), np.int64(41), "inf"]
GAINS = ["70.25", 70.25, 70, "-0.04", "-1", "NA", "", None, math.nan, -1, 1e9]
KINDS = ["a", " a", 1, 1.0, "1.0", True, "TRUE", "?", None, "", np.bool_(1)]
DAYS = ["2021-03-04", date(2021, 3, 4), datetime(2021, 3, 4, 5, tzinfo=UTC), "1066-10-14", np.datetime64("2021-03-04")]
HOURS = ["2020-01-03 05:59", "2020-01-03T05", datetime(2020, 1, 3, 5), "2020-01"]
WRONG = ["x", "nan", True, 10**400, b"1", "", None, 2 + 1j]
USERS = ["Ann", "ann ", 7, "7.0", "007", None]


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coded, "_AT_ONCE", 7)
    monkeypatch.setattr(coded, "_MOST_KNOWN", 2)


def outcome(read: Callable[[], Records]) -> Records | str:
    try:
        return read()
    except InputError as error:
        return str(error)


def assert_same(source: Any, user: str | None = None) -> Records | None:
    slow = outcome(lambda: load_rows(source, SCHEMA, user))
    fast = outcome(lambda: coded.load_cells(source, SCHEMA, user))
    if isinstance(slow, str) or isinstance(fast, str):
        assert slow == fast
        return None
    cells = Cells(SCHEMA)
    np.testing.assert_array_equal(fast.content, cells.of(SCHEMA.codes(slow.content)))
    assert text_fingerprint(fast, b"salt") == text_fingerprint(slow, b"salt")
    assert (fast.source, fast.dropped, fast.units, len(fast)) == (slow.source, slow.dropped, slow.units, len(slow))
    if user is not None and slow.users is not None and fast.users is not None:
        assert len(set(zip(slow.users.tolist(), fast.users.tolist(), strict=True))) == slow.units
    return fast


@given(st.data())
def test_cells_users_and_errors_are_those_of_the_rows(data: st.DataObject) -> None:
    """Either columns of one kind of value, which are coded together, or anything, also what is refused."""
    given = dict(zip(SCHEMA.columns, (AGES, GAINS, KINDS, DAYS, HOURS), strict=True))
    kinds = {}
    for name, values in given.items():
        kind = data.draw(st.sampled_from([None, str, int, float, date]))
        own = [value for value in values if value is None or type(value) is kind]
        wrong = [] if data.draw(st.integers(0, 4)) else WRONG
        kinds[name] = st.sampled_from([*(own if any(value is not None for value in own) else values), *wrong])
    rows = data.draw(st.lists(st.fixed_dictionaries({**kinds, "who": st.sampled_from(USERS[:-1])}), min_size=1))
    if not data.draw(st.integers(0, 4)):
        rows[-1]["who"] = None
    assert_same(rows, data.draw(st.sampled_from([None, "who"])))


@pytest.mark.parametrize(
    "changes",
    [
        [{"who": None}, {"age": "x"}],  # the first row that is wrong in anything
        [{"age": "x"}, {"who": None}],
        [{"age": 39}, {"age": True}],  # equal values of different types
        [{"kind": True}, {"kind": 1}, {"kind": 1.0}],
        [{"kind": 1}, {"kind": True}],
        [{"gain": -1}, {"gain": "-1"}],
        [{"seen": None}, {"hour": None}],
    ],
)
def test_rows_that_differ_in_little(changes: list[dict[str, Any]]) -> None:
    row = {"age": 39, "gain": 70, "kind": "a", "seen": None, "hour": "2020-01-03 05:59", "who": "Ann"}
    assert_same([row | change for change in changes], "who")


def lines(count: int) -> Iterator[str]:
    rng = np.random.default_rng(0)
    yield "hour,who,kind,age,seen,gain,note"
    for number in range(count):
        gain = rng.choice(["", "NA", f"{rng.normal(20, 30):.2f}"])
        seen = date(2020, 1, 1).fromordinal(737_425 + int(rng.integers(1_000)))
        hour, kind = f"2020-01-0{number % 9 + 1} 0{number % 7}:30", rng.choice(["a", "1", "?"])
        yield f"{hour},u{number // 3},{kind},{number},{seen},{gain},n"


def test_files_give_the_same_however_many_blocks_they_have(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    for count in (1, 6, 7, 8, 14, 50):
        path.write_text("\n".join(lines(count)) + "\n")
        assert assert_same(path, "who") is not None
    pq.write_table(
        pa.table({name: [row[name] for row in rows_of(path)] for name in rows_of(path)[0]}), tmp_path / "t.parquet"
    )
    assert assert_same(tmp_path / "t.parquet", "who") is not None


def rows_of(path: Path) -> list[dict[str, str]]:
    header, *rest = path.read_text().splitlines()
    return [dict(zip(header.split(","), line.split(","), strict=True)) for line in rest]


@pytest.mark.parametrize("wrong", [{}, {9: "x"}, {2: "x"}, {11: ""}])
def test_a_file_that_breaks_off_gives_the_error_of_its_first_wrong_row(tmp_path: Path, wrong: dict[int, str]) -> None:
    path = tmp_path / "table.csv"
    found = list(lines(20))
    for number, cell in wrong.items():
        cells = found[number].split(",")
        found[number] = ",".join([*cells[:3], cell, *cells[4:]])
    found[12] = "too,few"
    path.write_text("\n".join(found) + "\n")
    said = outcome(lambda: coded.load_cells(path, SCHEMA))
    assert f"row {min(wrong, default=12)} of table.csv" in str(said)
    assert_same(path)


def test_empty_tables_are_refused(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text(next(lines(1)) + "\n")
    assert assert_same(tmp_path / "table.csv") is None
    assert assert_same([{"age": 3}]) is None


def test_the_same_records_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines(200)) + "\n")
    modality, survey = Rows(SCHEMA), TableSurvey(SCHEMA)
    for user in (None, "who"):
        columns = Columns(user=user)
        held, read = modality.read(path, columns), modality.read_surveyed(path, columns)
        answering = [TextElectorate(records, np.zeros((200, 1), dtype=np.float32)) for records in (held, read)]
        answers: list[Any] = []
        for turn, _ in enumerate(survey.per_record, start=-2):
            questions = survey.questions(answers, 3.0)
            first, second = (electorate.answer(questions, turn) for electorate in answering)
            np.testing.assert_array_equal(first, second)
            assert first.sum() == questions.per_record * (200 if user is None else 67)
            answers.append(first)
        assert answering[0].fingerprint(b"salt") == answering[1].fingerprint(b"salt")


def test_only_a_survey_reads_more_rows_than_are_held(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines(50)) + "\n")
    monkeypatch.setattr("gape.modalities.rows.MOST_HELD", 49)
    modality = Rows(SCHEMA)
    assert len(modality.read_surveyed(path, Columns())) == 50
    with pytest.raises(
        InputError, match=r"table.csv has more than 49 rows, too many to hold in memory .*; use a random"
    ):
        modality.read(path, Columns())
    monkeypatch.setattr("gape.modalities.rows.MOST_HELD", 50)
    assert len(modality.read(path, Columns())) == 50


def test_the_repr_shows_no_cell() -> None:
    row = {"age": 39, "gain": 70, "kind": "a", "seen": None, "hour": "2020-01-03 05:59"}
    shown = repr(coded.load_cells([row | {"who": "zebra-4711"}], SCHEMA, "who"))
    assert "zebra" not in shown
    assert "39" not in shown
