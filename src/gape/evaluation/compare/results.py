"""The scores of all cells as tables: every one of them, and means over seeds as the paper prints them."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import stdtrit

from gape._support.files import table_bytes, write_atomically
from gape.evaluation.compare.cell import Result, Score, ScoredRound
from gape.evaluation.compare.folder import MARK
from gape.evaluation.compare.grid import Study, in_short
from gape.metrics.repetition import Repetition

LABELS = {
    "gape": "GAPE",
    "augpe": "AugPE",
    "subsamplepe": "SubsamplePE",
    "ranking": "Ranking",
    "subsampling": "Subsampling",
    "gape-paper": "GAPE, paper",
}
_CONFIDENCE = 0.95
_REPETITION = [each.name for each in fields(Repetition)]


@dataclass(frozen=True)
class SeedMean:
    """A score over seeds: its mean and its range. Seeds differ in who is held out, in the start and in the noise."""

    values: tuple[float, ...]  # by seed

    @property
    def mean(self) -> float:
        """The mean; NaN without values."""
        return float(np.mean(self.values)) if self.values else math.nan

    @property
    def lowest(self) -> float:
        """The lowest value of a seed."""
        return min(self.values, default=math.nan)

    @property
    def highest(self) -> float:
        """The highest value of a seed."""
        return max(self.values, default=math.nan)

    @property
    def reach(self) -> float:
        """Half the width of the 95% interval of the mean by Student's t; NaN where one seed cannot tell."""
        n = len(self.values)
        if n < 2:
            return math.nan
        quantile = float(stdtrit(n - 1, (1 + _CONFIDENCE) / 2))  # of Student's t
        return quantile * float(np.std(self.values, ddof=1)) / math.sqrt(n)

    def __str__(self) -> str:
        if not self.values:
            return ""
        spread = f" ({self.lowest:.3f}-{self.highest:.3f})" if len(self.values) > 1 else ""
        return f"{self.mean:.4f}{spread}"


@dataclass(frozen=True)
class Comparison:
    """All cells that are done, with the means that are drawn and printed."""

    study: Study
    results: tuple[Result, ...]
    methods: tuple[str, ...]
    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, study: Study, results: Sequence[Result], order: Sequence[str]) -> Comparison:
        """Gather results; methods come in the order given."""
        cells = [each.cell for each in results if not each.cell.real]
        return cls(
            study,
            tuple(results),
            tuple(name for name in order if any(cell.method == name for cell in cells)),
            tuple(sorted({cell.epsilon for cell in cells})),
            tuple(sorted({each.cell.seed for each in results})),
        )

    @property
    def seeds_of_a_mean(self) -> str:
        """How many seeds a mean is of, in words: a grid in the making has not all of them everywhere."""
        counts = Counter((each.cell.method, each.cell.epsilon) for each in self.results if not each.cell.real)
        fewest, most = min(counts.values(), default=1), max(counts.values(), default=1)
        if most == 1:
            return "one seed"
        return f"{most} seeds" if fewest == most else f"{fewest} to {most} seeds"

    def at_end(self, method: str, epsilon: float, value: Callable[[ScoredRound], float]) -> SeedMean:
        """The mean of a score over seeds, after the last round."""
        return SeedMean(tuple(self._by_seed(method, epsilon, value).values()))

    def by_round(self, method: str, epsilon: float, value: Callable[[ScoredRound], float]) -> list[SeedMean]:
        """The mean of a score over seeds after every round, the start first; none where nothing was run."""
        turns = [each.turns for each in self.results if (each.cell.method, each.cell.epsilon) == (method, epsilon)]
        return [SeedMean(tuple(value(turn) for turn in same)) for same in zip(*turns, strict=False)]

    def at_start(self, value: Callable[[ScoredRound], float]) -> SeedMean:
        """The mean of a score of the start, which is the same for all methods of a seed."""
        starts = {each.cell.seed: value(each.turns[0]) for each in self.results if not each.cell.real}
        return SeedMean(tuple(starts.values()))

    def of_real(self, value: Callable[[ScoredRound], float]) -> SeedMean:
        """The mean of a score of as many real records."""
        return SeedMean(tuple(value(each.turns[0]) for each in self.results if each.cell.real))

    def difference(self, method: str, other: str, epsilon: float, value: Callable[[ScoredRound], float]) -> SeedMean:
        """The mean over seeds of how much higher one method scores than another with the same seed."""
        mine, theirs = (self._by_seed(name, epsilon, value) for name in (method, other))
        return SeedMean(tuple(mine[seed] - theirs[seed] for seed in sorted(mine.keys() & theirs.keys())))

    def _by_seed(self, method: str, epsilon: float, value: Callable[[ScoredRound], float]) -> dict[int, float]:
        same = (each for each in self.results if (each.cell.method, each.cell.epsilon) == (method, epsilon))
        return {each.cell.seed: value(each.turns[-1]) for each in same}


