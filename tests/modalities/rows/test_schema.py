"""What a schema allows, how rows become lines and codes, and that no message quotes a private cell."""

import json
import math
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gape.core.errors import InputError
from gape.core.types import as_samples
from gape.modalities import load_rows
from gape.modalities.rows.columns import BINS, Dates
from gape.modalities.rows.schema import MOST_CHOICES, Choices, Numbers, Schema

PEOPLE = """
[age]
least = 17
most = 90

[weight]
least = 30.0
most = 200.0
decimals = 1
missing = true

[income]
choices = ["<=50K", ">50K"]
missing = true

[children]
choices = [0, 1, 2, 3]
"""
HIDDEN = "zebra-4711"


@pytest.fixture
def people(tmp_path: Path) -> Schema:
    return schema_of(tmp_path, PEOPLE)


def schema_of(folder: Path, text: str) -> Schema:
    path = folder / "schema.toml"
    path.write_text(text)
    return Schema.read(path)


def test_the_columns_are_those_of_the_file(people: Schema) -> None:
    assert people.columns == {
        "age": Numbers(17, 90),
        "weight": Numbers(30.0, 200.0, 1, missing=True),
        "income": Choices(("<=50K", ">50K"), missing=True),
        "children": Choices((0, 1, 2, 3)),
    }


@pytest.mark.parametrize(
    ("least", "most", "decimals"),
    [("0.0", "1.0", 3), ("0.0", "200.0", 1), ("0.0", "1e9", 0), ("0.5", "1e9", 1), ("0.1234", "1.0", 4)],
)
def test_fractions_have_steps_of_a_thousandth_of_the_range(
    tmp_path: Path, least: str, most: str, decimals: int
) -> None:
    column = schema_of(tmp_path, f"[x]\nleast = {least}\nmost = {most}\n").columns["x"]
    assert column == Numbers(float(least), float(most), decimals)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "at least one column"),
        ("age = 3", "column 'age' of .* must be a table with choices, or least and most, got 3"),
        ("[age]", "needs choices, or least and most as numbers"),
        ("[age]\nleast = 1", "needs choices, or least and most as numbers"),
        ("[age]\nleast = 9\nmost = 9", "least must be less than most"),
        ("[age]\nleast = 1\nmost = inf", "needs choices, or least and most as numbers"),
        ("[age]\nleast = 1\nmost = 9\ndecimals = 13", "decimals must lie between 0 and 12"),
        ("[age]\nleast = 1\nmost = 9\ndecimals = true", "decimals must be an integer"),
        ("[age]\nleast = 1\nmost = 9\nmissing = 1", "missing of .* must be true, false or how .*, got 1"),
        ("[age]\nleast = 1\nmoist = 9", "has 'moist'; did you mean 'most'?"),
        ('[sex]\nchoices = "f"', "choices must be a list"),
        ('[sex]\nchoices = ["f"]', "must be 2 to 1,000 choices"),
        ('[sex]\nchoices = ["f", "f "]', "all different and not blank"),
        ('[sex]\nchoices = ["f", " "]', "all different and not blank"),
        ('[sex]\nchoices = [1, "b"]', "choices must be a list of texts or a list of integers"),
        (f"[id]\nchoices = [1, {2**63}]", "integers of more than 64 bits must be written as texts"),
        (f"[x]\nleast = 0\nmost = {'9' * 400}", "as numbers between -1e15 and 1e15"),
        ("[x]\nleast = 0.25\nmost = 0.35\ndecimals = 1", "least and most must have at most 1 decimals"),
        ("[sex]\nchoices = [true, false]", "choices must be a list of texts or a list of integers"),
        ("[sex]\nchoices = [0.5, 1.5]", "choices must be a list of texts or a list of integers"),
        (f"[zip]\nchoices = {list(range(MOST_CHOICES + 1))}", "must be 2 to 1,000 choices"),
        ("[age", "are not valid TOML"),
        ("[x]\nleast = 2020-01-01\nmost = 9", "least and most must both be dates"),
        ("[x]\nleast = 2020-01-01\nmost = 2020-01-01", "least must be less than most"),
        ('[x]\nleast = 2020-01-01\nmost = 2021-01-01\nresolution = "week"', "resolution must be one of year, month"),
        ("[x]\nleast = 2020-01-01\nmost = 2021-01-01\ndecimals = 2", "has 'decimals'; did you mean"),
        ("[x]\nleast = 0\nmost = 9\nweight = 0", "weight of .* must be a number above 0 and up to 1000, got 0"),
        ("[x]\nleast = 0\nmost = 9\nweight = nan", "weight of .* must be a number above 0"),
        ("[x]\nleast = 0\nmost = 9\nweight = true", "weight of .* must be a number above 0"),
    ],
)
def test_a_schema_that_is_none_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        schema_of(tmp_path, text)


