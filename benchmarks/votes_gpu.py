"""Exact nearest-candidate votes on a GPU: time by pass, time of other methods in the same run, and correctness.

python benchmarks/votes_gpu.py --check                      # first: kernels against torch, hard cases, speed of shapes
python benchmarks/votes_gpu.py [--private 5000000] [--candidates 80000] [--width 768] [--spread S] [--out FILE]

Points are made up, clustered and of norm one, and generated on the GPU. With --spread, candidates come in groups of
eight variations, at about that distance from a common point. Private points are on the GPU before the clock starts, as
in every round but the first; candidates come from the host, and the counts go back there, as in every round.

"float32" and "TF32" are a product in blocks with an arg-max. "DPSDA's" is the torch back end of microsoft/DPSDA,
torch.cdist and topk, also in blocks, because it would need the whole matrix of distances. These run on a part of the
rows, and their time is extrapolated to all.

Every row is checked: by float32 if its two best scores differ by more than the error of float32, otherwise by the
definition in float64 on the best four; a random 100,000 rows are checked by the definition in any case.
"""

import argparse
import functools
import importlib
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from gape._support.parallel import cuda
from gape.core.types import Indices, Points
from gape.voting.device import DeviceVoters, Winners
from gape.voting.field import distinct_rows
from gape.voting.nearest import reference_nearest
from gape.voting.tops import DEPTH, GROUP, Engine, _by_torch, padded, pieces

DEVICE = cuda() or "cpu"
MEMORY = None if DEVICE != "cpu" else 2**32  # the processor does not say what is free
ROUNDS = 3
SIZES = (5_000_000, 80_000, 768)
SECONDS = 2.5  # for a round of these sizes on one H200


def wait() -> None:
    if DEVICE != "cpu":
        torch.cuda.synchronize()


def clock(work: Callable[..., Any], *arguments: Any) -> float:
    wait()
    start = time.perf_counter()
    work(*arguments)
    wait()
    return time.perf_counter() - start


class Timed(DeviceVoters):
    """Measures the time of each pass; waiting for the device makes a round a little longer."""

    seconds: dict[str, float]

    def _take(self, name: str, work: Callable[..., Any], *arguments: Any) -> Any:
        results: list[Any] = []
        self.seconds[name] = self.seconds.get(name, 0.0) + clock(lambda: results.append(work(*arguments)))
        return results[0]

    def _field(self, *arguments: Any) -> Any:
        return self._take("candidates", super()._field, *arguments)

    def _round(self, *arguments: Any) -> Any:
        return self._take("halving", super()._round, *arguments)

    def _tops(self, *arguments: Any) -> Any:
        return self._take("halves' product", super()._tops, *arguments)

    def _decide(self, *arguments: Any) -> Any:
        return self._take("all deciding", super()._decide, *arguments)


def clustered(n: int, centres: Any) -> Any:
    points = torch.empty(n, centres.shape[1], device=DEVICE)
    for rows in pieces(n, 2**18):
        some = torch.randn(rows.stop - rows.start, centres.shape[1], device=DEVICE)
        some += centres[torch.randint(len(centres), (len(some),), device=DEVICE)]
        points[rows] = some / torch.linalg.vector_norm(some, dim=1, keepdim=True)
    return points


