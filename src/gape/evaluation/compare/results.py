"""The scores of all cells as tables: one with every score, one with means over seeds like the paper's."""

from __future__ import annotations

import csv
import io
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from markupsafe import Markup
from scipy.special import stdtrit

from gape._support.files import table_bytes, write_atomically
from gape._support.html import as_paragraph, as_table
from gape.evaluation.compare.cell import Result, Score, ScoredRound
from gape.evaluation.compare.folder import MARK
from gape.evaluation.compare.grid import VOTES, Study, shortest
from gape.metrics.measure import nth_nearest
from gape.metrics.repetition import Repetition
from gape.modalities import Modality, kind_named, known_kinds

LABELS = {
    "gape": "GAPE",
    "augpe": "AugPE",
    "subsamplepe": "SubsamplePE",
    "ranking": "Ranking",
    "subsampling": "Subsampling",
    "gape-paper": "GAPE, paper",
    "survey": "Survey",
    **{name: label for kind in known_kinds() for name, label in kind.baselines.items()},
}
Value: TypeAlias = Callable[[ScoredRound], float]
_CONFIDENCE = 0.95
_SAME_START = 1e-5  # relative difference of scores up to which two starts count as one; a GPU rounds in its own order
_REPETITION = [column.name for column in fields(Repetition)]


@dataclass(frozen=True)
class SeedMean:
    """A score over seeds: mean and range. Seeds differ in the held-out records, the start and the noise."""

    values: tuple[float, ...]  # one per seed

    @property
    def mean(self) -> float:
        """The mean, or NaN without values."""
        return float(np.mean(self.values)) if self.values else math.nan

    @property
    def lowest(self) -> float:
        """The lowest value over seeds."""
        return min(self.values, default=math.nan)

    @property
    def highest(self) -> float:
        """The highest value over seeds."""
        return max(self.values, default=math.nan)

    @property
    def reach(self) -> float:
        """Half the width of the 95% confidence interval of the mean (Student's t); NaN for a single seed."""
        n = len(self.values)
        if n < 2:
            return math.nan
        quantile = float(stdtrit(n - 1, (1 + _CONFIDENCE) / 2))
        return quantile * float(np.std(self.values, ddof=1)) / math.sqrt(n)

    def __str__(self) -> str:
        if not self.values:
            return ""
        spread = f" ({self.lowest:.3f}-{self.highest:.3f})" if len(self.values) > 1 else ""
        return f"{self.mean:.4f}{spread}"


