import codecs
import csv
import gzip
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gape.core.errors import InputError
from gape.modalities import load_texts
from gape.modalities.files import LONGEST

SECRET = "zanzibar"  # noqa: S105  (the word that no message may hold)
TEXTS = ["plain", 'quoted "twice", with a comma', "two\nlines", "umlaut ä", "\U0001f600", "=1+1"]
ROWS = [{"text": text, "label": f"l{i % 2}", "user": i // 2} for i, text in enumerate(TEXTS)]


def write_csv(
    path: Path, rows: Iterable[dict[str, Any]] = ROWS, *, separator: str = ",", encoding: str = "utf-8"
) -> Path:
    rows = list(rows)
    with path.open("w", encoding=encoding, newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), delimiter=separator)
        writer.writeheader()
        writer.writerows(rows)
    return path


def write_jsonl(path: Path, rows: Iterable[Any] = ROWS) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def compressed(path: Path) -> Path:
    packed = path.with_name(path.name + ".gz")
    packed.write_bytes(gzip.compress(path.read_bytes()))
    return packed


def parquet(path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(ROWS), path)
    return path


def shards(folder: Path) -> Path:
    (folder / "data").mkdir(parents=True)
    for i in range(2):
        part = pa.Table.from_pylist(ROWS[3 * i : 3 * i + 3])
        pq.write_table(part, folder / "data" / f"train-0000{i}-of-00002.parquet")
    return folder


def saved(folder: Path, *, stream: bool = True) -> Path:
    """A folder as `datasets` saves it: Arrow streams in an order that the state gives."""
    folder.mkdir()
    names = ["b.arrow", "a.arrow"]
    for i, name in enumerate(names):
        part = pa.Table.from_pylist(ROWS[3 * i : 3 * i + 3])
        new = pa.ipc.new_stream if stream else pa.ipc.new_file
        with new(folder / name, part.schema) as writer:
            writer.write_table(part)
    (folder / "dataset_info.json").write_text("{}")
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    return folder


SOURCES: dict[str, Callable[[Path], Any]] = {
    "csv": lambda tmp: write_csv(tmp / "a.csv"),
    "csv as a string": lambda tmp: str(write_csv(tmp / "a.csv")),
    "csv with a mark": lambda tmp: write_csv(tmp / "a.csv", encoding="utf-8-sig"),
    "csv in UTF-16": lambda tmp: write_csv(tmp / "a.csv", encoding="utf-16"),
    "tsv": lambda tmp: write_csv(tmp / "a.tsv", separator="\t"),
    "csv.gz": lambda tmp: compressed(write_csv(tmp / "a.csv")),
    "jsonl": lambda tmp: write_jsonl(tmp / "a.jsonl"),
    "ndjson.gz": lambda tmp: compressed(write_jsonl(tmp / "a.ndjson")),
    "parquet": lambda tmp: parquet(tmp / "a.parquet"),
    "shards": lambda tmp: shards(tmp / "a"),
    "saved stream": lambda tmp: saved(tmp / "a"),
    "saved file": lambda tmp: saved(tmp / "a", stream=False),
    "pandas": lambda tmp: pd.DataFrame(ROWS),
    "pandas of objects": lambda tmp: pd.DataFrame(ROWS, dtype=object),
    "polars": lambda tmp: pl.DataFrame(ROWS),
    "arrow": lambda tmp: pa.Table.from_pylist(ROWS),
    "dicts": lambda tmp: ROWS,
}


@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_gives_the_same_records(tmp_path: Path, kind: str) -> None:
    records = load_texts(SOURCES[kind](tmp_path), text="text", label="label", user="user")
    assert records.texts.dtype == object
    assert records.texts.tolist() == TEXTS
    assert records.labels is not None
    assert records.labels.tolist() == ["l0", "l1"] * 3
    assert records.users is not None
    assert records.users.tolist() == ["0", "0", "1", "1", "2", "2"]
    assert records.dropped == 0
    assert len(records) == 6


@pytest.mark.parametrize(
    "source",
    [
        TEXTS,
        tuple(TEXTS),
        np.array(TEXTS),
        np.array(TEXTS, dtype=object),
        pl.Series(TEXTS),
        pd.Series(TEXTS, index=range(5, 11)),
    ],
    ids=lambda source: type(source).__name__,
)
def test_texts_come_in_any_sequence(source: object) -> None:
    records = load_texts(source)
    assert records.texts.tolist() == TEXTS
    assert {type(text) for text in records.texts} <= {str, np.str_}
    assert records.labels is None
    assert records.users is None


def test_a_text_file_has_a_record_per_line(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("one\r\ntwo \u2028 still two\n\n \t\nthree".encode())
    records = load_texts(tmp_path / "a.txt")
    assert records.texts.tolist() == ["one", "two \u2028 still two", "three"]
    assert records.dropped == 2
    assert load_texts(compressed(tmp_path / "a.txt")).texts.tolist() == records.texts.tolist()


def test_a_folder_of_texts_has_a_record_per_file(tmp_path: Path) -> None:
    for name, text in {"b.txt": "second", "a.txt": "first\nof two lines", "c.txt": " ", ".hidden.txt": "no"}.items():
        (tmp_path / name).write_text(text)
    records = load_texts(tmp_path)
    assert records.texts.tolist() == ["first\nof two lines", "second"]
    assert records.dropped == 1


@pytest.mark.parametrize("kind", ["dicts", "pandas", "polars", "parquet", "jsonl", "csv"])
def test_blank_rows_are_left_out_with_their_labels_and_counted(tmp_path: Path, kind: str) -> None:
    rows = [{"t": text, "l": label} for text, label in zip(["a", "", None, " \n\u3000", "b"], "12345", strict=True)]
    made: dict[str, Callable[[], Any]] = {
        "dicts": lambda: rows,
        "pandas": lambda: pd.DataFrame(rows),
        "polars": lambda: pl.DataFrame(rows),
        "parquet": lambda: pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet") or tmp_path / "a.parquet",
        "jsonl": lambda: write_jsonl(tmp_path / "a.jsonl", rows),
        "csv": lambda: write_csv(tmp_path / "a.csv", rows),
    }
    records = load_texts(made[kind](), text="t", label="l")
    assert records.texts.tolist() == ["a", "b"]
    assert records.labels is not None
    assert records.labels.tolist() == ["1", "5"]
    assert records.dropped == 3


def test_a_single_column_of_texts_need_not_be_named(tmp_path: Path) -> None:
    rows = [{"id": i, "body": text, "kind": "x"} for i, text in enumerate(TEXTS)]
    for source in (pa.Table.from_pylist(rows), pl.DataFrame(rows), pd.DataFrame(rows), rows):
        assert load_texts(source, label="kind").texts.tolist() == TEXTS
        with pytest.raises(
            InputError, match=r"2 columns that may hold the texts; name one of 'id', 'body', 'kind' as text"
        ):
            load_texts(source)
    assert load_texts(write_csv(tmp_path / "a.csv"), label="label", user="user").texts.tolist() == TEXTS


def test_large_sources_are_read_whole(tmp_path: Path) -> None:
    rows = [{"text": f"number {i}"} for i in range(2_500)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "a.parquet", row_group_size=700)
    for source in (tmp_path / "a.parquet", write_jsonl(tmp_path / "a.jsonl", rows), pa.Table.from_pylist(rows)):
        assert load_texts(source).texts.tolist() == [row["text"] for row in rows]


def test_dictionaries_large_strings_and_views_are_texts() -> None:
    for kind in (pa.dictionary(pa.int8(), pa.string()), pa.large_string(), pa.string_view()):
        table = pa.table({"n": [1, 2], "t": pa.array(["a", "b"]).cast(kind)})
        assert load_texts(table).texts.tolist() == ["a", "b"]


def test_equal_decimal_users_stay_one() -> None:
    rows = [{"t": "a", "u": Decimal(name)} for name in ("7", "7.0", "7.50", "7.5")]
    users = load_texts(rows, text="t", user="u").users
    assert users is not None
    assert users.tolist() == ["7", "7", "7.5", "7.5"]


def test_equal_users_stay_one() -> None:
    records = load_texts([{"t": "a", "u": 7}, {"t": "b", "u": 7.0}, {"t": "c", "u": "7"}], text="t", user="u")
    assert records.users is not None
    assert set(records.users) == {"7"}
    frame = pd.DataFrame({"t": ["a", "b"], "u": np.array([7, 8], dtype=np.float32)})
    numbers = load_texts(frame, user="u").users
    assert numbers is not None
    assert numbers.tolist() == ["7", "8"]


def test_half_a_surrogate_pair_becomes_a_character(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"t": "cut \\ud83d"}\n{"t": "whole \\ud83d\\ude00"}\n')
    assert load_texts(tmp_path / "a.jsonl").texts.tolist() == ["cut \ufffd", "whole \U0001f600"]


def test_nothing_private_is_shown() -> None:
    records = load_texts([{"t": SECRET, "l": SECRET, "u": SECRET}], text="t", label="l", user="u")
    assert SECRET not in repr(records)
    assert SECRET not in records.source


def bad_files(tmp: Path) -> dict[str, tuple[Any, dict[str, str], str]]:
    """What cannot be read: the source, the columns asked for, and what the message says."""

    def file(name: str, content: bytes) -> Path:
        path = tmp / name
        path.write_bytes(content)
        return path

    empty = tmp / "empty"
    empty.mkdir(exist_ok=True)
    named = tmp / "people"
    named.mkdir(exist_ok=True)
    (named / f"{SECRET}.txt").write_bytes(b"\xff\xff")
    s = SECRET.encode()
    whole = saved(tmp / "cut") / "b.arrow"
    whole.write_bytes(whole.read_bytes()[:200])
    several = tmp / "several"
    several.mkdir()
    for split in ("train", "test"):
        parquet(several / f"{split}-00000-of-00001.parquet")
    splits = tmp / "dict"
    (splits / "train").mkdir(parents=True)
    (splits / "dataset_dict.json").write_text("{}")
    latin = f"t\n{SECRET}\nna".encode() + "ï".encode("latin-1") + b"ve\n"
    packed = gzip.compress(s * 1000)
    return {
        "missing": (tmp / "nowhere.csv", {}, "does not exist"),
        "a text instead of a path": (f"{SECRET} is ill", {}, "the path given does not exist"),
        "a very long text": (SECRET * 1000 + " x", {}, "the path given does not exist"),
        "unknown kind": (file("a.json", b'{"t": "' + s + b'"}'), {}, r"a\.json is of a kind that is not supported"),
        "empty folder": (empty, {}, r"no \.txt"),
        "empty csv": (file("e.csv", b""), {}, "e.csv is empty; name a file with a header"),
        "header only": (file("h.csv", b"text\n"), {}, "h.csv holds no text, only a header; add at least one record"),
        "no header": (file("n.csv", s + b" is a long story about a person who lives in a town\n"), {}, "add a header"),
        "semicolons": (file("s.csv", b"a;b\n1;" + s + b"\n"), {}, "with ';', not ','"),
        "ragged": (
            file("r.csv", b"a,b\n1,2\n1," + s + b",3\n"),
            {"text": "b"},
            "row 2 of r.csv has 3 cells, and its header has 2",
        ),
        "open quote": (file("q.csv", b'a,b\n1,2\n1,"' + s), {"text": "b"}, "row 2 of q.csv.*quotes"),
        "stray quote": (file("q2.csv", b'a,b\n1,"x"' + s + b"\n"), {"text": "b"}, "row 1 of q2.csv.*quotes"),
        "huge cell": (file("b.csv", b"a\nx\n" + b"y" * (LONGEST + 1)), {}, "row 2 of b.csv.*more than 1000000 char"),
        "huge line": (file("b.txt", s + b"\n" + b"y" * (LONGEST + 1)), {}, "line 2 of b.txt has more than 1000000"),
        "huge item": (["x", "y" * (LONGEST + 1)], {}, "item 2 of the list has more than"),
        "nul in csv": (file("0.csv", b"a\n" + s + b"\0\n"), {}, "line 2 of 0.csv contains a NUL byte"),
        "nul in json": (
            write_jsonl(tmp / "0.jsonl", [{"t": SECRET + "\0"}]),
            {},
            "line 1 of 0.jsonl contains a NUL ch",
        ),
        "UTF-16 without mark": (file("w.txt", SECRET.encode("utf-16-le")), {}, "NUL byte"),
        "latin-1": (file("l.csv", latin), {}, f"not UTF-8 at byte {latin.index(0xEF)} "),
        "latin-1 late": (file("m.txt", b"x\n" * 700_000 + b"\xe9t\xe9"), {}, "not UTF-8 at byte 1400000 "),
        "cut UTF-16": (
            file("u.txt", codecs.BOM_UTF16_LE + SECRET.encode("utf-16-le") + b"x"),
            {},
            "not UTF-16 at byte 18",
        ),
        "cut gzip": (file("g.txt.gz", packed[: len(packed) // 2]), {}, r"g\.txt\.gz cannot be read \(EOFError\)"),
        "no gzip": (file("n.txt.gz", s), {}, "cannot be read .BadGzipFile"),
        "bad json": (file("j.jsonl", b'{"t": "x"}\n{"t": "' + s + b"\n"), {}, "line 2 of j.jsonl is not JSON"),
        "deep json": (file("d.jsonl", b"[" * 100_000), {}, "line 1 of d.jsonl is not JSON"),
        "json of lists": (file("o.jsonl", b'{"t": "x"}\n["' + s + b'"]\n'), {}, "line 2 of o.jsonl is list"),
        "json of texts": (file("o2.jsonl", b'"' + s + b'"\n'), {}, "no columns in its first rows"),
        "bad parquet": (file("p.parquet", s * 10), {}, r"p\.parquet cannot be read \(ArrowInvalid\)"),
        "bad arrow": (tmp / "cut", {"text": "text"}, "cut cannot be read"),
        "several splits": (several, {}, "several splits: 'test', 'train'"),
        "dataset dict": (splits, {}, "the folder of one of them: 'train'"),
        "files named after people": (named, {}, "file 1 of people, by name, is not UTF-8 at byte 0"),
        "columns of a plain file": (file("c.txt", s), {"label": "x"}, "has no columns, got 'x'"),
        "unknown column": (ROWS, {"text": "body"}, "no column 'body'; name one of 'text', 'label', 'user'"),
        "column named by content": ([{SECRET * 9: "x", "b": "y"}], {}, "name one of column 1, 'b'"),
        "column named by a record": ([{f"{SECRET} wrote this in": "x", "b": "y"}], {}, "name one of column 1, 'b'"),
        "numbers": (ROWS, {"text": "user"}, "item 1 of the list holds int, not a text"),
        "mixed": ([SECRET, 3], {}, "item 2 of the list holds int"),
        "mixed frame": (pd.DataFrame({"t": [SECRET, 3]}), {"text": "t"}, "row 2 of the frame holds int"),
        "bytes": ([s], {}, "item 1 of the list holds bytes"),
        "no label": (
            [{"t": SECRET, "l": None}],
            {"text": "t", "label": "l"},
            "item 1 of the list is empty in column 'l'",
        ),
        "no user": (
            pd.DataFrame({"t": [SECRET] * 2, "u": [1, None]}),
            {"user": "u"},
            "row 2 .* is empty in column 'u'",
        ),
        "list for a user": ([{"t": SECRET, "u": [1]}], {"text": "t", "user": "u"}, "holds list in column 'u'"),
        "nothing": ([], {}, "holds no text"),
        "only blanks": (["", " ", None], {}, r"only blank rows \(3\)"),
        "a matrix": (np.array([[SECRET]]), {}, r"shape \(1, 1\)"),
        "a number": (3, {}, "got int"),
        "a query": (pl.LazyFrame({"t": [SECRET]}), {}, "collect it"),
        "columns alike": (pd.DataFrame([[SECRET, "b"]], columns=["t", "t"]), {"text": "t"}, "2 columns under 1 names"),
        "arrow columns alike": (
            pa.Table.from_arrays([[SECRET], ["b"]], ["t", "t"]),
            {"text": "t"},
            "has 2 columns 't'",
        ),
    }


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Any, dict[str, str], str]]:
    return bad_files(tmp_path_factory.mktemp("bad"))


def test_the_folder_that_one_is_in_is_called_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "a.txt").write_text("a warm loaf of bread")
    monkeypatch.chdir(tmp_path / "notes")
    assert load_texts(".").source == "notes"


def test_what_cannot_be_read_is_refused_in_one_sentence_without_content(
    bad: dict[str, tuple[Any, dict[str, str], str]],
) -> None:
    limit = csv.field_size_limit()
    for name, (source, columns, message) in bad.items():
        with pytest.raises(InputError, match=message) as caught:
            load_texts(source, **columns)
        said = str(caught.value)
        assert SECRET not in said, name
        assert "\n" not in said, name
        assert len(said) < 300, name
        assert caught.value.__suppress_context__ or caught.value.__context__ is None, name
    assert csv.field_size_limit() == limit


def test_shards_that_differ_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": ["a"]}), tmp_path / "1.parquet")
    pq.write_table(pa.table({"u": ["a"]}), tmp_path / "2.parquet")
    with pytest.raises(InputError, match=r"file 2 of .* lacks a column"):
        load_texts(tmp_path)


@pytest.mark.parametrize("state", ["{", "[]", "{}", '{"_data_files": [1]}', '{"_data_files": []}'])
def test_a_dataset_with_a_damaged_state_is_refused(tmp_path: Path, state: str) -> None:
    folder = saved(tmp_path / "a")
    (folder / "state.json").write_text(state)
    with pytest.raises(InputError, match="save"):
        load_texts(folder, text="text")


@pytest.mark.parametrize("place", ["a.txt", "a.parquet", "data/a.parquet", "data"])
def test_a_folder_cannot_lead_elsewhere(tmp_path: Path, place: str) -> None:
    secret = tmp_path / "elsewhere" / "a.txt" if place == "a.txt" else tmp_path / "elsewhere" / "a.parquet"
    secret.parent.mkdir()
    if place == "a.txt":
        secret.write_text(SECRET)
    else:
        pq.write_table(pa.table({"text": [SECRET]}), secret)
    link = tmp_path / "given" / place
    link.parent.mkdir(parents=True)
    link.symlink_to(secret.parent if place == "data" else secret)
    with pytest.raises(InputError, match=r"entry \d of given, by name, is a symbolic link"):
        load_texts(tmp_path / "given")
    link.unlink()
    if place == "data":
        shutil.copytree(secret.parent, link)
    else:
        shutil.copy(secret, link)
    assert load_texts(tmp_path / "given").texts.tolist() == [SECRET]


def test_a_folder_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(InputError, match="neither a file nor a folder"):
        load_texts(tmp_path)


def test_a_user_is_one_in_every_format_however_the_name_is_written(tmp_path: Path) -> None:
    written = ["7", "7.0", " 007 ", "alice", "alice ", "Alice", "\uff21lice", "8.50", "8.5", "-0", "0"]
    rows = [{"text": f"text {i}", "user": name} for i, name in enumerate(written)]
    expected = ["7"] * 3 + ["alice"] * 4 + ["8.5"] * 2 + ["0"] * 2
    table = pa.table({name: [row[name] for row in rows] for name in ("text", "user")})
    pq.write_table(table, tmp_path / "a.parquet")
    sources: list[Any] = [
        write_csv(tmp_path / "a.csv", rows),
        write_csv(tmp_path / "a.tsv", rows, separator="\t"),
        write_jsonl(tmp_path / "a.jsonl", rows),
        tmp_path / "a.parquet",
        rows,
        table,
        pd.DataFrame(rows),
        pl.DataFrame(rows),
    ]
    for source in sources:
        users = load_texts(source, "text", user="user").users
        assert users is not None
        assert users.tolist() == expected
    mixed = [{"text": "a", "user": value} for value in (7, 7.0, np.float32(7), Decimal("7.00"), "7.0")]
    found = load_texts(mixed, "text", user="user").users
    assert found is not None
    assert set(found.tolist()) == {"7"}


def test_a_label_keeps_its_case(tmp_path: Path) -> None:
    rows = [{"text": "a", "stars": value} for value in ("Low ", "low", "1.0", "01")]
    labels = load_texts(write_csv(tmp_path / "a.csv", rows), "text", label="stars").labels
    assert labels is not None
    assert labels.tolist() == ["Low", "low", "1", "01"]


def test_a_state_cannot_point_outside_its_folder(tmp_path: Path) -> None:
    outside = saved(tmp_path / "outside") / "a.arrow"
    folder = saved(tmp_path / "a")
    (folder / "a.arrow").unlink()
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": str(outside)}]}))
    with pytest.raises(InputError, match="cannot be read"):
        load_texts(folder, text="text")


def test_frames_are_read_without_importing_their_libraries() -> None:
    code = (
        "import sys, gape.modalities; sys.exit(any(name in sys.modules for name in ('pandas', 'polars', 'datasets')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
