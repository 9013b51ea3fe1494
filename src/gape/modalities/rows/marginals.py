"""AIM and MST of OpenDP, which `gape compare` runs beside the survey. They need the extra marginals.

Both measure noisy marginals and draw rows from a graphical model that fits them (McKenna et al. 2021, 2022). Two
defects of the library are avoided here: the sampler of mbi 1.1 ties the children of a column to each other and
conditions on measured cliques only, so rows are drawn by `_sampled`; and MST can exceed its own budget by rounding.
"""

import importlib.util
import math
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from gape.core.errors import InputError
from gape.core.types import Floats, Indices, Samples
from gape.modalities.rows.columns import BINS, Choices, Column
from gape.modalities.rows.schema import Schema
from gape.privacy.accounting import Neighbours, noise_scale

ALGORITHMS = {"aim": "AIM", "mst": "MST"}

# AIM with the defaults of the library does not end in hours on a table of fourteen columns.
_DEGREE = 2  # columns that are counted together
_ROUNDS = 2  # for each column
_MEGABYTES = 4.0  # size of the model
_STEPS = 250  # of each fit

# The library protects against adding or removing a record. Replacing one changes two counts: rho of a Gaussian
# measurement grows twofold, that of a selection fourfold. 95% of rho are spent on measurements.
_REPLACED = 0.95 * 2 + 0.05 * 4
_ROUNDED = 1 - 1e-9  # share of its budget for selections that MST may use


@dataclass(frozen=True)
class Marginals:
    """Makes rows by AIM or MST. Numbers are counted in the twenty bins of TV1 and TV2, and drawn uniformly from them.

    The guarantee is that of a run, with rho-zCDP converted as if all of it were Gaussian: that favours AIM and MST, by
    less than a tenth of the noise. The noise of the library cannot be seeded.
    """

    schema: Schema
    algorithm: str  # of `ALGORITHMS`

    def __post_init__(self) -> None:
        if any(importlib.util.find_spec(name) is None for name in ("mbi", "polars")):
            raise InputError(
                f"the method {self.algorithm} needs OpenDP with mbi, which is not installed; install gape[marginals], "
                "or leave the method out"
            )

    def __repr__(self) -> str:
        limits = (
            f"{_DEGREE} columns, {_ROUNDS} rounds per column, {_MEGABYTES:g} MB, " if self.algorithm == "aim" else ""
        )
        return f"{ALGORITHMS[self.algorithm]} of OpenDP ({limits}{_STEPS} steps)"

    def __call__(
        self, records: Samples, count: int, epsilon: float, delta: float, neighbours: Neighbours, seed: int
    ) -> Samples:
        """Make `count` rows that are (epsilon, delta)-DP for the records, (n,)."""
        if not math.isfinite(epsilon):
            raise InputError(f"{self.algorithm} needs noise, got epsilon {epsilon:g}; leave out epsilon inf")
        bins = self.schema.bins(self.schema.codes(records))
        rho = 1 / (2 * noise_scale(epsilon, delta, 1, neighbours="add_remove", votes_per_unit=1) ** 2)
        model = self._fitted(bins, rho / (_REPLACED if neighbours == "replace" else 1.0))
        rng = np.random.default_rng([seed, *b"marginals"])
        drawn = _sampled(model, len(self.schema.columns), count, rng)
        columns = zip(self.schema.columns.values(), drawn.T, strict=True)
        return self.schema.lines(np.stack([_codes(column, own, rng) for column, own in columns], axis=1))

    def _fitted(self, bins: Indices, rho: float) -> Any:
        """Return the graphical model of noisy marginals, rho-zCDP if a record is added or removed."""
        os.environ.setdefault("JAX_PLATFORMS", "cpu")
        dp, polars, mbi = map(import_module, ("opendp.prelude", "polars", "opendp.extras.mbi"))
        dp.enable_features("contrib")
        sizes = [_size(column) for column in self.schema.columns.values()]
        names = [str(index) for index in range(len(sizes))]
        table = polars.DataFrame({name: bins[:, index] for index, name in enumerate(names)}).lazy()
        context = dp.Context.compositor(
            data=table, privacy_unit=dp.unit_of(contributions=1), privacy_loss=dp.loss_of(rho=rho)
        )
        options: dict[str, Any] = {"estimator": partial(_estimate, _STEPS)}
        if self.algorithm == "aim":
            options |= {"queries": _DEGREE, "rounds": _ROUNDS * len(names), "max_size": _MEGABYTES}
        algorithm = getattr(mbi, ALGORITHMS[self.algorithm])(**options)
        keys = {name: list(range(size)) for name, size in zip(names, sizes, strict=True)}
        with _within_budget():
            return context.query(rho=rho).contingency_table(keys=keys, algorithm=algorithm).release().model


