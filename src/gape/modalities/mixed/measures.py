"""What ties the texts of rows to their other cells: how well the one can be told from the other."""

import json
from collections import Counter

import numpy as np

from gape.core.types import Points, Samples
from gape.metrics.intervals import bootstrap
from gape.metrics.measure import Measure, Scoring
from gape.metrics.usefulness import classify
from gape.modalities.mixed.schema import MixedSchema
from gape.modalities.rows.columns import Choices
from gape.modalities.rows.embedder import RowEmbedder

_MOST_CHOICES = 50  # of a column that is predicted; a classifier of more takes minutes


def agreement_measures(
    schema: MixedSchema, real: tuple[Samples, Points], synthetic: tuple[Samples, Points], scoring: Scoring
) -> tuple[Measure, ...]:
    """Predict each column of choices from the texts alone, by a classifier trained on one side and tested on the other.

    Trained on synthetic rows and tested on real ones, it shows what the rows teach. Trained on real rows and tested on
    synthetic ones, it shows whether their texts agree with their cells. The points are those of `MixedEmbedder`.
    """
    columns = {} if schema.cells is None else schema.cells.columns
    width = 0 if schema.cells is None else sum(RowEmbedder(schema.cells).widths.values())
    measures: list[Measure] = []
    for name, column in columns.items():
        if not isinstance(column, Choices) or column.count > _MOST_CHOICES:
            continue
        ours, theirs = (_labelled(side, name, width, scoring) for side in (synthetic, real))
        measures.append(_predicted(f"{name} by texts", ours, theirs, "real", scoring))
        measures.append(_predicted(f"{name} in texts", theirs, ours, "synthetic", scoring))
    return tuple(measures)


def _labelled(side: tuple[Samples, Points], name: str, width: int, scoring: Scoring) -> tuple[Points, list[str]]:
    """Return the points of the texts of at most `scoring.sample` rows, and their values in a column."""
    some = np.random.default_rng([scoring.seed, *b"agreement"]).permutation(len(side[0]))[: scoring.sample]
    return side[1][some, width:], [str(json.loads(line)[name]) for line in side[0][some]]


def _predicted(
    name: str, taught: tuple[Points, list[str]], tested: tuple[Points, list[str]], which: str, scoring: Scoring
) -> Measure:
    rng = np.random.default_rng([scoring.seed, *b"agreement"])
    accuracy = bootstrap(classify(*taught, *tested).correct, rng)
    guessed = Counter(tested[1]).most_common(1)[0][1] / len(tested[1])
    other = "synthetic" if which == "real" else "real"
    says = (
        f"share of {which} rows whose value a classifier tells from their texts after learning from {other} ones; "
        f"guessing the commonest gives {guessed:.0%}"
    )
    return Measure.within(name, accuracy, says)
