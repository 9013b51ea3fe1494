"""How synthetic rows compare with real ones, column by column and pair by pair."""

from collections.abc import Sequence

import numpy as np

from gape.core.types import as_samples
from gape.metrics.measure import Measure, Scoring
from gape.metrics.tables import column_distances, pair_distance
from gape.modalities.rows.schema import Schema


def of_rows(real: Sequence[str], rows: Sequence[str], schema: Schema, scoring: Scoring) -> tuple[Measure, ...]:
    """Compare rows column by column, and pair by pair; both sides have as many where they can, see `of_texts`."""
    rng = np.random.default_rng([scoring.seed, *b"texts"])
    count = min(len(real), len(rows), scoring.sample)
    few, some = (
        schema.bins(schema.codes(as_samples([lines[place] for place in rng.permutation(len(lines))[:count]])))
        for lines in (real, rows)
    )
    apart = column_distances(few, some)
    worst = list(schema.columns)[int(apart.argmax())]
    twice = 1 - len(set(rows)) / len(rows)
    return (
        Measure("column distance", float(apart.mean()), "share of the cells of a column that would have to change"),
        Measure("worst column", float(apart.max()), f"the same of the column that is worst off, {worst}"),
        Measure("column pair distance", pair_distance(few, some), "the same of two columns together, on average"),
        Measure("repeated rows", twice, f"{twice:.0%} of the rows repeat another one"),
    )
