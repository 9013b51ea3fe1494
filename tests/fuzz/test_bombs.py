"""Small files that unpack to much, and rows without end, are refused within bounded memory and time."""

import gzip
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from fuzz import searching
from fuzz.targets import Target
from gape.modalities import files, load_texts

MANY = 1_000_000


def bomb(content: bytes, times: int, path: Path, begin: bytes = b"text\n") -> None:
    with gzip.open(path, "wb") as file:
        file.write(begin)
        for _ in range(0, times, 2**16):
            file.write(content * 2**16)


def many_rows(path: Path) -> None:
    indices = pa.array(np.zeros(3_000_000, dtype=np.int8))
    pq.write_table(pa.table({"text": pa.DictionaryArray.from_arrays(indices, ["a text"])}), path, compression="zstd")


def repeated_cell(path: Path) -> None:
    indices = pa.array(np.zeros(2000, dtype=np.int8))
    cell = "lorem ipsum " * 75_000
    pq.write_table(pa.table({"text": pa.DictionaryArray.from_arrays(indices, [cell])}), path, compression="zstd")


def one_page(path: Path) -> None:
    blank = pa.array([" " * 3_000_000] * 50)
    options = {"use_dictionary": False, "write_statistics": False, "data_page_size": 2**30}
    pq.write_table(pa.table({"text": blank}), path, compression="zstd", **options)


BOMBS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "blank lines": ("a.txt.gz", lambda path: bomb(b"\n", MANY, path)),
    "short rows": ("a.csv.gz", lambda path: bomb(b"0\n", MANY // 2, path)),
    "objects": ("a.jsonl.gz", lambda path: bomb(b'{"t":"a"}\n', MANY // 10, path, b"")),
    "one line": ("a.txt.gz", lambda path: bomb(b"a", 20 * MANY, path)),
    "rows of parquet": ("a.parquet", many_rows),
    "a long cell in every row": ("a.parquet", repeated_cell),
    "a page of blanks": ("a.parquet", one_page),
    "columns of CSV": ("a.csv", lambda path: path.write_text(",".join(f"c{i}" for i in range(1_000_000)) + "\n")),
    "columns of JSON": (
        "a.jsonl",
        lambda path: path.write_text("{" + ",".join(f'"{i}":1' for i in range(200_000)) + "}\n"),
    ),
    "a row of many lines": ("a.csv", lambda path: path.write_text("a,b\n" + '"\n",' * 5_000_000)),
    "an open quote": ("a.csv", lambda path: path.write_text('a,b\n1,"' + "line\n" * 1_000_000)),
    "nested JSON": ("a.jsonl", lambda path: path.write_text('{"a":' * 1_000_000 + "\n")),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused(tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a child that may take 10 seconds and half a gigabyte; what counts as small is smaller than it is, too."""
    monkeypatch.setattr(searching, "MEMORY", 2**29)
    monkeypatch.setattr(files, "_SMALL_TEXT", 2**19)
    file, make = BOMBS[name]
    path = tmp_path / file
    make(path)
    assert path.stat().st_size < 30_000_000

    def use(folder: Path, rng: random.Random) -> None:
        load_texts(path)

    counts, found = searching.examine({"bomb": Target(lambda folder, rng: None, use)}, 0, 1, tmp_path)
    assert dict(counts) == {("bomb", "refused"): 1}, found


def test_repetitive_data_of_usual_size_is_read(tmp_path: Path) -> None:
    """A limit on growth must not refuse what people have: ten thousand rows that say the same."""
    rows = "text\n" + "the same short review again and again\n" * 10_000
    with gzip.open(tmp_path / "a.csv.gz", "wt") as file:
        file.write(rows)
    pq.write_table(pa.table({"text": ["the same"] * 200_000}), tmp_path / "a.parquet", compression="zstd")
    assert len(load_texts(tmp_path / "a.csv.gz")) == 10_000
    assert len(load_texts(tmp_path / "a.parquet")) == 200_000
