"""Whether a fourth release of the survey, of regions of many columns together, brings rows nearer to the records.

    python experiments/tables/regions.py --work WORK/magic --epsilon 1 --out experiments/tables/results/regions.jsonl

WORK/magic is a folder of `beside.py prepare`. From rows that fit the survey, trees are grown: each splits them into
leaves of about equal size, by medians of columns drawn at random among half of all columns. A record then says in which
leaf of each tree it lies. Rows are weighted until leaves, columns and pairs have about the counted shares, and as many
rows as before are drawn by these weights. Last, columns get exactly the measured shares.

Both ways have the same total epsilon. Scores are those of `beside.py`, but the AUC is
that of a random forest, which takes less time for many classes. The noise is drawn from a seed: this is for data that
may be looked at.
"""

import argparse
import heapq
import json
import math
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.metrics import roc_auc_score

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from gape.core.types import Floats, Indices
from gape.modalities import Schema
from gape.modalities.rows.cells import Cells
from gape.modalities.rows.fit import Fitted
from gape.modalities.rows.measures import table_scores
from gape.modalities.rows.survey import TableSurvey
from gape.privacy.accounting import noise_scale

MOST_ROWS = 10_000
POOL = 20_000  # rows that are weighted
PASSES, STEP = 20, 0.5  # of the weights
BALANCED = 0.1  # least share of a leaf on either side of a split


@dataclass(frozen=True)
class Way:
    """How the budget is spent."""

    share: float = 0.0  # of the budget, for regions
    trees: int = 8
    least: float = 4.0  # rows in a leaf, in standard deviations of the noise


WAYS = {
    "survey": Way(),
    "regions": Way(0.4),
}


@dataclass(frozen=True)
class Tree:
    """Splits, in order: the leaf, the column, and the parts that go to a new leaf."""

    splits: tuple[tuple[int, int, frozenset[int]], ...]

    @property
    def leaves(self) -> int:
        """The number of leaves."""
        return len(self.splits) + 1

    def leaf(self, rows: Indices) -> Indices:
        """Return the leaf of each row, (n,)."""
        held = [np.arange(len(rows))]
        for leaf, column, right in self.splits:
            goes = np.isin(rows[held[leaf], column], list(right))
            held.append(held[leaf][goes])
            held[leaf] = held[leaf][~goes]
        found = np.zeros(len(rows), dtype=np.int64)
        for leaf, inside in enumerate(held):
            found[inside] = leaf
        return found

    @classmethod
    def of(cls, rows: Indices, ordered: list[bool], leaves: int, rng: np.random.Generator) -> "Tree":
        """Split the largest leaf of public rows until there are `leaves`."""
        width = rows.shape[1]
        columns = rng.permutation(width)[: max(3, round(width / 2))]
        sizes = rows.max(axis=0) + 1
        orders = [np.arange(n) if known else rng.permutation(n) for n, known in zip(sizes, ordered, strict=True)]
        splits, held = [], [np.arange(len(rows))]
        heap = [(-len(rows), 0)]
        while heap and len(held) < leaves:
            leaf = heapq.heappop(heap)[1]
            for column in rng.permutation(columns):
                values = orders[column][rows[held[leaf], column]]
                below = np.cumsum(np.bincount(values)) / len(values)
                cut = int(np.argmin(np.abs(below - 0.5)))
                if BALANCED < below[cut] < 1 - BALANCED:
                    right = frozenset(np.flatnonzero(orders[column] > cut).tolist())
                    splits.append((leaf, int(column), right))
                    held.append(held[leaf][values > cut])
                    held[leaf] = held[leaf][values <= cut]
                    for part in (leaf, len(held) - 1):
                        heapq.heappush(heap, (-len(held[part]), part))
                    break
        return cls(tuple(splits))


def made(schema: Schema, voters: Floats, way: Way, epsilon: float, seed: int) -> Floats:
    """Return codes of rows that fit the survey and, if the way has them, regions."""
    rng = np.random.default_rng([seed, *b"regions"])
    cells, survey = Cells(schema), TableSurvey(schema)
    own, n, width = cells.of(voters), len(voters), len(cells.columns)
    unit = noise_scale(epsilon, 1 / (n * math.log(n)), 1, neighbours="replace", votes_per_unit=1)
    releases = survey.per_record[:3]  # without the class together with pairs of numbers, which came later
    sigma = unit * math.sqrt(sum(releases) / (1 - way.share))
    answers: list[Any] = []
    for _ in releases:
        answers.append(_noisy(survey.questions(answers, sigma).tally(own), sigma, rng))
    fitted = Fitted(survey.columns(answers[0], sigma), survey.measured(answers, sigma))
    count = min(MOST_ROWS, n)
    if way.share == 0:
        drawn = fitted.rows(count, rng)
        return np.stack([column.draw(drawn[:, i], rng) for i, column in enumerate(cells.columns)], axis=1)
    parts = fitted._parts
    both = fitted.rows(POOL, rng), own
    pool, voting = (np.stack([parts[i][held[:, i]] for i in range(width)], axis=1) for held in both)
    ordered = [column.ordered > 0 for column in cells.columns]
    sigma = unit * math.sqrt(way.trees / way.share)
    rows = pool[_weighted(fitted, pool, voting, ordered, way, sigma, count, rng)]
    for i, column in enumerate(cells.columns):
        _settle(rows[:, i], fitted._shares[i], ordered=column.ordered > 0, rng=rng)
    drawn = np.stack([fitted._drawn(i, rows[:, i], rng) for i in range(width)], axis=1)
    return np.stack([column.draw(drawn[:, i], rng) for i, column in enumerate(cells.columns)], axis=1)


