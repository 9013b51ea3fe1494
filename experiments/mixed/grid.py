"""Runs of records with cells and texts, several at once.

    python experiments/mixed/grid.py seeds others weights --data FOLDER --model hf:DIR --embedder st:DIR --out FOLDER
    python experiments/mixed/grid.py real records:4:0 chats:1:2 --data FOLDER --samples 50 --rounds 3 --out FOLDER

A run is VARIANT:EPSILON:SEED, with a variant of `run.py` or a dataset of `others.py`; `real` are as many real reviews,
and `SETS` are lists of runs. FOLDER holds yelp_augpe_dev.csv.gz and yelp_augpe_test.csv.gz, and for the datasets
pubmed_2021_medline.jsonl.gz and reddit_selfposts.jsonl.gz. Each process takes the next run as soon as it is free, and
writes one line of JSON for each round to OUT/results.jsonl.
"""

import argparse
import json
import math
import multiprocessing
import os
import sys
import time
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.mixed.others import DATASETS, Others
from experiments.mixed.run import VARIANTS, Yelp

from gape.embedders.cached import Cached
from gape.embedders.privacy import for_public_samples
from gape.runs.embedder import make_embedder
from gape.runs.generator import make_model
from gape.runs.settings import Settings

REAL = "real"  # as many real reviews, instead of a run
SHARES = [name for name in VARIANTS if name.startswith(("weight", "text", "cells"))]
SETS = {
    "others": [f"{name}:{epsilon}:0" for epsilon in (4, 1) for name in DATASETS],
    "seeds": [
        *(f"{name}:{epsilon}:{seed}" for seed in (1, 2) for epsilon in (4, 1) for name in ("records", "labels")),
        "labels:1:0",
    ],
    "one": [
        f"{name}:{epsilon}:{seed}" for seed in (0, 1, 2) for epsilon in (4, 1) for name in ("stars", "stars-untold")
    ],
    "weights": [f"{name}:4:{seed}" for seed in (0, 1, 2) for name in SHARES],
}


def parts(run: str) -> tuple[str, float, int]:
    """Return the variant or dataset, the epsilon and the seed of a run."""
    name, _, numbers = run.partition(":")
    if name not in (known := [*VARIANTS, *DATASETS, REAL]):
        raise SystemExit(f"{name} is not one of {', '.join(known)}")
    epsilon, _, seed = numbers.partition(":")
    return name, float(epsilon or 0), int(seed or 0)


def work(asked: argparse.Namespace, runs: list[str], taken: Any, began: float) -> None:
    """Take runs until none is left, or until no time is."""
    plain = Settings.of({"epsilon": 1.0, "generator": asked.model, "embedder": asked.embedder})
    model, embedder = (
        make_model(plain, asked.out / "answers"),
        Cached(for_public_samples(make_embedder(plain)), 250_000),
    )
    if model is None:
        raise SystemExit("give a model that writes")
    others = Others(asked, model, embedder)
    yelp: Yelp | None = None
    while True:
        with taken.get_lock():
            index, taken.value = taken.value, taken.value + 1
        if index >= len(runs) or time.monotonic() - began > asked.seconds:
            return
        name, epsilon, seed = parts(runs[index])
        try:
            if name in DATASETS:
                note(others.run(name, epsilon, seed), asked, began)
                continue
            yelp = yelp or Yelp.of(asked, model, embedder)
            note(yelp.real() if name == REAL else yelp.run(name, epsilon, seed), asked, began)
        except Exception:  # noqa: BLE001  (the other runs go on)
            print(f"{runs[index]} failed\n{traceback.format_exc()}", flush=True)


def note(lines: Iterable[dict[str, Any]], asked: argparse.Namespace, began: float) -> None:
    """Write the lines of a run to the results as they come."""
    for line in lines:
        clocks = {"seconds": round(time.monotonic() - began, 1), "cpu seconds": round(time.process_time(), 1)}
        text = json.dumps({**line, **clocks})
        print(text, flush=True)
        with (asked.out / "results.jsonl").open("a", encoding="utf-8") as file:
            file.write(text + "\n")


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help=f"VARIANT:EPSILON:SEED, or one of {', '.join(SETS)}")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="embedded", help="as --generator of gape run")
    parser.add_argument("--embedder", default="minilm", help="as --embedder of gape run")
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=5000, help="use only so many private records")
    parser.add_argument("--topics", nargs="+", help="of the start; by default the model is asked for them")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no run after that")
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    runs = list(dict.fromkeys(run for name in asked.runs for run in SETS.get(name, [name])))
    for run in runs:
        parts(run)
    asked.out.mkdir(parents=True, exist_ok=True)
    began, spawn = time.monotonic(), multiprocessing.get_context("spawn")
    taken = spawn.Value("i", 0)
    if asked.processes == 1:
        work(asked, runs, taken, began)
        return
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, (os.cpu_count() or 1) // asked.processes)))
    workers = [spawn.Process(target=work, args=(asked, runs, taken, began)) for _ in range(asked.processes)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


if __name__ == "__main__":
    main()
