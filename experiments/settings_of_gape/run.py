"""What R, the threshold, variations, scales, rounds and votes do to GAPE at a fixed epsilon, by texts that do not vote.

Every setting is varied alone, round the default of text runs and round the paper's rule (`sweeps.py`). Runs of a seed
share the split, the start and, round by round, the source of the noise. Every run is stored as it ends, and the same
command goes on. The noise is seeded and private texts score: this is for data that may be looked at.
"""

import argparse
import csv
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.cluster.vq import kmeans2, vq

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.ahead.run import MEASURES, Shelf
from experiments.common import free_account, write_rows
from experiments.corpus_text.run import Data, Looked, embedded, load
from experiments.settings_of_gape.figures import draw_panels
from experiments.settings_of_gape.sweeps import DEFAULT, PROVED, SWEEPS, Setting

from gape.core.errors import InputError
from gape.embedders.minilm import MiniLM
from gape.evaluation.compare import SeedMean
from gape.evolution.evolve import evolve
from gape.metrics import mean_nearest_distance, recall, sinkhorn1
from gape.privacy.noise import SeededNoise
from gape.runs.advice import usual_delta
from gape.voting.electorate import LocalElectorate

EPSILONS = (1.0, 4.0)
SEEDS = 10
SAMPLES = 200
FIELDS = ("setting", "epsilon", "seed", *MEASURES, "samples", "sigma", "seconds")

Sweeps = Mapping[str, Mapping[str, Mapping[str, Setting]]]
Stored = dict[tuple[str, float], dict[int, dict[str, float]]]  # by setting and epsilon, then by seed


@dataclass(frozen=True, eq=False)
class Bench:
    """The texts, private and public, and the size of the runs on them."""

    data: Data
    samples: int = SAMPLES  # m

    @cached_property
    def shelf(self) -> Shelf:
        """The corpus as a generator, whose neighbours are sorted once."""
        corpus = self.data.corpus
        return Shelf(corpus, Looked({text: place for place, text in enumerate(corpus)}, self.data.points))

    def measure(self, setting: Setting, epsilon: float, seed: int) -> dict[str, float]:
        """Run once, and score the last samples by the texts that did not vote."""
        began = time.process_time()
        voters, held_out = self.data.split(seed)
        plan = setting.plan(epsilon, usual_delta(len(voters)), self.samples, seed)
        select = setting.select(plan)
        with free_account() as account:
            electorate = LocalElectorate(voters, votes_per_unit=setting.votes, votes_per_record=setting.votes)
            parts = self.shelf, self.shelf.embedder, electorate, select
            *_, last = evolve(plan, *parts, account, noise=SeededNoise(seed))
        points = self.shelf.embedder.embed(last.synthetic)
        values = recall(held_out, points), mean_nearest_distance(held_out, points), sinkhorn1(held_out, points).value
        costs = {"samples": len(points), "sigma": plan.sigma, "seconds": time.process_time() - began}
        return dict(zip(MEASURES, values, strict=True)) | costs

    def separation(self, seed: int) -> float:
        """Return the paper's R of the texts that vote: ten times the largest distance to one of m k-means centres."""
        voters, _ = self.data.split(seed)
        centres, _ = kmeans2(voters, self.samples, iter=25, minit="points", rng=np.random.default_rng(seed))
        _, gaps = vq(voters, centres)
        return 10 * float(gaps.max())


def settings_of(sweeps: Sweeps) -> dict[str, Setting]:
    """All settings of some sweeps, each once, by name."""
    every = [setting for lines in sweeps.values() for line in lines.values() for setting in line.values()]
    return {setting.name: setting for setting in (DEFAULT, *every)}


def stored(store: Path) -> Stored:
    """Read the whole lines of the store."""
    found: Stored = {}
    if store.exists():
        with store.open(newline="") as file:
            for row in csv.DictReader(file):
                if None not in row and None not in row.values():
                    values = {name: float(row[name]) for name in FIELDS[3:]}
                    found.setdefault((row["setting"], float(row["epsilon"])), {})[int(row["seed"])] = values
    return found


def tidy(store: Path) -> Stored:
    """Leave the whole lines in the store, sorted, and return them."""
    store.parent.mkdir(parents=True, exist_ok=True)
    found = stored(store)
    with store.open("w", newline="") as file:
        file.write(",".join(FIELDS) + "\n")
        for (name, epsilon), runs in sorted(found.items()):
            file.writelines(_line(name, epsilon, seed, values) for seed, values in sorted(runs.items()))
    return found


def _line(name: str, epsilon: float, seed: int, values: Mapping[str, float]) -> str:
    return ",".join([name, f"{epsilon:g}", str(seed), *(f"{values[field]:.6g}" for field in FIELDS[3:])]) + "\n"


