"""Fault injection: every write of two small runs is made to fail in every way.

python benchmarks/faults.py [--step 1] [--runs vectors,texts] [--show 3]

A write is a system call, by any library, that changes a file of the run, of its data or of its ledger: open, write,
fsync, rename, mkdir, chmod, unlink, truncate. The kernel makes it fail (tests/fuzz/syscalls.py) once with each error
number, or with a full disk from then on, or kills the process at that point. The run is then resumed without faults and
compared with an undisturbed one: the published samples must be the same, the ledger must hold each release once, no
unfinished file may be left, and the error must be one sentence. `--step 8` takes every eighth pair of write and fault.
"""

import argparse
import contextlib
import errno
import hashlib
import importlib
import json
import os
import re
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

# The folder of the tests in place of this one, which has files of the same names.
sys.path[0] = str(Path(__file__).resolve().parents[1] / "tests")

import parts  # noqa: E402
from fuzz.syscalls import KILL, Fault, Outcome, supervised  # noqa: E402
from gape.core.errors import GapeError  # noqa: E402
from gape.core.types import Points, Samples  # noqa: E402
from gape.language.scripted import ScriptedModel  # noqa: E402
from gape.privacy.ledger import Ledger  # noqa: E402
from gape.privacy.noise import SeededNoise  # noqa: E402
from gape.runs.folder.stored import LEDGER_SUFFIX  # noqa: E402
from gape.runs.settings import Settings  # noqa: E402
from gape.runs.synthesize import run_text  # noqa: E402
from generators.writing import write  # noqa: E402
from made_up import private_rows, write_csv  # noqa: E402

FAULTS = {
    "ENOSPC": Fault(0, errno.ENOSPC),
    "EROFS": Fault(0, errno.EROFS),
    "EACCES": Fault(0, errno.EACCES),
    "EINTR": Fault(0, errno.EINTR),
    "EIO": Fault(0, errno.EIO),
    "ENOSPC from then on": Fault(0, errno.ENOSPC, lasting=True),
    "SIGKILL": Fault(0, KILL),
}
HEADS = ("fault", "injected", "absorbed", "said", "budget", "samples", "left over", "unclear", "hung")
CLEAR = re.compile(r"[^\n]{10,600}")


class Letters:
    """An embedder without a model: the frequency of each letter. It replaces the one that the settings name."""

    def __repr__(self) -> str:
        return "MiniLM(letters)"

    def embed(self, samples: Samples) -> Points:
        counts = np.array([[text.lower().count(chr(97 + i)) for i in range(26)] for text in samples], dtype=np.float32)
        points: Points = (counts / np.linalg.norm(counts, axis=1, keepdims=True)).astype(np.float32)
        return points


@dataclass(frozen=True)
class Subject:
    """A run that starts or resumes in a folder."""

    work: Callable[[Path], None]
    ledger: Callable[[Path], Path]
    releases: int
    prepare: Callable[[Path], object] = lambda _: None


def published(run: Path) -> str:
    """Return what a run has published: the samples, and the privacy statement without its time and the ledger's id."""
    table = pq.read_table(run / "release" / "synthetic.parquet").to_pylist()
    statement = json.loads((run / "release" / "privacy.json").read_text()) | {"ledger": ""}
    return hashlib.sha256(f"{table} {statement}".encode()).hexdigest()


def vectors(folder: Path) -> None:
    with contextlib.closing(Ledger(folder / "ledger", parts.BUDGET)) as ledger:
        parts.small_run(folder / "run", ledger)


def texts(folder: Path) -> None:
    settings = Settings.of(
        {"data": str(folder / "reviews.csv"), "text": "review", "epsilon": 4.0, "samples": 3, "rounds": 2},
        {"copies": 1, "scales": [0.5], "words": 30, "domain": "reviews", "topics": ["bread", "cars"]},
    )
    run_text(settings, folder / "run", noise=SeededNoise(5))


SUBJECTS = {
    "vectors": Subject(vectors, lambda folder: folder / "ledger", parts.PLAN.rounds),
    "texts": Subject(
        texts,
        lambda folder: folder / f"reviews.csv{LEDGER_SUFFIX}",
        2,
        lambda folder: write_csv(folder / "reviews.csv", private_rows(30)),
    ),
}


@dataclass
class Tally:
    """The outcomes of the faults of one kind."""

    injected: int = 0
    absorbed: int = 0  # the run finished all the same
    said: int = 0  # the run stopped with one clear sentence, or was killed
    budget: int = 0  # runs whose ledger has more or fewer releases than were made
    samples: int = 0  # resumed runs with another result
    left_over: int = 0  # unfinished files after the resumed run
    unclear: int = 0  # errors that users cannot act on, or of several lines
    hung: int = 0


