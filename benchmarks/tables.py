"""The survey of a table by its size: seconds, CPU seconds and peak memory of a whole run, from CSV and Parquet.

python benchmarks/tables.py FOLDER [--shapes 10x2 10000x200 1000000x10 10000000x10] [--kinds csv parquet] [--users]

Made-up tables are written to FOLDER in blocks and removed afterwards: columns of whole numbers, fractions, choices and
days in turn, each of which follows a number that the record has, and a column of users with three records each. A run
is `gape run` with its defaults at epsilon 1, in a process of its own, whose peak resident memory is that of the kernel
(ru_maxrss); "read" is the time until all rows were read. With --users, the runs protect users. All runs of a table are
charged to one ledger, which would refuse a table that it does not recognise.
"""

import argparse
import multiprocessing
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

AT_ONCE = 500_000
KINDS = (
    "least = 0\nmost = 100",
    "least = 0.0\nmost = 1000.0\ndecimals = 2\nmissing = true",
    'choices = ["north", "east", "south", "west", "centre"]',
    "least = 2015-01-01\nmost = 2024-12-31",
)


def block(rng: np.random.Generator, first: int, rows: int, columns: int) -> pa.Table:
    hidden = rng.normal(size=rows)
    table: dict[str, Any] = {"user": np.char.add("u", ((first + np.arange(rows)) // 3).astype(str))}
    for index in range(columns):
        value = 0.6 * hidden + 0.8 * rng.normal(size=rows)
        table[f"x{index}"] = (
            np.clip(np.rint(50 + 15 * value), 0, 100).astype(np.int64),
            pa.array(np.round(np.exp(3 + value), 2), mask=value > 2),
            np.array(["north", "east", "south", "west", "centre"])[np.digitize(value, (-1, 0, 0.5, 1.5))],
            np.datetime64("2020-01-01") + np.rint(300 * value).astype("timedelta64[D]"),
        )[index % 4]
    return pa.table(table)


def write(folder: Path, rows: int, columns: int, kinds: list[str]) -> None:
    (folder / "schema.toml").write_text("".join(f"[x{index}]\n{KINDS[index % 4]}\n" for index in range(columns)))
    rng, kind = np.random.default_rng(0), block(np.random.default_rng(0), 0, 1, columns).schema
    writers: list[Any] = [pa_csv.CSVWriter(folder / "table.csv", kind)] if "csv" in kinds else []
    writers += [pq.ParquetWriter(folder / "table.parquet", kind)] if "parquet" in kinds else []
    for first in range(0, rows, AT_ONCE):
        table = block(rng, first, min(AT_ONCE, rows - first), columns)
        for writer in writers:
            writer.write_table(table)
    for writer in writers:
        writer.close()


def run(data: Path, user: str | None) -> dict[str, float]:
    """Run the survey in this process, which has not run anything before."""
    from gape.runs.settings import Settings  # noqa: PLC0415  (memory is that of a fresh process)
    from gape.runs.synthesize import run_text  # noqa: PLC0415

    marks: list[float] = []
    start = time.perf_counter()
    folder = data.parent
    values = {"epsilon": 1.0, "budget_epsilon": 100.0, "ledger": str(folder / "ledger"), "user": user}
    settings = Settings.of({}, {"data": str(data), "schema": str(folder / "schema.toml"), **values})
    run_text(settings, folder / data.suffix[1:], progress=lambda _: marks.append(time.perf_counter() - start))
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime
    return {"read": marks[1], "all": time.perf_counter() - start, "CPU": cpu, "MB": used.ru_maxrss * 1024 / 1e6}


def in_child(step: Callable[..., Any], *arguments: Any) -> Any:
    with multiprocessing.get_context("spawn").Pool(1) as child:
        return child.apply(step, arguments)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--shapes", nargs="+", default=["10x2", "10000x200", "1000000x10", "10000000x10"])
    parser.add_argument("--kinds", nargs="+", choices=("csv", "parquet"), default=["csv", "parquet"])
    parser.add_argument("--users", action="store_true")
    given = parser.parse_args()
    print(f"{'rows':>12} {'columns':>8} {'file':>8} {'read s':>8} {'all s':>8} {'CPU s':>8} {'peak MB':>8}")
    for shape in given.shapes:
        rows, columns = map(int, shape.split("x"))
        place = given.folder / shape
        try:
            place.mkdir(parents=True)
            in_child(write, place, rows, columns, given.kinds)  # its memory is not that of a run
            for kind in given.kinds:
                found = in_child(run, place / f"table.{kind}", "user" if given.users else None)
                figures = " ".join(f"{value:8.0f}" for value in found.values())
                print(f"{rows:>12,} {columns:>8} {kind:>8} {figures}", flush=True)
        finally:
            shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