def tasks(sweeps: Sweeps, epsilons: Sequence[float], seeds: int) -> Iterator[tuple[Setting, float, int]]:
    """Yield all runs, a seed after the other, so that whatever is stored is a fair part of the whole.

    Runs that prove an optimum come last, those with much noise, which take minutes, at the very end.
    """
    every = settings_of(sweeps).values()
    for seed in range(seeds):
        for epsilon in epsilons:
            yield from ((each, epsilon, seed) for each in every if not each.proved)
    for epsilon in sorted(epsilons, reverse=True):
        for seed in range(min(seeds, PROVED)):
            yield from ((each, epsilon, seed) for each in every if each.proved)


def table(found: Stored, sweeps: Sweeps, epsilons: Sequence[float]) -> list[dict[str, Any]]:
    """Return a row for each point of each panel: its means, and how much better it is than the default, by seed."""
    rows = []
    for sweep, lines in sweeps.items():
        for line, points in lines.items():
            for tick, setting in points.items():
                for epsilon in epsilons:
                    runs = found.get((setting.name, epsilon), {})
                    usual = found.get((DEFAULT.name, epsilon), {})
                    both = sorted(runs.keys() & usual.keys())
                    if not both:
                        continue
                    row: dict[str, Any] = {"varied": sweep, "rule": line, "value": tick, "setting": setting.name}
                    row |= {"epsilon": epsilon, "seeds": len(both)}
                    row |= {"survivors": float(np.mean([runs[seed]["samples"] for seed in both]))}
                    for measure, sign in MEASURES.items():
                        gains = SeedMean(tuple(sign * (runs[seed][measure] - usual[seed][measure]) for seed in both))
                        reach = gains.reach if setting != DEFAULT else 0.0
                        row[measure] = float(np.mean([runs[seed][measure] for seed in both]))
                        row |= {f"{measure}: better than the default by": gains.mean, f"{measure}: give or take": reach}
                    rows.append(row | {"seconds": float(np.mean([runs[seed]["seconds"] for seed in both]))})
    return rows


def draw(out: Path, sweeps: Sweeps, epsilons: Sequence[float]) -> list[dict[str, Any]]:
    """Make the table and the figures of the stored runs."""
    rows = table(tidy(out / "runs.csv"), sweeps, epsilons)
    if not rows:
        raise InputError(f"there are no runs in {out}; leave --draw out to make them")
    write_rows(out, "settings", rows)
    for measure in MEASURES:
        draw_panels(out / f"{measure.replace(' ', '_').lower()}.png", rows, sweeps, epsilons, measure)
    return rows


def run(
    out: Path,
    bench: Bench,
    seeds: int = SEEDS,
    *,
    epsilons: Sequence[float] = EPSILONS,
    sweeps: Sweeps = SWEEPS,
) -> list[dict[str, Any]]:
    """Make the runs that are not stored yet, then the tables and the figures in `out`."""
    store = out / "runs.csv"
    done = tidy(store)
    radii = [{"seed": seed, "the paper's R": bench.separation(seed)} for seed in range(seeds)]
    write_rows(out, "radius", radii)
    for setting, epsilon, seed in tasks(sweeps, epsilons, seeds):
        if seed in done.get((setting.name, epsilon), {}):
            continue
        line = _line(setting.name, epsilon, seed, bench.measure(setting, epsilon, seed))
        file = os.open(store, os.O_WRONLY | os.O_APPEND)
        try:
            os.write(file, line.encode())  # one write, so that a line is there or not
        finally:
            os.close(file)
        print(line, end="", flush=True)
    return draw(out, sweeps, epsilons)


def main() -> None:
    """Read the options, and run."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--private", type=Path, help="file of private texts")
    parser.add_argument("--corpus", type=Path, help="file of public texts")
    parser.add_argument("--text", help="column of the texts, in both files")
    parser.add_argument("--words", type=int, default=60, help="cut every text to so many words (60)")
    parser.add_argument(
        "--cache", type=Path, help="folder that keeps the embeddings; those of private texts are private"
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"runs of each kind, at least 2 ({SEEDS})")
    parser.add_argument("--epsilons", type=float, nargs="+", default=EPSILONS)
    parser.add_argument("--samples", type=int, default=SAMPLES, help=f"m ({SAMPLES})")
    parser.add_argument("--only", nargs="+", choices=tuple(SWEEPS), help="only these sweeps")
    parser.add_argument("--draw", action="store_true", help="only the tables and figures, from the stored runs")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results", help="folder of the results")
    chosen = parser.parse_args()
    sweeps = {name: SWEEPS[name] for name in chosen.only or SWEEPS}
    if chosen.draw:
        draw(chosen.out, sweeps, chosen.epsilons)
        return
    if chosen.private is None or chosen.corpus is None:
        parser.error("--private and --corpus must be given, but with --draw")
    embedder = MiniLM()
    private, corpus = (load(file, chosen.text, chosen.words) for file in (chosen.private, chosen.corpus))
    corpus = tuple(dict.fromkeys(corpus))
    data = Data(embedded(private, embedder, chosen.cache), corpus, embedded(corpus, embedder, chosen.cache))
    run(chosen.out, Bench(data, chosen.samples), chosen.seeds, epsilons=chosen.epsilons, sweeps=sweeps)


if __name__ == "__main__":
    main()