def held_out(name: str) -> Callable[[ScoredRound], float]:
    """The score of this name by the records that did not vote."""
    return lambda turn: float(getattr(turn.held_out, name))


def by_voters(name: str) -> Callable[[ScoredRound], float]:
    """The score of this name by records that voted."""
    return lambda turn: math.nan if turn.voters is None else float(getattr(turn.voters, name))


def repeated(name: str) -> Callable[[ScoredRound], float]:
    """The figure of this name of how much the texts repeat one another."""

    def value(turn: ScoredRound) -> float:
        found = getattr(turn.repetition, name, None)
        return math.nan if found is None else float(found)

    return value


def write_results(path: Path, finished: Iterable[tuple[Result, str]]) -> None:
    """Write every score of every cell as `path`.csv and `path`.parquet, a row for each round and part."""
    rows = [row for result, version in finished for row in _rows(result, version)]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path.with_suffix(".csv"), text.getvalue().encode())
    table = pa.Table.from_pylist(rows).replace_schema_metadata({"remark": MARK})
    write_atomically(path.with_suffix(".parquet"), table_bytes(table))


def write_table(path: Path, comparison: Comparison) -> None:
    """Write the means as the paper's table has them: a line for each method, a column for each epsilon."""
    study, plan = comparison.study, comparison.study.plan
    any_cell = comparison.results[0]
    setting = (
        f"{any_cell.units:,} voters, m = {plan.samples:,}, T = {plan.rounds}, delta = {plan.delta:.3g}, "
        f"{comparison.seeds_of_a_mean}. {any_cell.scored:,} records of each part score; a ball reaches to the "
        f"{_nth(study.k)}nearest other record, and Sinkhorn's blur is {study.blur:g}. Means over seeds after the last "
        "round, with the lowest and the highest seed; seeds differ in who is held out, in the start and in the noise."
    )
    parts = [
        "# Comparison",
        f"**{MARK}**",
        setting,
        "## Recall of records that did not vote (more is better)",
        _table(comparison, held_out("recall"), real=True),
        "## Sinkhorn W1 to records that did not vote (less is better)",
        _table(comparison, held_out("sinkhorn"), real=True),
        "## Precision among records that did not vote (more is better)",
        _table(comparison, held_out("precision"), real=True),
        *_of_repetition(comparison),
        *_of_labels(comparison),
        "## Recall of records that voted (in-sample)",
        _table(comparison, by_voters("recall")),
        "## Sinkhorn W1 to records that voted (in-sample)",
        _table(comparison, by_voters("sinkhorn")),
    ]
    if len(comparison.methods) > 1 and len(comparison.seeds) > 1:
        parts += ["## Seed by seed", _differences(comparison)]
    write_atomically(path, ("\n\n".join(parts) + "\n").encode())


def label_of(method: str) -> str:
    """The name of a method as it is printed."""
    return LABELS.get(method, method)


def epsilon_in_words(epsilon: float) -> str:
    """An epsilon as it is printed."""
    return "no noise" if math.isinf(epsilon) else f"epsilon {in_short(epsilon)}"


