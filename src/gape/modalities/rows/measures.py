"""Measures of synthetic rows against real ones: distances of single columns and of pairs of columns."""

from collections.abc import Sequence

import numpy as np

from gape.core.types import Floats, as_samples
from gape.metrics.measure import Measure, Scoring
from gape.metrics.tables import column_distances, pair_distance
from gape.modalities.rows.columns import Numbers
from gape.modalities.rows.schema import Schema


def row_measures(real: Sequence[str], rows: Sequence[str], schema: Schema, scoring: Scoring) -> tuple[Measure, ...]:
    """Compare rows column by column and pair by pair; both sides have as many rows if possible."""
    rng = np.random.default_rng([scoring.seed, *b"texts"])
    count = min(len(real), len(rows), scoring.sample)
    codes = [
        schema.codes(as_samples([lines[index] for index in rng.permutation(len(lines))[:count]]))
        for lines in (real, rows)
    ]
    some_real, some_rows = map(schema.bins, codes)
    distances = column_distances(some_real, some_rows)
    worst = list(schema.columns)[int(distances.argmax())]
    pairs = pair_distance(some_real, some_rows)
    repeated = 1 - len(set(rows)) / len(rows)
    return (
        Measure("column distance", float(distances.mean()), "mean share of a column's cells that would have to change"),
        Measure("worst column", float(distances.max()), f"the same for the worst column, {worst}"),
        Measure("column pair distance", pairs, "the same for pairs of columns"),
        *_spread(codes[0], codes[1], schema),
        Measure("repeated rows", repeated, f"{repeated:.0%} of the rows repeat another one"),
    )


def _spread(real: Floats, rows: Floats, schema: Schema) -> tuple[Measure, ...]:
    """Compare the standard deviations of numbers and dates. Rows near the middle of the data have too small ones."""
    ratios = {
        name: _deviation(rows[:, index]) / _deviation(real[:, index])
        for index, (name, column) in enumerate(schema.columns.items())
        if isinstance(column, Numbers) and _deviation(real[:, index]) > 0
    }
    if not ratios:
        return ()
    least = min(ratios, key=lambda name: ratios[name])
    return (
        Measure("spread of numbers", float(np.mean(list(ratios.values()))), "standard deviation over that of records"),
        Measure("least spread", ratios[least], f"the same for the column that shrinks most, {least}"),
    )


def _deviation(codes: Floats) -> float:
    known = codes[~np.isnan(codes)]
    return float(known.std()) if len(known) else 0.0