def made_up(n: int, v: int, d: int, spread: float | None) -> tuple[Any, Points]:
    torch.manual_seed(0)
    centres = torch.randn(200, d, device=DEVICE)
    private = clustered(n, centres)
    if spread is None:
        return private, clustered(v, centres).cpu().numpy()
    varied = clustered(-(-v // 8), centres).repeat_interleave(8, 0)[:v]
    varied += spread / d**0.5 * torch.randn(v, d, device=DEVICE)
    return private, (varied / torch.linalg.vector_norm(varied, dim=1, keepdim=True)).cpu().numpy()


def precision(*, tf32: bool) -> None:
    torch.backends.cuda.matmul.allow_tf32 = tf32


def by_product(private: Any, candidates: Any) -> Any:
    """Return the best candidate of each row, by scores in the current precision of torch, and the two best scores."""
    lift = (candidates**2).sum(1) / -2
    found = []
    for rows in pieces(len(private), 8192):
        scores = torch.addmm(lift, private[rows], candidates.T)
        best, leader = scores.max(1)
        scores.scatter_(1, leader[:, None], -torch.inf)
        found.append((leader, best, scores.amax(1)))
    return tuple(torch.cat(parts) for parts in zip(*found, strict=True))


def arg_max(private: Any, candidates: Any) -> None:
    lift = (candidates**2).sum(1) / -2
    for rows in pieces(len(private), 8192):
        torch.addmm(lift, private[rows], candidates.T).argmax(1)


def by_cdist(private: Any, candidates: Any) -> None:
    for rows in pieces(len(private), 8192):
        torch.topk(torch.cdist(private[rows], candidates), k=1, dim=1, largest=False)


def by_definition(private: Any, candidates: Any) -> Any:
    """Return the nearest of the four best by a float64 product, by distances summed in order in float64."""
    right = candidates.double()
    lift = (right**2).sum(1) / -2
    found = []
    for rows in pieces(len(private), 1024):
        left = private[rows].double()
        best = torch.addmm(lift, left, right.T).topk(min(4, len(right)), dim=1).indices.sort(1).values
        terms = ((left[:, None] - right[best]) ** 2).permute(2, 0, 1).contiguous()
        total = torch.zeros_like(terms[0])
        for term in terms:
            total += term
        found.append(best.gather(1, total.argmin(1, keepdim=True))[:, 0])  # the first of the least
    return torch.cat(found)


def verify(private: Any, candidates: Points, indices: Indices) -> dict[str, int]:
    """Report how many rows were checked in each way, and how many were wrong."""
    right, ours = torch.from_numpy(candidates).to(DEVICE), torch.from_numpy(indices).to(DEVICE)
    precision(tf32=False)
    leader, best, second = by_product(private, right)
    d = private.shape[1]
    margin = 2 * 1.5 * 1.1 * (d + 16) * 2.0**-24  # of two scores |x||y| + |y|²/2, with |x| = |y| = 1
    clear = best - second > margin
    wrong = int((leader != ours)[clear].sum())
    close = (~clear).nonzero()[:, 0]
    some = torch.randint(len(private), (min(100_000, len(private)),), device=DEVICE)
    wrong_close, wrong_some = (int((by_definition(private[r], right) != ours[r]).sum()) for r in (close, some))
    return {
        "clear rows": int(clear.sum()),
        "clear rows wrong": wrong,
        "close rows": len(close),
        "close rows wrong": wrong_close,
        "random rows": len(some),
        "random rows wrong": wrong_some,
        "float32 differs in close rows": int((leader != ours)[~clear].sum()),
    }


def others(private: Any, candidates: Points) -> dict[str, dict[str, float]]:
    right, n = torch.from_numpy(candidates).to(DEVICE), len(private)
    table = {}
    for name, work, rows, tf32 in (
        ("float32", arg_max, 2**18, False),
        ("TF32", arg_max, 2**19, True),
        ("DPSDA's", by_cdist, 2**17, False),
    ):
        precision(tf32=tf32)
        part = private[: min(rows, n)]
        work(part[:8192], right)
        table[name] = {"rows": len(part), "seconds": clock(work, part, right) * n / len(part)}
    precision(tf32=False)
    return table


def measure(arguments: argparse.Namespace) -> None:
    n, v, d = arguments.private, arguments.candidates, arguments.width
    private, candidates = made_up(n, v, d, arguments.spread)
    voters = DeviceVoters(private, DEVICE, memory=MEMORY)
    winners: list[Winners] = []

    def a_round() -> None:
        winners.append(voters.nearest(candidates, distinct_rows(candidates), count=arguments.votes))
        np.bincount(winners[-1].indices.ravel(), minlength=v)

    a_round()  # compiles and allocates
    seconds = [clock(a_round) for _ in range(ROUNDS)]
    distinct = clock(distinct_rows, candidates)
    timed = Timed(private, DEVICE, memory=MEMORY)
    timed.seconds = {}
    timed.nearest(candidates, np.arange(v), count=arguments.votes)
    passes = dict(timed.seconds)
    passes["float64 and pairs"] = passes.pop("all deciding") - passes["halves' product"]
    passes["equal candidates"] = distinct
    last = winners[-1]
    result = {
        "n": n,
        "v": v,
        "d": d,
        "votes of a record": arguments.votes,
        "device": torch.cuda.get_device_name() if DEVICE != "cpu" else "cpu",
        "torch": torch.__version__,
        "engine": str(getattr(voters._engine, "keywords", "torch")),
        "rounds": seconds,
        "passes": passes,
        "tflops": 2 * n * v * d / passes["halves' product"] / 1e12,
        "groups": last.groups,
        "groups looked at per row": last.looked_at / n,
        "pairs compared": last.compared,
        "others": others(private, candidates),
        "checked": verify(private, candidates, last.indices[:, 0]),
    }
    report(result)
    if arguments.out:
        arguments.out.write_text(json.dumps(result, indent=1))


def report(result: dict[str, Any]) -> None:
    least = min(result["rounds"])
    print(
        f"{result['n']:,} private x {result['v']:,} candidates x {result['d']}, {result['device']}, {result['engine']}"
    )
    print(f"{'gape, a whole round':28}{least:9.3f} s   (all: {', '.join(f'{s:.3f}' for s in result['rounds'])})")
    for name, seconds in result["passes"].items():
        print(f"  {name:26}{seconds:9.3f} s")
    print(f"  halves' product at {result['tflops']:.0f} TFLOP/s")
    for name, other in result["others"].items():
        note = "" if other["rows"] == result["n"] else f"   (from {other['rows']:,} rows)"
        print(f"{name:28}{other['seconds']:9.3f} s   {other['seconds'] / least:6.1f} x{note}")
    print(f"groups looked at per row: {result['groups looked at per row']:.3f} of {result['groups']}")
    print(f"pairs compared by the definition: {result['pairs compared']:,}")
    checked = result["checked"]
    print(", ".join(f"{name}: {count:,}" for name, count in checked.items()))
    right = not any(count for name, count in checked.items() if name.endswith("wrong"))
    print(f"all winners right: {'yes' if right else 'NO'}")
    if (result["n"], result["v"], result["d"]) == SIZES:
        print(f"a round in {SECONDS} s: {'yes' if least <= SECONDS else 'NO'}")


def engines() -> dict[str, Engine]:
    """Return torch and, with Triton, every shape of the kernels."""
    found: dict[str, Engine] = {"torch": _by_torch}
    try:
        kernels: Any = importlib.import_module("gape.voting.kernels")
    except ImportError as problem:
        print(f"no Triton ({problem}): torch alone")
        return found
    print(f"triton {importlib.import_module('triton').__version__}")
    if DEVICE != "cpu":
        print(f"taken: {kernels.fitting(DEVICE)}")
    return found | {str(shape): functools.partial(kernels.tops, shape=shape) for shape in kernels.SHAPES}


def check_sums(tried: dict[str, Engine]) -> None:
    """Compare with float64, on random numbers and on sums that truncation always makes smaller.

    Errors are in units of 2^-23 times the product of the norms, of which 3k/2 are allowed.
    """
    for r, k, groups in ((128, 64, 1), (384, 128, 3), (128 * 19, 768, 5), (128 * 300, 64, 40)):
        for whole in (False, True):
            sides = [torch.randint(1025, 2047, (m, k)) if whole else torch.randn(m, k) for m in (r, groups * GROUP)]
            halves, candidates = (side.half().to(DEVICE) for side in sides)
            inverse, group_inverse = (2.0 ** torch.randint(-3, 3, (m,)).float().to(DEVICE) for m in (r, groups))
            lift = (0.0 if whole else 1.0) * torch.randn(groups * GROUP, device=DEVICE)
            lift[-7:] = -torch.inf
            products = (halves.double() @ candidates.double().T).view(r, groups, GROUP)
            scales = inverse[:, None].double() * group_inverse
            true = (products * scales[:, :, None] + lift.view(groups, GROUP)).amax(2).T
            norms = torch.linalg.vector_norm(halves.double(), dim=1)
            largest = torch.linalg.vector_norm(candidates.double(), dim=1).view(groups, GROUP).amax(1)
            unit = 2.0**-23 * ((norms[:, None] * largest * scales).T + 2 * true.abs())
            kind = "one sign" if whole else "random"
            for name, work in tried.items():
                out = torch.full((groups, r), torch.nan, device=DEVICE)
                try:
                    work(halves, inverse, candidates, group_inverse, lift, out)
                    off = float(((out - true).abs() / unit).max())
                except Exception as problem:  # noqa: BLE001  (a shape that does not run is a finding)
                    print(f"FAILED  {name}: {type(problem).__name__}: {str(problem)[:200]}")
                    continue
                verdict = "ok" if off <= 1.5 * k else "WRONG"
                print(
                    f"{verdict:8}{r:6} x {k:3} x {groups:2} groups, {kind:8}: off {off:6.2f} of {1.5 * k:.0f}, {name}"
                )


def check_winners() -> None:
    """Compare with the reference on points with ties, near ties, and norms of all magnitudes."""
    rng = np.random.default_rng(0)
    base = rng.standard_normal((700, 40)).astype(np.float32)
    orders = (10.0 ** rng.uniform(-17, 17, size=(700, 1))).astype(np.float32)
    lattice = rng.integers(-1, 2, size=(700, 5)).astype(np.float32)
    wide = rng.standard_normal((1100, 1000)).astype(np.float32)
    moved = base + np.float32(0.01)
    cases: dict[str, tuple[Points, Points]] = {
        "gaussian": (base, moved[::-1].copy()),
        "ties": (lattice / np.float32(2), lattice),
        "equal candidates": (base, base[rng.integers(50, size=900)]),
        "the last bit": (base, np.concatenate([moved, np.nextafter(moved, np.float32(9))])),
        "norms of all orders": (base * orders, base * orders[::-1]),
        "tiny": (base * np.float32(1e-40), moved * np.float32(1e-40)),
        "wide": (wide[:500], wide[500:]),
    }
    for name, (private, candidates) in cases.items():
        found = DeviceVoters(private, DEVICE, memory=MEMORY).nearest(candidates, distinct_rows(candidates))
        same = np.array_equal(found.indices[:, 0], reference_nearest(private, candidates))
        print(
            f"{'ok' if same else 'WRONG':8}{name}: {found.looked_at} groups looked at, {found.compared} pairs compared"
        )


def check_speed(tried: dict[str, Engine], v: int, d: int) -> None:
    r, k, groups = 2**18, padded(d, DEPTH), padded(v, GROUP) // GROUP
    halves, candidates = (torch.randn(m, k, device=DEVICE).half() for m in (r, groups * GROUP))
    inverse, group_inverse, lift = (torch.ones(m, device=DEVICE) for m in (r, groups, groups * GROUP))
    out = torch.empty(groups, r, device=DEVICE)
    for name, work in tried.items():
        try:
            seconds = [clock(work, halves, inverse, candidates, group_inverse, lift, out) for _ in range(4)]
        except Exception as problem:  # noqa: BLE001  (a shape that does not run is a finding)
            print(f"FAILED  {name}: {type(problem).__name__}: {str(problem)[:200]}")
            continue
        least = min(seconds[1:])
        rate = 2 * r * groups * GROUP * k / least / 1e12
        print(f"{rate:6.0f} TFLOP/s, {least * 5e6 / r:6.3f} s for 5,000,000 rows, {name}")


def check(v: int, d: int) -> None:
    print(f"device {DEVICE}, torch {torch.__version__}")
    torch.manual_seed(0)
    tried = engines()
    check_sums(tried)
    check_winners()
    if DEVICE != "cpu":
        check_speed(tried, v, d)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--private", type=int, default=SIZES[0])
    parser.add_argument("--candidates", type=int, default=SIZES[1])
    parser.add_argument("--width", type=int, default=SIZES[2])
    parser.add_argument("--votes", type=int, default=1, help="candidates that a record votes for")
    parser.add_argument("--spread", type=float)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--check", action="store_true")
    arguments = parser.parse_args()
    if arguments.check:
        check(arguments.candidates, arguments.width)
    else:
        measure(arguments)


if __name__ == "__main__":
    main()