def _noisy(counts: Indices, sigma: float, rng: np.random.Generator) -> Indices:
    return counts + np.rint(sigma * rng.normal(size=len(counts))).astype(np.int64)


def _weighted(
    fitted: Fitted,
    pool: Indices,
    voting: Indices,
    ordered: list[bool],
    way: Way,
    sigma: float,
    count: int,
    rng: np.random.Generator,
) -> Indices:
    """Return the indices of rows of the pool, drawn by weights that fit regions, columns and pairs."""
    groups = [pool[:, i] for i in range(pool.shape[1])]
    shares = [np.asarray(own) for own in fitted._shares]
    for (a, b), table in zip(fitted._pairs, fitted._tables, strict=True):
        groups.append(pool[:, a] * table.shape[1] + pool[:, b])
        shares.append(table.ravel())
    n = len(voting)
    leaves = int(np.clip(n / (way.least * sigma), 8, len(pool) / 10))
    for _ in range(way.trees):
        tree = Tree.of(pool, ordered, leaves, rng)
        group = tree.leaf(pool)
        expected = np.bincount(group, minlength=tree.leaves) * n / len(pool)
        away = _noisy(np.bincount(tree.leaf(voting), minlength=tree.leaves), sigma, rng) - expected
        signal = max(0.0, float((away**2).mean()) - sigma**2)
        counts = np.maximum(expected + signal / (signal + sigma**2) * away, 0.0)
        groups.insert(0, group)
        shares.insert(0, counts / counts.sum())
    weights = np.full(len(pool), 1 / len(pool))
    for _ in range(PASSES):
        for group, wanted in zip(groups, shares, strict=True):
            have = np.bincount(group, weights=weights, minlength=len(wanted))
            weights *= ((wanted + 1e-9) / (have + 1e-9))[group] ** STEP
        weights /= weights.sum()
    levels = (np.arange(count) + rng.random()) / count
    return np.minimum(np.searchsorted(np.cumsum(weights), levels), len(pool) - 1)


def _settle(column: Indices, shares: Floats, *, ordered: bool, rng: np.random.Generator) -> None:
    """Give a column exactly the measured shares, in place: numbers keep their order, few choices change."""
    levels = (np.arange(len(column)) + rng.random()) / len(column)
    wanted = np.minimum(np.searchsorted(np.cumsum(shares), levels), len(shares) - 1)
    if ordered:
        column[np.lexsort((rng.random(len(column)), column))] = wanted
        return
    missing = np.bincount(wanted, minlength=len(shares)) - np.bincount(column, minlength=len(shares))
    over = np.flatnonzero(missing < 0)
    free = np.concatenate(
        [column[:0], *(rng.permutation(np.flatnonzero(column == part))[: -missing[part]] for part in over)]
    )
    column[rng.permutation(free)] = np.repeat(np.arange(len(shares)), np.maximum(missing, 0))


def scores(schema: Schema, target: str, rows: Floats, held_out: Floats) -> dict[str, float]:
    """Return TV1, TV2, spread and the AUC of a random forest."""
    index = list(schema.columns).index(target)
    model = RandomForestClassifier(100, min_samples_leaf=3, random_state=0)
    model.fit(np.delete(rows, index, axis=1), rows[:, index])
    truth = held_out[:, index].astype(int)
    chances = np.zeros((len(truth), int(max(truth.max(), rows[:, index].max())) + 1))
    chances[:, model.classes_.astype(int)] = model.predict_proba(np.delete(held_out, index, axis=1))
    each = [roc_auc_score(truth == kind, chances[:, kind]) for kind in np.unique(truth)]
    found = {**table_scores(held_out, rows, schema), "AUC": float(np.mean(each))}
    return {name: round(float(value), 4) for name, value in found.items()}


def main() -> None:
    """Read the arguments, and add a line for each seed and way."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--ways", nargs="+", choices=tuple(WAYS), default=["survey", "regions"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    schema, split = Schema.read(args.work / "schema.toml"), np.load(args.work / "split.npz")
    target = json.loads((args.work / "about.json").read_text())["target"]
    for seed in range(args.seeds):
        for name in args.ways:
            began = time.process_time()
            rows = made(schema, split["voters"], WAYS[name], args.epsilon, seed)
            seconds = round(time.process_time() - began, 1)
            found = scores(schema, target, rows, split["held_out"])
            line = {"table": args.work.name, "way": name, "epsilon": args.epsilon, "seed": seed, **found}
            with args.out.open("a") as out:
                out.write(json.dumps(line | {"seconds": seconds}) + "\n")


if __name__ == "__main__":
    main()
