"""Measures of synthetic rows against real ones: distances of single columns and of pairs of columns."""

from collections.abc import Sequence

import numpy as np

from gape.core.types import as_samples
from gape.metrics.measure import Measure, Scoring
from gape.metrics.tables import column_distances, pair_distance
from gape.modalities.rows.schema import Schema


def row_measures(real: Sequence[str], rows: Sequence[str], schema: Schema, scoring: Scoring) -> tuple[Measure, ...]:
    """Compare rows column by column and pair by pair; both sides have as many rows if possible."""
    rng = np.random.default_rng([scoring.seed, *b"texts"])
    count = min(len(real), len(rows), scoring.sample)
    some_real, some_rows = (
        schema.bins(schema.codes(as_samples([lines[index] for index in rng.permutation(len(lines))[:count]])))
        for lines in (real, rows)
    )
    distances = column_distances(some_real, some_rows)
    worst = list(schema.columns)[int(distances.argmax())]
    pairs = pair_distance(some_real, some_rows)
    repeated = 1 - len(set(rows)) / len(rows)
    return (
        Measure("column distance", float(distances.mean()), "mean share of a column's cells that would have to change"),
        Measure("worst column", float(distances.max()), f"the same for the worst column, {worst}"),
        Measure("column pair distance", pairs, "the same for pairs of columns"),
        Measure("repeated rows", repeated, f"{repeated:.0%} of the rows repeat another one"),
    )
