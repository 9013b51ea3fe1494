"""The speedup of a second Ray worker: votes and texts by one worker and by two, each with one core, in turns.

python benchmarks/cluster.py [--private 20000] [--candidates 8000] [--width 384] [--requests 64] [--repeats 3]

All workers are in one cluster on this machine, which therefore needs two idle cores. The vectors are in a file, of
which each worker reads its part; the texts are written by the embedded model, 4 at a time on each worker. Answers and
counts are compared. The result is wall-clock time, which other programs disturb; the CPU time of the busiest worker
shows what it would be on an idle machine.
"""

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gape.core.types import Points
from gape.distributed.cluster import PointShard, RayElectorate, RayModel, in_parts, ray_cluster
from gape.language.embedded import EmbeddedModel
from gape.language.request import Completion, Request
from gape.language.weights import SMOLLM2, fetch


def busy(pid: int) -> float:
    """Return the CPU seconds of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def timed(pids: list[int], work: Callable[[], Any]) -> tuple[float, float, Any]:
    """Return wall-clock seconds, CPU seconds of the busiest worker, and the result."""
    before = [busy(pid) for pid in pids]
    start = time.perf_counter()
    result = work()
    seconds = time.perf_counter() - start
    return seconds, max(busy(pid) - earlier for pid, earlier in zip(pids, before, strict=True)), result


def compared(what: str, crews: Mapping[int, tuple[list[int], Callable[[], Any]]], repeats: int) -> None:
    clock: dict[int, list[float]] = {workers: [] for workers in crews}
    core: dict[int, list[float]] = {workers: [] for workers in crews}
    results: dict[int, Any] = {}
    for repeat in range(repeats):
        for workers in sorted(crews, reverse=repeat % 2 == 1):
            seconds, processor, results[workers] = timed(*crews[workers])
            clock[workers].append(seconds)
            core[workers].append(processor)
    print(what)
    print(f"{'workers':>8}{'least s':>10}{'median s':>10}{'busiest worker, CPU s':>24}")
    for workers in crews:
        times = min(clock[workers]), statistics.median(clock[workers]), statistics.median(core[workers])
        print(f"{workers:>8}{times[0]:>10.2f}{times[1]:>10.2f}{times[2]:>24.2f}")
    ratios = (min(clock[1]) / min(clock[2]), statistics.median(clock[1]) / statistics.median(clock[2]))
    print(f"speed-up {ratios[0]:9.2f}{ratios[1]:10.2f}{statistics.median(core[1]) / statistics.median(core[2]):24.2f}")
    print(f"identical results: {'yes' if results[1] == results[2] else 'NO'}", flush=True)


def counted(electorate: RayElectorate, candidates: Points) -> list[int]:
    counts: list[int] = electorate.count(candidates, 1).tolist()
    return counts


def written(model: RayModel, requests: list[Request]) -> dict[int, Completion]:
    return dict(model.complete(requests))


def votes(private: int, candidates: int, width: int, repeats: int) -> None:
    rng = np.random.default_rng(0)
    public = rng.standard_normal((candidates, width), dtype=np.float32)
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "private.npy"
        np.save(file, rng.standard_normal((private, width), dtype=np.float32))
        one, two = (RayElectorate(in_parts(PointShard(str(file)), workers)) for workers in (1, 2))
    with one, two:
        for electorate in (one, two):  # loads compiled code
            electorate.count(public[:500], 1)
        crews = {
            workers: (electorate.pids, partial(counted, electorate, public))
            for workers, electorate in ((1, one), (2, two))
        }
        compared(f"votes: {private:,} records, {candidates:,} candidates, {width} dimensions", crews, repeats)


def texts(requests: int, repeats: int) -> None:
    file = fetch(SMOLLM2)
    asked = [Request(f"Write about river number {i}.", max_tokens=60, seed=i) for i in range(requests)]

    def model() -> EmbeddedModel:
        return EmbeddedModel(file, slots=4, context=256)

    with RayModel(model, 1, share=8) as one, RayModel(model, 2, share=8) as two:
        crews = {workers: (writer.pids, partial(written, writer, asked)) for workers, writer in ((1, one), (2, two))}
        compared(f"texts: {requests} answers of at most 60 tokens", crews, repeats)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--private", type=int, default=20_000)
    parser.add_argument("--candidates", type=int, default=8_000)
    parser.add_argument("--width", type=int, default=384)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    start = time.perf_counter()
    with ray_cluster(cores=3):  # counted, not used: one worker waits while the others work
        print(f"the cluster started in {time.perf_counter() - start:.1f} s")
        votes(asked.private, asked.candidates, asked.width, asked.repeats)
        texts(asked.requests, asked.repeats)


if __name__ == "__main__":
    main()