def test_a_schema_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot be read .*; check the path"):
        Schema.read(tmp_path / "nothing.toml")


@pytest.mark.parametrize(
    ("cells", "row"),
    [
        ([39, 70.25, ">50K", 2], {"age": 39, "weight": 70.2, "income": ">50K", "children": 2}),
        (["39", " 70 ", " >50K ", "2"], {"age": 39, "weight": 70.0, "income": ">50K", "children": 2}),
        ([39.6, None, None, 2.0], {"age": 40, "weight": None, "income": None, "children": 2}),
        ([Decimal(16), math.nan, "", 0], {"age": 17, "weight": None, "income": None, "children": 0}),
        ([np.int64(120), np.float32(1e9), "<=50K", np.int32(3)], [90, 200.0, "<=50K", 3]),
        (["-inf", "inf", "<=50K", 3], [17, 200.0, "<=50K", 3]),
        ([-(10**400), 10**400, "<=50K", "2.0"], [17, 200.0, "<=50K", 2]),
        ([39, 70, "<=50K", Decimal("2.00")], [39, 70.0, "<=50K", 2]),
        (["1e1000", "-1e1000", "<=50K", 3], [90, 30.0, "<=50K", 3]),
    ],
)
def test_cells_become_the_nearest_that_the_schema_allows(people: Schema, cells: list[object], row: object) -> None:
    found = json.loads(people.row(cells, "row 1"))
    assert (list(found.values()) if isinstance(row, list) else found) == row


@pytest.mark.parametrize(
    ("cells", "said"),
    [
        ([HIDDEN, 70, ">50K", 2], "row 7 has a value that is not a number in column 'age'; fix or remove the row"),
        ([True, 70, ">50K", 2], "row 7 has a value of type bool instead of a number in column 'age'"),
        ([b"39", 70, ">50K", 2], "row 7 has a value of type bytes instead of a number in column 'age'"),
        ([None, 70, ">50K", 2], "row 7 is empty in column 'age'; fill it in, or set missing = true"),
        ([39, 70, HIDDEN, 2], "row 7 has a value that is none of its 2 choices in column 'income'"),
        ([np.datetime64("2020-01-01"), 70, ">50K", 2], "row 7 has a value of type datetime64 instead of a number"),
        ([1 + 2j, 70, ">50K", 2], "row 7 has a value of type complex instead of a number"),
        ([39, 70, ">50K", 10**5000], "row 7 has a value that is none of its 4 choices in column 'children'"),
        ([39, 70, ">50K", 2.5], "row 7 has a value that is none of its 4 choices in column 'children'"),
    ],
)
def test_what_the_schema_does_not_allow_is_refused_without_being_quoted(
    people: Schema, cells: list[object], said: str
) -> None:
    with pytest.raises(InputError, match=said) as caught:
        people.row(cells, "row 7")
    assert HIDDEN not in str(caught.value)
    assert caught.value.__cause__ is None


def test_choices_that_are_true_or_false(tmp_path: Path) -> None:
    for choices in ("[1, 0]", '["True", "False"]'):
        schema = schema_of(tmp_path, f"[ill]\nchoices = {choices}\n")
        lines = as_samples([schema.row([cell], "row") for cell in (True, np.bool_(0))])
        assert schema.codes(lines).ravel().tolist() == [0, 1]
    schema = schema_of(tmp_path, '[ill]\nchoices = ["true", "false"]\n')
    assert [json.loads(schema.row([cell], "row"))["ill"] for cell in (True, np.bool_(0), "true", "FALSE", "True")] == [
        "true",
        "false",
        "true",
        "false",
        "true",
    ]


