"""Make the run folders of the version before the packages were redesigned.

The archives beside this file were made by commit 035716e, the last one with the modules at the top level. They hold
made-up data only. To make them again, with the packages of requirements/dev.txt installed:

    git worktree add --detach OLD 035716e
    PYTHONPATH=OLD/src:OLD/tests python tests/data/before/make.py

Each archive is one folder: the run, its ledger, the data that it reads, and the key that its settings are sealed with.
Runs that are stopped were killed in round 2 of 3, after its votes were charged and stored and before the selection.
Every run is made in ROOT, because settings hold absolute paths; tests put their own folder in its place.
"""

import csv
import itertools
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import faulty_server
import gape
from faulty_server import FaultyServer

ROOT = Path("/tmp/gape-before")  # noqa: S108  (the same on every machine; the tests replace it)
HERE = Path(__file__).parent
STOPPED_IN = 2  # the round whose votes are charged and stored, but not yet used

PLACES = ("bakery", "garage", "library", "museum", "dentist", "market")
VERDICTS = ("was friendly", "was closed", "took too long", "cost a lot", "smelled good")
ENDS = ("today", "again", "on Monday")
PROMPTS = """
domain = "short reports"
words = 16
random = ["Write one of {domain}."]
rephrase = ["Say it in other words: {sample}"]
"""
SCHEMA = """
[age]
least = 0
most = 100

[kind]
choices = ["cat", "dog", "owl"]

[weight]
least = 0.0
most = 50.0
decimals = 1
missing = true
"""


def text_run(folder: Path, **more: Any) -> None:
    """Make a run that chooses among public texts."""
    _write_reviews(folder)
    public = [f"The {place} {verdict} {end}." for place, verdict, end in itertools.product(PLACES, VERDICTS, ENDS)]
    (folder / "public.txt").write_text("\n".join(public) + "\n")
    values = {"data": str(folder / "reviews.csv"), "text": "review", "generator": f"corpus:{folder / 'public.txt'}"}
    gape.run_text(gape.Settings.of({**values, **_small(), **more}), folder / "run")


def labelled_run(folder: Path) -> None:
    """Make a run with labels that protects users, stopped."""
    _stop(folder / "reviews.csv.gape-ledger.sqlite")
    text_run(folder, label="stars", labels=("low", "high"), user="who", delta=1e-4)


def unpaid_run(folder: Path) -> None:
    """Make a run whose selection reads its separation off the private data, so that it is not private."""
    text_run(folder, separation="private-kmeans")


def model_run(folder: Path) -> None:
    """Make a run whose texts a service writes, some of which repeat others and are rewritten at the end."""
    _write_reviews(folder)
    (folder / "prompts.toml").write_text(PROMPTS)
    last = folder / "run" / "internal" / "rounds" / "003"
    faulty_server.answer_to = lambda prompt, seed: _answer(prompt, seed, (last / "candidates.parquet").exists())
    with FaultyServer() as server:
        service = {"generator": "openai:tiny", "base_url": server.url, "prompts": str(folder / "prompts.toml")}
        values = {"data": str(folder / "reviews.csv"), "text": "review", **service, **_small()}
        gape.run_text(gape.Settings.of(values), folder / "run")
    if not pq.read_table(last / "rewritten.parquet").num_rows:
        raise RuntimeError("nothing was rewritten")


def stopped_model_run(folder: Path) -> None:
    """Make a run whose texts a service writes, stopped."""
    _stop(folder / "reviews.csv.gape-ledger.sqlite")
    model_run(folder)


def table_run(folder: Path) -> None:
    """Make a run on a table."""
    (folder / "schema.toml").write_text(SCHEMA)
    rng = np.random.default_rng(0)
    rows = [
        {"age": int(rng.integers(1, 15)), "kind": kind, "weight": round(float(rng.uniform(low, 2 * low)), 1)}
        for kind, low in (("cat", 3), ("dog", 10))
        for _ in range(100)
    ]
    _write_csv(folder / "animals.csv", rows)
    values = {"data": str(folder / "animals.csv"), "schema": str(folder / "schema.toml")}
    gape.run_text(gape.Settings.of({**values, **_small()}), folder / "run")


def stopped_table_run(folder: Path) -> None:
    """Make a run on a table, stopped."""
    _stop(folder / "animals.csv.gape-ledger.sqlite")
    table_run(folder)