@dataclass(frozen=True)
class Comparison:
    """All finished cells, and the means that are drawn and printed."""

    study: Study
    results: tuple[Result, ...]
    methods: tuple[str, ...]
    epsilons: tuple[float, ...]
    seeds: tuple[int, ...]

    @classmethod
    def of(cls, study: Study, results: Sequence[Result], order: Sequence[str]) -> Comparison:
        """Collect results; methods come in the given order."""
        cells = [result.cell for result in results if not result.cell.real]
        return cls(
            study,
            tuple(results),
            tuple(name for name in order if any(cell.method == name for cell in cells)),
            tuple(sorted({cell.epsilon for cell in cells})),
            tuple(sorted({result.cell.seed for result in results})),
        )

    @property
    def seeds_of_a_mean(self) -> str:
        """The number of seeds per mean, in words; an unfinished grid has fewer seeds in some places."""
        counts = Counter((result.cell.method, result.cell.epsilon) for result in self.results if not result.cell.real)
        fewest, most = min(counts.values(), default=1), max(counts.values(), default=1)
        if most == 1:
            return "one seed"
        return f"{most} seeds" if fewest == most else f"{fewest} to {most} seeds"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the means after the last round, with a warning that they are not private."""
        tables = (as_table(*_means(self, value, real=True), caption=title) for title, value in self.headlines.items())
        caution = as_paragraph(self.caution) if self.caution else ""
        return as_paragraph(MARK, alarming=True) + Markup("").join([*tables, caution])

    @property
    def _kind(self) -> type[Modality]:
        """The kind of data, which decides how its content is scored."""
        return kind_named(self.study.described.get("modality", "text"))

    @property
    def content(self) -> dict[str, Value]:
        """The scores of the modality, by their headings; empty if a cell is from before they were measured."""
        shared = [set(result.turns[-1].content) for result in self.results]
        return {
            title: content_score(name)
            for name, title in self._kind.scored.items()
            if shared and all(name in names for names in shared)
        }

    @property
    def headlines(self) -> dict[str, Value]:
        """The scores that are shown first, by their headings: those of the modality, and recall and Sinkhorn W1."""
        usual = {
            "Recall of held-out records": held_out("recall"),
            "Sinkhorn W1 to held-out records": held_out("sinkhorn"),
        }
        return {**self.content, **usual}

    @property
    def caution(self) -> str:
        """How a score of this kind of data can mislead; empty if there is nothing to say."""
        return self._kind.caution if self.content else ""

    def at_end(self, method: str, epsilon: float, value: Value) -> SeedMean:
        """Return a score after the last round, over seeds."""
        return SeedMean(tuple(self._by_seed(method, epsilon, value).values()))

    def by_round(self, method: str, epsilon: float, value: Value) -> list[SeedMean]:
        """Return a score over seeds after each round, the start first; empty if nothing was run."""
        turns = [
            result.turns for result in self.results if (result.cell.method, result.cell.epsilon) == (method, epsilon)
        ]
        return [SeedMean(tuple(map(value, same_round))) for same_round in zip(*turns, strict=False)]

    @property
    def shares_start(self) -> bool:
        """Whether all methods of a seed have the same start, as they do unless a method has its own generator."""
        starts: dict[int, Score] = {}
        return all(
            math.isclose(starts.setdefault(result.cell.seed, start).sinkhorn, start.sinkhorn, rel_tol=_SAME_START)
            for result in self.results
            if _has_rounds(result)
            for start in [result.turns[0].held_out]
        )

    def at_start(self, value: Value, method: str | None = None) -> SeedMean:
        """Return a score of the start over seeds, that of one method if methods have different starts."""
        starts = {
            result.cell.seed: value(result.turns[0])
            for result in self.results
            if _has_rounds(result) and method in {None, result.cell.method}
        }
        return SeedMean(tuple(starts.values()))

    def baselines(self, value: Value, *, real: bool = True) -> dict[str, SeedMean]:
        """Return a score of what stands beside the methods: the start, or each start, and as many real records."""
        evolved = [method for method in self.methods if self.at_start(value, method).values]
        if evolved and self.shares_start:
            starts = {"start": self.at_start(value)}
        else:
            starts = {f"start of {label_of(method)}": self.at_start(value, method) for method in evolved}
        return starts | ({"as many real records": self.of_real(value)} if real else {})

    def of_real(self, value: Value) -> SeedMean:
        """Return a score over seeds of real records, as many as there are samples."""
        return SeedMean(tuple(value(result.turns[0]) for result in self.results if result.cell.real))

    def difference(self, method: str, other: str, epsilon: float, value: Value) -> SeedMean:
        """Return the score of one method minus that of another with the same seed, over seeds."""
        first, second = (self._by_seed(name, epsilon, value) for name in (method, other))
        return SeedMean(tuple(first[seed] - second[seed] for seed in sorted(first.keys() & second.keys())))

    def _by_seed(self, method: str, epsilon: float, value: Value) -> dict[int, float]:
        same = (result for result in self.results if (result.cell.method, result.cell.epsilon) == (method, epsilon))
        return {result.cell.seed: value(result.turns[-1]) for result in same}


def _has_rounds(result: Result) -> bool:
    """Whether a cell evolved from a start; real records and the rows of a survey have none."""
    return len(result.turns) > 1


def content_score(name: str) -> Value:
    """Read the score of this name that the modality gives to the content of samples."""
    return lambda turn: turn.content.get(name, math.nan)


def held_out(name: str) -> Value:
    """Read the score of this name by the records that did not vote; not a number if it was not measured."""

    def value(turn: ScoredRound) -> float:
        score = getattr(turn.held_out, name)
        return math.nan if score is None else float(score)

    return value


def by_voters(name: str) -> Value:
    """Read the score of this name by records that voted."""
    return lambda turn: math.nan if turn.voters is None else float(getattr(turn.voters, name))


def repeated(name: str) -> Value:
    """Read the measure of this name of how much the texts repeat one another."""

    def value(turn: ScoredRound) -> float:
        measured = getattr(turn.repetition, name, None)
        return math.nan if measured is None else float(measured)

    return value


def write_results(path: Path, finished: Iterable[tuple[Result, str]]) -> None:
    """Write every score of every cell as `path`.csv and `path`.parquet, one row per round and part of the records."""
    rows = [row for result, version in finished for row in _rows(result, version)]
    text = io.StringIO()
    writer = csv.DictWriter(text, fieldnames=list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    write_atomically(path.with_suffix(".csv"), text.getvalue().encode())
    table = pa.Table.from_pylist(rows).replace_schema_metadata({"remark": MARK})
    write_atomically(path.with_suffix(".parquet"), table_bytes(table))


def write_means(path: Path, comparison: Comparison) -> None:
    """Write the means as in the paper's table: one line per method, one column per epsilon."""
    study, plan = comparison.study, comparison.study.plan
    any_cell = comparison.results[0]
    setting = (
        f"{any_cell.units:,} voters, m = {plan.samples:,}, T = {plan.rounds}, delta = {plan.delta:.3g}, "
        f"{comparison.seeds_of_a_mean}. Scored by {any_cell.scored:,} records of each part; balls reach to the "
        f"{nth_nearest(study.k)} other record, and the blur of the Sinkhorn divergence is {study.blur:g}. Means over "
        "seeds after the last round, with the lowest and the highest seed; seeds differ in the held-out records, the "
        "start and the noise."
    )
    parts = [
        "# Comparison",
        f"**{MARK}**",
        setting,
        *_content_tables(comparison),
        "## Recall of records that did not vote (more is better)",
        _table(comparison, held_out("recall"), real=True),
        "## Sinkhorn W1 to records that did not vote (less is better)",
        _table(comparison, held_out("sinkhorn"), real=True),
        *_energy_table(comparison),
        "## Precision among records that did not vote (more is better)",
        _table(comparison, held_out("precision"), real=True),
        *_repetition_tables(comparison),
        *_label_tables(comparison),
        "## Recall of records that voted (in-sample)",
        _table(comparison, by_voters("recall")),
        "## Sinkhorn W1 to records that voted (in-sample)",
        _table(comparison, by_voters("sinkhorn")),
    ]
    if len(comparison.methods) > 1 and len(comparison.seeds) > 1:
        parts += ["## Seed by seed", _differences(comparison)]
    write_atomically(path, ("\n\n".join(parts) + "\n").encode())