@given(st.data())
def test_codes_and_lines_are_the_same_rows(data: st.DataObject) -> None:
    empty = st.booleans()
    letters = Choices(("x", "ü,", '"'), data.draw(empty))
    least, decimals = data.draw(st.sampled_from([(-3, 0), (-3, 3), (0.25, 2), (0.25, 3)]))
    numbers = Numbers(least, 7, decimals, data.draw(empty))
    schema = Schema({"a": letters, "b": numbers})
    cells = [
        st.sampled_from(["x", "ü,", '"', *([None] if letters.missing else [])]),
        st.one_of(st.floats(-10, 10), *([st.none()] if numbers.missing else [])),
    ]
    rows = data.draw(st.lists(st.tuples(*cells), min_size=1))
    lines = as_samples([schema.row(row, "row") for row in rows])
    codes = schema.codes(lines)
    np.testing.assert_array_equal(schema.lines(codes), lines)
    bins = schema.bins(codes)
    assert (bins >= 0).all()
    assert (bins <= [3, BINS]).all()


@pytest.mark.parametrize(
    "line", ["", "[]", "3", '{"age": 3}', "{" * 100_000, '{"sex": "f"}', '{"age": "x", "sex": "f"}']
)
def test_a_line_that_is_no_row_is_refused(tmp_path: Path, line: str) -> None:
    schema = schema_of(tmp_path, '[age]\nleast = 1\nmost = 9\n[sex]\nchoices = ["f", "m"]')
    with pytest.raises(InputError, match="text 2 of 2 is not a row of this schema"):
        schema.codes(as_samples(['{"age": 3, "sex": "f"}', line]))


def test_the_name_of_a_schema_follows_from_what_it_says(tmp_path: Path) -> None:
    first = schema_of(tmp_path, PEOPLE)
    assert repr(first) == repr(schema_of(tmp_path, PEOPLE))
    for other in (PEOPLE.replace("90", "91"), PEOPLE.replace("[age]", "[years]"), PEOPLE + "[x]\nleast = 0\nmost = 1"):
        assert repr(schema_of(tmp_path, other)) != repr(first)
    named = {name: Numbers(0, 1) for name in "ab"}
    assert repr(Schema(named)) != repr(Schema(dict(reversed(named.items()))))


def test_rows_are_read_from_what_texts_are_read_from(people: Schema, tmp_path: Path) -> None:
    columns = {"income": [">50K", None], "age": [39, 20], "who": ["a", "b"], "weight": [70.0, None], "children": [0, 3]}
    wanted = [
        '{"age": 39, "weight": 70.0, "income": ">50K", "children": 0}',
        '{"age": 20, "weight": null, "income": null, "children": 3}',
    ]
    table = pa.table(columns)
    path = tmp_path / "people.csv"
    path.write_text("income,age,who,weight,children\n>50K,39,a,70,0\n,20,b,,3\n")
    for source in (table, table.to_pylist(), path):
        records = load_rows(source, people, "who")
        assert records.texts.tolist() == wanted
        assert records.users is not None
        assert records.users.tolist() == ["a", "b"]


def test_a_table_that_does_not_fit_is_refused(people: Schema) -> None:
    rows = [{"age": 39, "weight": 70, "income": ">50K", "children": 0}]
    with pytest.raises(InputError, match="the list has no columns"):
        load_rows(["a text"], people)
    with pytest.raises(InputError, match="the list has no column 'children' among its 3; give it a header") as caught:
        load_rows([{name: cell for name, cell in rows[0].items() if name != "children"}], people)
    assert "weight" not in str(caught.value)  # without a header, a name is a private cell
    with pytest.raises(InputError, match="has 2 columns 'age' among its 2"):
        load_rows(pa.Table.from_arrays([pa.array([1])] * 2, names=["age", "age"]), people)
    with pytest.raises(InputError, match="column 'age' holds the user and is not synthesised"):
        load_rows(rows, people, "age")
    with pytest.raises(InputError, match="item 1 of the list has a value that is not a number in column 'age'"):
        load_rows([rows[0] | {"age": HIDDEN}], people)
    with pytest.raises(InputError, match="holds no rows"):
        load_rows(pa.table({name: pa.array([], pa.string()) for name in people.columns}), people)


