"""Precision, recall, density and coverage against prdc, and exact W1 against POT: time, memory, and equality of values.

pip install prdc==0.2 POT==0.9.7.post1
python benchmarks/metrics.py [--real 20000] [--synthetic 2000] [--width 768] [--k 3] [--transport 2000] [--repeats 3]

Both of a pair get all cores and the same points, clustered and of norm one, and take turns. Like prdc, our code scores
balls around real points and around synthetic ones. Both times of W1 include the distances. Memory is the peak above the
loaded inputs, each in its own process (Linux: VmHWM).
"""

import argparse
import contextlib
import importlib
import io
import multiprocessing
import re
import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

from gape.core.types import Points
from gape.metrics import balls, classical_recall, wasserstein1

FASTER = 3.0
MEGABYTES = 300
CLOSE = 1e-9

ot, prdc = (importlib.import_module(name) for name in ("ot", "prdc"))  # neither is annotated

Values = dict[str, float]


def by_prdc(real: Points, synthetic: Points, k: int) -> Values:
    with contextlib.redirect_stdout(io.StringIO()):  # it greets
        values: Values = prdc.compute_prdc(real, synthetic, k)
    return {name: float(value) for name, value in values.items()}


def by_balls(real: Points, synthetic: Points, k: int) -> Values:
    (score,) = balls(real, synthetic, k)
    return {
        "precision": score.precision,
        "recall": classical_recall(real, synthetic, k),  # which is prdc's recall
        "density": score.density,
        "coverage": score.recall,  # and this its coverage
    }


def by_pot(real: Points, synthetic: Points, _: int) -> Values:
    costs = ot.dist(real.astype(np.float64), synthetic.astype(np.float64), metric="euclidean")
    return {"W1": float(ot.emd2([], [], costs, numItermax=10_000_000))}


def by_simplex(real: Points, synthetic: Points, _: int) -> Values:
    return {"W1": wasserstein1(real, synthetic)}


Engine = Callable[[Points, Points, int], Values]
PAIRS: dict[str, dict[str, Engine]] = {
    "balls": {"prdc": by_prdc, "gape": by_balls},
    "W1": {"POT": by_pot, "gape": by_simplex},
}


def clustered(n: int, centres: Points, rng: np.random.Generator) -> Points:
    points = rng.standard_normal((n, centres.shape[1]), dtype=np.float32)
    points += centres[rng.integers(len(centres), size=n)]
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    return points


def memory(field: str) -> float:
    """Read a field of this process's memory, in MB."""
    found = re.search(rf"{field}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    if found is None:
        raise RuntimeError(f"/proc/self/status has no {field}; measure memory on Linux")
    return int(found[1]) * 1024 / 1e6


def peak_above_inputs(pair: str, engine: str, folder: str, k: int) -> float:
    real, synthetic = (np.load(Path(folder) / f"{side}.npy") for side in ("real", "synthetic"))
    PAIRS[pair][engine](real[:64], synthetic[:64], k)  # loads and compiles
    before = memory("VmRSS")
    PAIRS[pair][engine](real, synthetic, k)
    return memory("VmHWM") - before


def compare(pair: str, real: Points, synthetic: Points, k: int, repeats: int) -> None:
    engines = PAIRS[pair]
    wall: dict[str, list[float]] = {engine: [] for engine in engines}
    cpu: dict[str, list[float]] = {engine: [] for engine in engines}
    values: dict[str, Values] = {}
    for engine in engines:
        engines[engine](real[:64], synthetic[:64], k)
    for repeat in range(repeats):
        for engine in sorted(engines, reverse=repeat % 2 == 1):
            start, spent = time.perf_counter(), time.process_time()
            values[engine] = engines[engine](real, synthetic, k)
            wall[engine].append(time.perf_counter() - start)
            cpu[engine].append(time.process_time() - spent)

    megabytes = {}
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder) / "real.npy", real)
        np.save(Path(folder) / "synthetic.npy", synthetic)
        for engine in engines:
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as child:
                megabytes[engine] = child.submit(peak_above_inputs, pair, engine, folder, k).result()

    print(f"\n{pair}: {len(real):,} real x {len(synthetic):,} synthetic x {real.shape[1]}, float32, k = {k}")
    print(f"{'':8}{'least s':>10}{'median s':>10}{'least CPU s':>13}{'MB above inputs':>18}  values")
    for engine in engines:
        shown = "  ".join(f"{name} {value:.12g}" for name, value in values[engine].items())
        times = f"{min(wall[engine]):10.3f}{statistics.median(wall[engine]):10.3f}{min(cpu[engine]):13.3f}"
        print(f"{engine:8}{times}{megabytes[engine]:18.0f}  {shown}")
    other = next(engine for engine in engines if engine != "gape")
    ratios = min(wall[other]) / min(wall["gape"]), min(cpu[other]) / min(cpu["gape"])
    print(f"faster than {other} by {ratios[0]:.2f} (least wall-clock time), {ratios[1]:.2f} (least CPU time)")
    apart = max(abs(values["gape"][name] - value) / max(abs(value), 1e-300) for name, value in values[other].items())
    print(f"same values to {CLOSE:g}: {'yes' if apart <= CLOSE else f'NO, they differ by {apart:.2g}'}")
    needed = FASTER if pair == "balls" else 1.0
    print(f"at least {needed:g} times as fast: {'yes' if ratios[0] >= needed else 'NO'}")
    if pair == "balls":
        print(f"memory at most {MEGABYTES} MB: {'yes' if megabytes['gape'] <= MEGABYTES else 'NO'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--real", type=int, default=20_000)
    parser.add_argument("--synthetic", type=int, default=2_000)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--k", type=int, default=3)
    parser.add_argument("--transport", type=int, default=2_000, help="points of each set for W1")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()

    rng = np.random.default_rng(0)
    centres = rng.standard_normal((200, arguments.width), dtype=np.float32)
    real = clustered(arguments.real, centres, rng)
    synthetic = clustered(arguments.synthetic, centres, rng)
    compare("balls", real, synthetic, arguments.k, arguments.repeats)
    compare("W1", real[: arguments.transport], synthetic[: arguments.transport], arguments.k, arguments.repeats)


if __name__ == "__main__":
    main()