def label_of(method: str) -> str:
    """Return the printed name of a method, with its votes per record if the name has them."""
    name, _, votes = method.partition(VOTES)
    label = LABELS.get(name, name)
    return f"{label}, {votes} {'vote' if votes == '1' else 'votes'}" if votes else label


def epsilon_in_words(epsilon: float) -> str:
    """Format an epsilon for a table: "epsilon 0.5" or "no noise"."""
    return "no noise" if math.isinf(epsilon) else f"epsilon {shortest(epsilon)}"


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
                    **dict(turn.content),
                    **(asdict(turn.repetition) if turn.repetition else dict.fromkeys(_REPETITION)),
                    "sigma": result.sigma,
                    "seconds": round(result.seconds, 3),
                    "version": version,
                    "differentially_private": False,
                }


def _content_tables(comparison: Comparison) -> list[str]:
    """Tabulate the scores that the modality gives to the content of samples, and how W1 can mislead."""
    if not comparison.content:
        return []
    tables = [
        part
        for title, value in comparison.content.items()
        for part in (f"## {title}", _table(comparison, value, real=True))
    ]
    return [*tables, comparison.caution]


def _energy_table(comparison: Comparison) -> list[str]:
    if any(result.turns[-1].held_out.energy is None for result in comparison.results):
        return []  # some cells are from before it was measured
    return [
        "## Energy distance to records that did not vote (less is better, 0 for real records)",
        _table(comparison, held_out("energy"), real=True),
    ]