def test_rows_are_known_by_all_they_hold_whoever_reads_them(people: Schema, tmp_path: Path) -> None:
    rows = [{"age": 39, "weight": 70.0, "income": ">50K", "children": 0, "shoe": 40.0}]
    path = tmp_path / "people.csv"
    path.write_text("shoe,children,income,weight,age\n40, 0,>50K,70,39\n")
    few = Schema({"age": people.columns["age"]})
    known = {load_rows(source, schema).contents for source in (rows, path) for schema in (people, few)}
    assert len(known) == 1
    assert load_rows([rows[0] | {"shoe": 41}], few).contents not in known
    assert "39" not in repr(load_rows(rows, few))


def test_no_number_is_written_as_minus_zero() -> None:
    schema = Schema({"x": Numbers(-1.0, 1.0, 1)})
    assert [schema.row([cell], "row") for cell in (-0.01, "-0", 0)] == ['{"x": 0.0}'] * 3


@pytest.mark.parametrize(
    ("resolution", "cell", "written"),
    [
        ("year", "2021-03-04", "2021"),
        ("year", 2021, "2021"),
        ("month", "2021-03-04", "2021-03"),
        ("month", "2021-03", "2021-03"),
        ("day", " 2021-03-04 ", "2021-03-04"),
        ("day", "2021-03-04T23:30:00+02:00", "2021-03-04"),
        ("day", datetime(2021, 3, 4, 5), "2021-03-04"),
        ("day", date(2021, 3, 4), "2021-03-04"),
        ("day", np.datetime64("2021-03-04"), "2021-03-04"),
        ("hour", "2021-03-04 05:59", "2021-03-04T05:00"),
        ("day", "1066-10-14", "2020-01-01"),  # before the range
        ("day", "2999-01-01", "2022-12-31"),
    ],
)
def test_dates_are_written_in_one_form_at_their_resolution(resolution: str, cell: object, written: str) -> None:
    schema = Schema({"seen": Dates.between(date(2020, 1, 1), date(2022, 12, 31), resolution)})
    line = schema.row([cell], "row 1")
    assert json.loads(line) == {"seen": written}
    np.testing.assert_array_equal(schema.lines(schema.codes(as_samples([line]))), [line])


@pytest.mark.parametrize("cell", [HIDDEN, "4/3/2021", 20210304, True, "2021-13"])
def test_a_cell_that_is_not_a_date_is_refused_and_not_quoted(cell: object) -> None:
    schema = Schema({"seen": Dates.between(date(2020, 1, 1), date(2022, 12, 31))})
    with pytest.raises(InputError, match=r"row 1 has a value .* in column 'seen'") as caught:
        schema.row([cell], "row 1")
    assert str(cell) not in str(caught.value)


def test_weights_are_part_of_what_a_schema_is(tmp_path: Path) -> None:
    plain = schema_of(tmp_path, "[x]\nleast = 0\nmost = 9\nweight = 1\n[y]\nleast = 0\nmost = 9")
    heavy = schema_of(tmp_path, "[x]\nleast = 0\nmost = 9\nweight = 3\n[y]\nleast = 0\nmost = 9")
    assert plain.weights == {}
    assert heavy.weights == {"x": 3.0}
    assert repr(plain) != repr(heavy)
    assert heavy.without("x").weights == {}
    assert heavy.without("y").weights == {"x": 3.0}


def test_an_empty_cell_is_spelled_as_the_schema_says(tmp_path: Path) -> None:
    age, kind = '[age]\nleast = 0\nmost = 99\nmissing = ["NA", "?"]\n', '[kind]\nchoices = ["NA", "b"]\n'
    (tmp_path / "s.toml").write_text(age + kind)
    schema = Schema.read(tmp_path / "s.toml")
    assert schema.row(["NA", "NA"], "row 1") == schema.row([" ? ", "NA"], "row 1") == '{"age": null, "kind": "NA"}'
    with pytest.raises(InputError, match=r"not a number in column 'age'.*; missing = .* makes NA an empty cell"):
        schema.row(["none", "b"], "row 2")
    (tmp_path / "s.toml").write_text('[age]\nleast = 0\nmost = 99\nmissing = "NA"\n')
    with pytest.raises(InputError, match="must be true, false or how an empty cell is spelled, such as"):
        Schema.read(tmp_path / "s.toml")
