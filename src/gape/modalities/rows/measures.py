"""Measures of synthetic rows against real ones: distances of single columns and of pairs of columns, and spread.

None of them is better for rows that shrink to the middle of the data, as W1 is.
"""

from collections.abc import Sequence

import numpy as np

from gape.core.types import Floats, as_samples
from gape.metrics.measure import Measure
from gape.metrics.tables import column_distances, pair_distance
from gape.modalities.rows.columns import Numbers
from gape.modalities.rows.schema import Schema


def row_measures(real: Sequence[str], rows: Sequence[str], schema: Schema) -> tuple[Measure, ...]:
    """Compare all rows column by column and pair by pair. The distances of few rows are larger by chance."""
    real_codes, codes = (schema.codes(as_samples(list(lines))) for lines in (real, rows))
    real_bins, bins = schema.bins(real_codes), schema.bins(codes)
    distances = column_distances(real_bins, bins)
    worst = list(schema.columns)[int(distances.argmax())]
    repeated = 1 - len(set(rows)) / len(rows)
    return (
        Measure("TV1", float(distances.mean()), "mean share of a column's cells that would have to change"),
        Measure("worst column", float(distances.max()), f"the same for the worst column, {worst}"),
        Measure("TV2", pair_distance(real_bins, bins), "the same for pairs of columns"),
        *_spread(real_codes, codes, schema),
        Measure("repeated rows", repeated, f"{repeated:.0%} of the rows repeat another one"),
    )


def table_scores(real: Floats, rows: Floats, schema: Schema) -> dict[str, float]:
    """Return the distances of columns and of pairs, and the spread of numbers if there are any, of coded rows."""
    bins = schema.bins(real), schema.bins(rows)
    ratios = spread_ratios(real, rows, schema)
    scores = {"TV1": float(column_distances(*bins).mean()), "TV2": pair_distance(*bins)}
    return scores | ({"spread": float(np.mean(list(ratios.values())))} if ratios else {})


def spread_ratios(real: Floats, rows: Floats, schema: Schema) -> dict[str, float]:
    """Return the standard deviation of each column of numbers or dates over that of the real one, if that is not 0."""
    return {
        name: _deviation(rows[:, index]) / deviation
        for index, (name, column) in enumerate(schema.columns.items())
        if isinstance(column, Numbers) and (deviation := _deviation(real[:, index])) > 0
    }


def _spread(real: Floats, rows: Floats, schema: Schema) -> tuple[Measure, ...]:
    ratios = spread_ratios(real, rows, schema)
    if not ratios:
        return ()
    least = min(ratios, key=lambda name: ratios[name])
    return (
        Measure("spread", float(np.mean(list(ratios.values()))), "standard deviation of numbers over that of records"),
        Measure("least spread", ratios[least], f"the same for the column that shrinks most, {least}"),
    )


def _deviation(codes: Floats) -> float:
    known = codes[~np.isnan(codes)]
    return float(known.std()) if len(known) else 0.0