def _repetition_tables(comparison: Comparison) -> list[str]:
    """Tabulate how much texts repeat one another; nothing if a cell is from before that was measured."""
    if any(result.turns[-1].repetition is None for result in comparison.results):
        return []
    return [
        "## Texts that share eight words in a row with another one (less is better)",
        _table(comparison, repeated("repeating"), real=True),
        "## Distinct openings of five words (more is better)",
        _table(comparison, repeated("openings"), real=True),
        "## Distinct pairs of words (more is better)",
        _table(comparison, repeated("pairs"), real=True),
        "## Surviving lineages of the start (more is better)",
        _table(comparison, lambda turn: math.nan if turn.lineages is None else float(turn.lineages)),
        "## Next-word accuracy on records that did not vote, of a model trained on the texts (more is better)",
        _table(comparison, lambda turn: math.nan if turn.next_word is None else turn.next_word, real=True),
    ]


def _label_tables(comparison: Comparison) -> list[str]:
    """Tabulate how well a classifier trained on the texts predicts labels; nothing without labels."""
    if any(result.turns[-1].label_accuracy is None for result in comparison.results):
        return []
    return [
        "## Label accuracy on records that did not vote, of a classifier trained on the texts (more is better)",
        _table(comparison, lambda turn: float(turn.label_accuracy or 0.0), real=True),
    ]


def _table(comparison: Comparison, value: Value, *, real: bool = False) -> str:
    return _markdown(*_means(comparison, value, real=real))


def _means(comparison: Comparison, value: Value, *, real: bool = False) -> tuple[list[str], list[list[str]]]:
    """Return the head and the lines of a table of means."""
    head = ["", *(epsilon_in_words(epsilon) for epsilon in comparison.epsilons)]
    lines = [
        [label_of(method), *(str(comparison.at_end(method, epsilon, value)) for epsilon in comparison.epsilons)]
        for method in comparison.methods
    ]
    blank = [""] * (len(comparison.epsilons) - 1)
    lines += [[name, str(score), *blank] for name, score in comparison.baselines(value, real=real).items()]
    return head, lines


def _differences(comparison: Comparison) -> str:
    """Compare the first method with each other one, seed by seed, so that what methods of a seed share cancels."""
    first, *others = comparison.methods
    lines = []
    scores = {title.partition(":")[0].partition(" on ")[0]: value for title, value in comparison.content.items()}
    for title, value in {**scores, "recall": held_out("recall"), "Sinkhorn W1": held_out("sinkhorn")}.items():
        for other in others:
            gains = [comparison.difference(first, other, epsilon, value) for epsilon in comparison.epsilons]
            lines.append([f"{title}, {label_of(first)} less {label_of(other)}", *map(_signed, gains)])
    caption = "Mean difference between runs of the same seed, ± half the width of its 95% interval (Student's t)."
    return f"{caption}\n\n{_markdown(['', *(epsilon_in_words(epsilon) for epsilon in comparison.epsilons)], lines)}"


def _signed(difference: SeedMean) -> str:
    return f"{difference.mean:+.4f} ± {difference.reach:.4f}" if len(difference.values) > 1 else ""


def _markdown(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = [head, ["---"] * len(head), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)