def _estimate(steps: int, domain: Any, measured: Sequence[Any], *, potentials: Any = None) -> Any:
    """Fit a Markov random field to noisy marginals by mirror descent."""
    return import_module("mbi.estimation").mirror_descent(domain, measured, potentials=potentials, iters=steps)


@contextmanager
def _within_budget() -> Iterator[None]:
    """Let MST stay within its budget, which the sum of its parts can exceed by rounding."""
    module: Any = import_module("opendp.extras.mbi._mst")
    shipped = module.prior
    module.prior = lambda value: shipped(value) * _ROUNDED
    try:
        yield
    finally:
        module.prior = shipped


def _sampled(model: Any, width: int, count: int, rng: np.random.Generator) -> Indices:
    """Draw rows of bins, (count, width), from a Markov random field, column by column along its junction tree.

    Against the order of elimination, the neighbours of a column that are drawn already lie in one clique with it, and
    decide its distribution. The library counts a further, empty value of each column, which is never drawn.
    """
    tree, eliminated = import_module("mbi.junction_tree").make_junction_tree(model.domain, [*map(set, model.cliques)])
    cliques = [set(clique) for clique in tree.nodes]
    potentials = model.potentials.expand(list(tree.nodes))
    marginals = import_module("mbi.marginal_oracles").message_passing_stable(potentials)
    drawn: dict[str, Indices] = {}
    for name in reversed(eliminated):
        around = set().union(*(clique for clique in cliques if name in clique))
        parents = [other for other in drawn if other in around]
        counts = np.asarray(marginals.project((*parents, name)).datavector(flatten=False), dtype=np.float64)
        drawn[name] = _drawn_given(counts[..., :-1], [drawn[other] for other in parents], count, rng)
    return np.stack([drawn[str(index)] for index in range(width)], axis=1)


def _drawn_given(counts: Floats, parents: Sequence[Indices], count: int, rng: np.random.Generator) -> Indices:
    """Draw values, (count,), by `counts`, (values of each parent..., values), given those of the parents."""
    totals = np.cumsum(np.maximum(counts, 0.0) + 1e-12, axis=-1)
    totals /= totals[..., -1:]
    own = totals[tuple(parents)] if parents else np.broadcast_to(totals, (count, len(totals)))
    values: Indices = np.minimum((own < rng.random((count, 1))).sum(axis=1), counts.shape[-1] - 1)
    return values


def _size(column: Column) -> int:
    return column.count if isinstance(column, Choices) else BINS + int(column.missing)


def _codes(column: Column, bins: Indices, rng: np.random.Generator) -> Floats:
    """Return the code of each bin, (n,): a choice, an empty cell, or one of the numbers in the bin."""
    if isinstance(column, Choices):
        return np.where(bins == len(column.values), np.nan, bins.astype(np.float64))
    step = 10.0**-column.decimals
    first, after = (np.ceil((bins + end) / BINS * column.range / step - 1e-9) for end in (0, 1))
    numbers = column.least + (first + np.floor(rng.random(len(bins)) * np.maximum(after - first, 1))) * step
    return np.where(bins == BINS, np.nan, column.rounded(numbers))