def _rows(result: Result, version: str) -> Iterable[dict[str, Any]]:
    for turn in result.turns:
        scores: dict[str, Score | None] = {"held out": turn.held_out, "voters": turn.voters}
        for part, score in scores.items():
            if score is not None:
                yield {
                    "method": result.cell.method,
                    "epsilon": None if result.cell.real else result.cell.epsilon,
                    "seed": result.cell.seed,
                    "round": turn.round,
                    "scored_by": part,
                    **asdict(score),
                    "samples": turn.samples,
                    "different": turn.different,
                    "lineages": turn.lineages,
                    "next_word": turn.next_word,
                    "label_accuracy": turn.label_accuracy,
                    **(asdict(turn.repetition) if turn.repetition else dict.fromkeys(_REPETITION)),
                    "sigma": result.sigma,
                    "seconds": round(result.seconds, 3),
                    "version": version,
                    "differentially_private": False,
                }


def _of_repetition(comparison: Comparison) -> list[str]:
    """How much texts repeat one another; nothing of cells that were run before that was measured."""
    if any(each.turns[-1].repetition is None for each in comparison.results):
        return []
    return [
        "## Texts that share eight words in a row with another one (less is better)",
        _table(comparison, repeated("repeating"), real=True),
        "## Distinct openings of five words (more is better)",
        _table(comparison, repeated("openings"), real=True),
        "## Distinct pairs of words (more is better)",
        _table(comparison, repeated("pairs"), real=True),
        "## Lineages of the start that are left (more is better)",
        _table(comparison, lambda turn: math.nan if turn.lineages is None else float(turn.lineages)),
        "## Words of records that did not vote, foretold by what the texts teach (more is better)",
        _table(comparison, lambda turn: math.nan if turn.next_word is None else turn.next_word, real=True),
    ]


def _of_labels(comparison: Comparison) -> list[str]:
    """How well texts teach the labels; nothing where there are no labels."""
    if any(each.turns[-1].label_accuracy is None for each in comparison.results):
        return []
    return [
        "## Labels of records that did not vote, told by a classifier trained on the texts (more is better)",
        _table(comparison, lambda turn: float(turn.label_accuracy or 0.0), real=True),
    ]


def _table(comparison: Comparison, value: Callable[[ScoredRound], float], *, real: bool = False) -> str:
    head = ["", *(epsilon_in_words(epsilon) for epsilon in comparison.epsilons)]
    lines = [
        [label_of(method), *(str(comparison.at_end(method, epsilon, value)) for epsilon in comparison.epsilons)]
        for method in comparison.methods
    ]
    blank = [""] * (len(comparison.epsilons) - 1)
    lines.append(["start", str(comparison.at_start(value)), *blank])
    if real:
        lines.append(["as many real records", str(comparison.of_real(value)), *blank])
    return _markdown(head, lines)


def _differences(comparison: Comparison) -> str:
    """How much higher the first method scores than each other one: what the methods of a seed share cancels."""
    first, *others = comparison.methods
    lines = []
    for name, said in (("recall", "recall"), ("sinkhorn", "Sinkhorn W1")):
        for other in others:
            found = [comparison.difference(first, other, epsilon, held_out(name)) for epsilon in comparison.epsilons]
            lines.append([f"{said}, {label_of(first)} less {label_of(other)}", *map(_signed, found)])
    said = "Means of the differences between runs of one seed, ± half of their 95% interval (Student's t)."
    return f"{said}\n\n{_markdown(['', *(epsilon_in_words(epsilon) for epsilon in comparison.epsilons)], lines)}"


def _signed(difference: SeedMean) -> str:
    return f"{difference.mean:+.4f} ± {difference.reach:.4f}" if len(difference.values) > 1 else ""


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _nth(k: int) -> str:
    return {1: "", 2: "2nd ", 3: "3rd "}.get(k, f"{k}th ")
