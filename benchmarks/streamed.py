"""Votes streamed from disk: time, resident memory, and whether the counts are those of `nearest_votes`.

python benchmarks/streamed.py FOLDER [--records 10000000] [--candidates 2000] [--width 384]

Random points of norm one are written to FOLDER/vectors, which takes 4 bytes per number (15.4 GB by default), is made by
the same code as `gape embed`, and is removed afterwards. The files are dropped from the page cache before the first
count, which therefore reads from disk and compares checksums; the second count may use the cache. Each step runs in its
own process, whose peak resident memory is that of the kernel (ru_maxrss). Counts of all records for a twentieth of the
candidates are compared with the sum of `nearest_votes` over blocks of another size.
"""

import argparse
import multiprocessing
import os
import resource
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gape._support.files import write_json
from gape.core.types import Counts, Points
from gape.voting.filling import Filling
from gape.voting.nearest import nearest_votes
from gape.voting.store import Origin, VectorFolder, record_digest
from gape.voting.streamed import StreamedElectorate

MEGABYTES = 1000
BATCH = 2**16
OTHER_BLOCK = 50_021


def points_of(seed: int, count: int, width: int) -> Points:
    points = np.random.default_rng(seed).standard_normal((count, width), dtype=np.float32)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points


def save(path: Path, value: Any) -> None:
    write_json(path, value)
    path.chmod(0o600)


def fill(path: Path, records: int, width: int) -> tuple[float, None]:
    (path / "partial").mkdir(parents=True, mode=0o700)
    path.chmod(0o700)
    filling = Filling(path, save, users=False, labels=False)
    start = time.perf_counter()
    for seed, first in enumerate(range(0, records, BATCH), start=1):
        points = points_of(seed, min(BATCH, records - first), width)
        filling.append(points, b"".join(record_digest(row.tobytes()) for row in points))
    filling.finish(Origin("random points", {"text": None, "label": None, "user": None}, "none", "none", None), 0)
    return time.perf_counter() - start, None


def uncache(path: Path) -> None:
    for file in path.glob("*.npy"):
        descriptor = os.open(file, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def vote(path: Path, candidates: int, width: int, rounds: int) -> tuple[list[float], Counts]:
    electorate = StreamedElectorate(path)
    points = points_of(0, candidates, width)
    nearest_votes(points[:200], points[:200])  # compiled before the clock starts
    seconds = []
    for turn in range(1, rounds + 1):
        start = time.perf_counter()
        counts = electorate.count(points, turn)
        seconds.append(time.perf_counter() - start)
    return seconds, counts


def by_blocks(path: Path, candidates: int, width: int) -> tuple[float, Counts]:
    """Count in memory, shard by shard, in blocks other than those of the electorate."""
    points = points_of(0, candidates, width)
    counts = np.zeros(candidates, dtype=np.int64)
    start = time.perf_counter()
    for shard in VectorFolder(path).shards:
        vectors = np.load(path / shard.name, mmap_mode="r")
        for first in range(0, len(vectors), OTHER_BLOCK):
            counts += nearest_votes(np.array(vectors[first : first + OTHER_BLOCK]), points)
    return time.perf_counter() - start, counts


def measured(step: Callable[..., tuple[Any, Any]], *arguments: Any) -> tuple[Any, Any, float, float]:
    took, result = step(*arguments)
    used = resource.getrusage(resource.RUSAGE_SELF)
    return took, result, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024 / 1e6


def in_child(step: Callable[..., tuple[Any, Any]], *arguments: Any) -> tuple[Any, Any, float, float]:
    with multiprocessing.get_context("spawn").Pool(1) as child:
        found: tuple[Any, Any, float, float] = child.apply(measured, (step, *arguments))
        return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--records", type=int, default=10_000_000)
    parser.add_argument("--candidates", type=int, default=2_000)
    parser.add_argument("--width", type=int, default=384)
    given = parser.parse_args()
    n, v, d = given.records, given.candidates, given.width
    path = given.folder / "vectors"
    size, work = 4 * n * d, 2 * n * v * d
    try:
        seconds, _, _, memory = in_child(fill, path, n, d)
        print(f"{n:,} records x {v:,} candidates x {d}: {size / 1e9:.1f} GB on disk")
        print(f"filled in {seconds:.0f} s with {memory:.0f} MB resident", flush=True)
        uncache(path)
        (first,), _, cpu, memory = in_child(vote, path, v, d, 1)
        print(
            f"voted in {first:.0f} s, {cpu:.0f} CPU s: {work / first / 1e9:.0f} GFLOP/s, {size / first / 1e6:.0f} MB/s"
        )
        small = memory < MEGABYTES
        print(f"resident at most {memory:.0f} MB; below {MEGABYTES} MB: {'yes' if small else 'NO'}", flush=True)
        fewer = max(1, v // 20)
        uncache(path)
        times, counts, cpu, memory = in_child(vote, path, fewer, d, 2)
        rates = " and ".join(f"{each:.0f} s, {size / each / 1e6:.0f} MB/s" for each in times)
        print(f"voted for {fewer} candidates, twice: {rates}, with {memory:.0f} MB resident", flush=True)
        _, expected, _, _ = in_child(by_blocks, path, fewer, d)
        print(f"the counts of nearest_votes: {'yes' if np.array_equal(counts, expected) else 'NO'}")
    finally:
        shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    main()
