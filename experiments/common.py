"""What every experiment needs around its runs: options, tables and intervals. No algorithms."""

import argparse
import csv
import math
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from scipy.stats import binomtest

from gape.privacy.ledger import Account, Budget, Ledger

Argument = TypeVar("Argument")
Result = TypeVar("Result")


def options(script: str, description: str | None, seeds: int) -> argparse.Namespace:
    """Read --seeds, --out and --jobs; results go beside the script unless told otherwise."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--seeds", type=int, default=seeds, help=f"how many runs of each kind ({seeds})")
    parser.add_argument("--out", type=Path, default=Path(script).parent / "results", help="folder of the results")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    return parser.parse_args()


def over_seeds(task: Callable[[Argument], Result], arguments: Sequence[Argument], jobs: int) -> list[Result]:
    """Return the results of `task` in the order of its arguments, computed by `jobs` processes."""
    if jobs == 1:
        return [task(each) for each in arguments]
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        return list(pool.map(task, arguments, chunksize=max(1, len(arguments) // (8 * jobs))))


@contextmanager
def free_account() -> Iterator[Account]:
    """Yield an account in memory that allows anything: the data of the experiments is made up."""
    ledger = Ledger(":memory:", Budget(math.inf, 1e-6))
    try:
        yield Account(ledger, "experiment")
    finally:
        ledger.close()


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return Wilson's 95% interval for a share."""
    interval = binomtest(successes, trials).proportion_ci(confidence_level=0.95, method="wilson")
    return float(interval.low), float(interval.high)


def write_rows(out: Path, name: str, rows: Sequence[dict[str, Any]]) -> None:
    """Write a table as `name`.csv and `name`.md, and print it; rounded to four digits."""
    out.mkdir(parents=True, exist_ok=True)
    cells = [{key: f"{v:.4g}" if isinstance(v, float) else str(v) for key, v in row.items()} for row in rows]
    with (out / f"{name}.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(cells[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(cells)
    lines = [list(cells[0]), ["---"] * len(cells[0]), *(list(row.values()) for row in cells)]
    text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    (out / f"{name}.md").write_text(text + "\n")
    print(text)