def vector_run(folder: Path) -> None:
    """Make a run on vectors that is put together in Python; `tests/runs/test_earlier_folders.py` has the same parts."""
    rng = np.random.default_rng(3)
    centres = np.array([[-1.0, 0.0], [1.0, 0.5]])
    points = (centres[rng.integers(0, 2, 200)] + 0.1 * rng.standard_normal((200, 2))).astype(np.float32)
    np.save(folder / "points.npy", points)
    plan = gape.Plan(epsilon=4.0, delta=1e-5, rounds=3, samples=3, scales=(0.1, 0.01), copies=2, seed=11)
    generator = gape.GaussianGenerator.isotropic(gape.StartFromBox((-2.0, -2.0), (2.0, 2.0)), 2)
    parts = (generator, gape.IdentityEmbedder(), gape.LocalElectorate(points), gape.Ranking())
    ledger = gape.Ledger(folder / "ledger.sqlite", gape.Budget(plan.epsilon, plan.delta))
    with closing(ledger):
        gape.run(folder / "run", plan, *parts, ledger)


def stopped_vector_run(folder: Path) -> None:
    """Make a run on vectors, stopped."""
    _stop(folder / "ledger.sqlite", gape.Ranking)
    vector_run(folder)


RUNS: dict[str, Callable[[Path], None]] = {
    "text": text_run,
    "labels-stopped": labelled_run,
    "unpaid": unpaid_run,
    "model": model_run,
    "model-stopped": stopped_model_run,
    "table": table_run,
    "table-stopped": stopped_table_run,
    "vectors": vector_run,
    "vectors-stopped": stopped_vector_run,
}


def _small() -> dict[str, Any]:
    return {"epsilon": 8.0, "samples": 6, "rounds": 3, "seed": 1}


def _write_reviews(folder: Path) -> None:
    rows = [
        {
            "review": f"Our {PLACES[i % 3]} {VERDICTS[i % 5]} {ENDS[i % 2]}, number {i}.",
            "stars": ("low", "high")[i % 2],
            "who": f"person {i % 30}",
        }
        for i in range(60)
    ]
    _write_csv(folder / "reviews.csv", rows)


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0])
        writer.writeheader()
        writer.writerows(rows)


def _answer(prompt: str, seed: int, rewriting: bool) -> str:  # noqa: FBT001
    """Answer in one sentence, which begins like all others until the last pass asks for another."""
    rng = random.Random(f"{seed} {prompt}")  # noqa: S311  (an answer, not a secret)
    opening = "Yes, on " if rewriting else "The one that we went to with all of us on "
    return f"{opening}{rng.choice(ENDS)} the {rng.choice(PLACES)} {rng.choice(VERDICTS)}, {rng.randrange(1000)} times."


def _stop(ledger: Path, rule: type = gape.Gape) -> None:
    """Have this process killed where a rule is about to select by the votes of round `STOPPED_IN`."""

    def or_killed(step: Callable[..., object]) -> Callable[..., object]:
        def killed(*arguments: Any, **options: Any) -> object:
            if ledger.exists():
                with closing(sqlite3.connect(ledger)) as database:
                    (charged,) = database.execute("SELECT count(*) FROM releases").fetchone()
                if charged == STOPPED_IN:
                    os.kill(os.getpid(), signal.SIGKILL)
            return step(*arguments, **options)

        return killed

    for name in {"__call__", "among"} & set(vars(rule)):
        setattr(rule, name, or_killed(getattr(rule, name)))


def _make(name: str) -> None:
    """Make one run in a process of its own, and put its folder into an archive."""
    folder = ROOT / name
    folder.mkdir(parents=True)
    code = subprocess.run(
        [sys.executable, __file__, name], check=False, env=os.environ | {"GAPE_STATE": str(folder / "state")}
    ).returncode
    if code != (-signal.SIGKILL if name.endswith("stopped") else 0):
        raise RuntimeError(f"{name} ended with code {code}")
    with tarfile.open(HERE / f"{name}.tar.gz", "w:gz") as archive:
        archive.add(folder, arcname=".", filter=_anonymous)


def _anonymous(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


if __name__ == "__main__":
    if sys.argv[1:]:
        RUNS[sys.argv[1]](ROOT / sys.argv[1])
    else:
        shutil.rmtree(ROOT, ignore_errors=True)
        for name in RUNS:
            _make(name)
