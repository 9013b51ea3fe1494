"""Nearest-candidate votes against faiss's flat index: time, memory, and whether the counts are the same.

python benchmarks/votes.py [--private 20000] [--candidates 16000] [--width 768] [--repeats 5]

Both get all cores and the same points, clustered and of norm one, and take turns. faiss builds its index each time,
because the candidates are new in every round. Memory is the peak above the loaded inputs, each in its own process
(Linux: VmHWM). Rows on which the two differ are decided in float64.
"""

import argparse
import multiprocessing
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import faiss
import numpy as np

from gape.core.types import Indices, Points
from gape.voting.nearest import nearest, nearest_votes

RATIO = 1.1
MEGABYTES = 200


def by_faiss(private: Points, candidates: Points) -> Indices:
    index = faiss.IndexFlatL2(candidates.shape[1])
    index.add(candidates)
    winners: Indices = index.search(private, 1)[1][:, 0]
    return winners


def votes_by_faiss(private: Points, candidates: Points) -> Indices:
    return np.bincount(by_faiss(private, candidates), minlength=len(candidates))


ENGINES: dict[str, Callable[[Points, Points], Indices]] = {"faiss": votes_by_faiss, "gape": nearest_votes}


def clustered(n: int, centres: Points, rng: np.random.Generator) -> Points:
    points = rng.standard_normal((n, centres.shape[1]), dtype=np.float32)
    points += centres[rng.integers(len(centres), size=n)]
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points


def warm_up(engine: str, private: Points, candidates: Points) -> None:
    """Load and compile everything, on pairs of nearly equal candidates, so that close decisions occur too."""
    pairs = np.concatenate([candidates[:4], np.nextafter(candidates[:4], np.float32(1))])
    ENGINES[engine](private[:64], pairs)


def memory(field: str) -> float:
    """Read a field of this process's memory, in MB."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError(f"/proc/self/status has no {field}; measure memory on Linux")
    return int(found[1]) * 1024 / 1e6


def peak_above_inputs(engine: str, folder: str) -> float:
    private, candidates = (np.load(Path(folder) / f"{side}.npy") for side in ("private", "candidates"))
    warm_up(engine, private, candidates)
    before = memory("VmRSS")
    ENGINES[engine](private, candidates)
    return memory("VmHWM") - before


def differences(private: Points, candidates: Points) -> str:
    """Report on how many rows the two engines differ, and which is right in float64."""
    ours, theirs = nearest(private, candidates), by_faiss(private, candidates)
    rows = np.flatnonzero(ours != theirs)
    x = private[rows].astype(np.float64)
    gap = ((x - candidates[ours[rows]]) ** 2).sum(axis=1) - ((x - candidates[theirs[rows]]) ** 2).sum(axis=1)
    return (
        f"{rows.size} rows differ; in float64 gape's candidate is nearer in {(gap < 0).sum()}, "
        f"as near in {(gap == 0).sum()}, farther in {(gap > 0).sum()}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--private", type=int, default=20_000)
    parser.add_argument("--candidates", type=int, default=16_000)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--repeats", type=int, default=5)
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    centres = rng.standard_normal((200, arguments.width), dtype=np.float32)
    private = clustered(arguments.private, centres, rng)
    candidates = clustered(arguments.candidates, centres, rng)

    seconds: dict[str, list[float]] = {engine: [] for engine in ENGINES}
    votes: dict[str, Indices] = {}
    for engine in ENGINES:
        warm_up(engine, private, candidates)
    for repeat in range(arguments.repeats):
        for engine in sorted(ENGINES, reverse=repeat % 2 == 1):
            start = time.perf_counter()
            votes[engine] = ENGINES[engine](private, candidates)
            seconds[engine].append(time.perf_counter() - start)

    megabytes = {}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "private.npy", private)
        np.save(Path(folder) / "candidates.npy", candidates)
        for engine in ENGINES:
            with multiprocessing.get_context("spawn").Pool(1) as child:
                megabytes[engine] = child.apply(peak_above_inputs, (engine, folder))

    print(f"{len(private):,} private x {len(candidates):,} candidates x {arguments.width}, float32")
    print(f"{'':8}{'least s':>10}{'median s':>10}{'MB above inputs':>18}")
    for engine, times in seconds.items():
        print(f"{engine:8}{min(times):10.3f}{statistics.median(times):10.3f}{megabytes[engine]:18.0f}")
    least = min(seconds["gape"]) / min(seconds["faiss"])
    median = statistics.median(seconds["gape"]) / statistics.median(seconds["faiss"])
    print(f"ratio   {least:10.3f}{median:10.3f}")
    print(f"time at most {RATIO} x faiss (least of {arguments.repeats}): {'yes' if least <= RATIO else 'NO'}")
    print(f"memory at most {MEGABYTES} MB: {'yes' if megabytes['gape'] <= MEGABYTES else 'NO'}")
    same = np.array_equal(votes["gape"], votes["faiss"])
    print(f"identical counts: {'yes' if same else 'NO, ' + differences(private, candidates)}")


if __name__ == "__main__":
    main()