@contextlib.contextmanager
def places() -> Iterator[Path]:
    """Return a folder in memory if there is one, because thousands of runs would wait for the disk."""
    memory = Path("/dev/shm")  # noqa: S108  (a fresh folder inside it)
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as path:
        yield Path(path)


def is_clear(error: str) -> bool:
    """Return whether an error is one of this package, or an error of the system that names a file, in one line."""
    kind, _, message = error.partition(": ")
    ours = {each.__name__ for each in _below(GapeError)}
    systems = {each.__name__ for each in _below(OSError)}
    return (kind in ours | systems) and CLEAR.fullmatch(message) is not None


def _below(kind: type[BaseException]) -> set[type[BaseException]]:
    return {kind} | {lower for each in kind.__subclasses__() for lower in _below(each)}


def judge(subject: Subject, here: Path, outcome: Outcome, whole: str, tally: Tally) -> str:
    """Resume without faults and count what is wrong; returns what was unclear, if anything."""
    tally.injected += 1
    unclear = ""
    if outcome.hung:
        tally.hung += 1
    elif outcome.killed or is_clear(outcome.error):
        tally.said += 1
    elif outcome.error:
        tally.unclear += 1
        unclear = f"{outcome.error}\n{outcome.trace}"
    else:
        tally.absorbed += 1
    resumed = supervised(lambda: subject.work(here), here, None)
    ended = not (resumed.error or resumed.killed) and published(here / "run") == whole
    if not ended:
        tally.samples += 1
        unclear += f"\nresumed: {resumed.error}\n{resumed.trace}"
    try:
        with contextlib.closing(Ledger(subject.ledger(here))) as ledger:
            charged = len(ledger.releases())
    except GapeError:
        charged = 0  # no ledger, and so nothing that was released
    tally.budget += int(charged != subject.releases if ended else charged > subject.releases)
    tally.left_over += int(any(here.rglob("*.tmp")))
    return unclear


def trial(subject: Subject, folder: Path, number: int, fault: Fault, whole: str, tally: Tally) -> str:
    here = folder / str(number)
    here.mkdir()
    subject.prepare(here)
    outcome = supervised(lambda: subject.work(here), here, fault)
    unclear = judge(subject, here, outcome, whole, tally)
    shutil.rmtree(here)
    return unclear


def examine(name: str, folder: Path, step: int) -> tuple[dict[str, Tally], Counter[str], tuple[str, ...]]:
    """Inject every `step`-th pair of write and fault into a run; returns tallies, what was unclear, and the writes."""
    subject = SUBJECTS[name]
    whole = folder / "whole"
    whole.mkdir()
    subject.prepare(whole)
    subject.work(whole)  # loads and compiles here, so that the children need not
    shutil.rmtree(whole)
    whole.mkdir()
    subject.prepare(whole)
    clean = supervised(lambda: subject.work(whole), whole, None)
    if clean.error or clean.killed:
        raise SystemExit(f"the run without faults failed: {clean.error}\n{clean.trace}")
    result, tallies, unclear = published(whole / "run"), {kind: Tally() for kind in FAULTS}, Counter[str]()
    pairs = [(at, kind) for at in range(1, len(clean.calls) + 1) for kind in FAULTS]
    for number, (at, kind) in enumerate(pairs[::step]):
        fault = Fault(at, FAULTS[kind].number, FAULTS[kind].lasting)
        if said := trial(subject, folder, number, fault, result, tallies[kind]):
            unclear[f"{kind} at {clean.calls[at - 1]}: {said}"] += 1
    return tallies, unclear, clean.calls


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--runs", default="vectors,texts")
    parser.add_argument("--show", type=int, default=3, help="unclear errors to print in full")
    chosen = parser.parse_args()
    module: Any = importlib.import_module("gape.runs.synthesize")  # the package has a function of this name
    module.make_model = lambda *_: ScriptedModel(write)
    module.make_embedder = lambda *_: Letters()
    bad = 0
    for name in chosen.runs.split(","):
        with places() as folder:
            tallies, unclear, calls = examine(name, folder, chosen.step)
        by_name = ", ".join(f"{count} {call}" for call, count in Counter(calls).most_common())
        print(f"{name}: {len(calls)} writes ({by_name})")
        print("| " + " | ".join(HEADS) + " |")
        print("| " + " | ".join("---" for _ in HEADS) + " |")
        total = Tally()
        for kind, tally in tallies.items():
            print(f"| {kind} | " + " | ".join(str(value) for value in vars(tally).values()) + " |")
            for field, value in vars(tally).items():
                setattr(total, field, getattr(total, field) + value)
        print("| all | " + " | ".join(str(value) for value in vars(total).values()) + " |\n")
        bad += total.budget + total.samples + total.left_over + total.unclear + total.hung
        for said, count in unclear.most_common(chosen.show):
            print(f"{count} x {said}\n", file=sys.stderr)
    os._exit(min(bad, 1))  # no threads of a library may keep a finished command


if __name__ == "__main__":
    main()
