"""AIM and MST of OpenDP on a table that `beside.py prepare` has split, at the same guarantee.

    python experiments/tables/aim.py --algorithm AIM --epsilon 1 --seed 0 --work FOLDER

Needs `pip install 'opendp[mbi]==0.16.0'`, in an environment of its own. OpenDP protects against adding or removing a
record. Replacing one changes two counts by one instead of one: the sensitivity of a Gaussian measurement grows by
sqrt 2 and that of a selection by 2. So the budget is rho / 2.1, for 95% of it spent on measurements and 5% on
selections. The sampler of mbi 1.1.0 is repaired in two places: children of one parent are drawn independently, and by
all cliques of the junction tree.
"""

import argparse
import inspect
import json
import math
import resource
import sys
import textwrap
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import opendp.prelude as dp
import polars as pl
from mbi import estimation, markov_random_field
from numpy.typing import NDArray
from opendp.extras import mbi as algorithms
from scipy.optimize import brentq
from scipy.special import log_ndtr

BINS = 20
Floats = NDArray[np.float64]


def repair() -> None:
    """Let the sampler condition on the cliques of the junction tree, and MST stay within its budget."""
    source = textwrap.dedent(inspect.getsource(markov_random_field.MarkovRandomField.synthetic_data))
    source = source.replace("for cl in cliques if col in cl", "for cl in jtree.nodes if col in cl")
    scope: dict[str, object] = {}
    exec(source, vars(markov_random_field), scope)  # noqa: S102  (the library's own code)
    markov_random_field.MarkovRandomField.synthetic_data = scope["synthetic_data"]
    # MST divides its budget so that the parts can add up to more than the whole by rounding, and is refused.
    sys.modules["opendp.extras.mbi._mst"].prior = lambda value: value * (1 - 1e-9)  # type: ignore[attr-defined]


def fitted(iterations: int, domain: Any, measured: Any, *, potentials: Any = None) -> Any:
    """Fit a Markov random field by mirror descent."""
    return estimation.mirror_descent(domain, measured, potentials=potentials, iters=iterations)


def rho_of(epsilon: float, delta: float) -> float:
    """Return the rho of the Gaussian mechanism that is (epsilon, delta)-DP (Balle & Wang 2018)."""

    def excess(mu: float) -> float:
        first, second = log_ndtr(mu / 2 - epsilon / mu), epsilon + log_ndtr(-mu / 2 - epsilon / mu)
        return math.exp(first) - math.exp(second) - delta

    return float(brentq(excess, 1e-4, 50)) ** 2 / 2


def numbers(codes: Floats, least: float, most: float, decimals: int, rng: np.random.Generator) -> Floats:
    """Draw a number from each bin, (n,), uniformly over those that the column can hold."""
    step = 10.0**-decimals
    first, after = (np.ceil((codes + end) / BINS * (most - least) / step - 1e-9) for end in (0, 1))
    drawn = first + np.floor(rng.random(len(codes)) * np.maximum(after - first, 1))
    inside: Floats = np.round(least + drawn * step, decimals).clip(least, most)
    return inside


def main() -> None:
    """Make rows and store their codes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--algorithm", choices=("AIM", "MST"), required=True)
    parser.add_argument("--epsilon", type=float, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--degree", type=int, default=2, help="columns that AIM may count together")
    parser.add_argument("--rounds", type=int, default=2, help="rounds of AIM, for each column")
    parser.add_argument("--iterations", type=int, default=250, help="steps of each fit")
    parser.add_argument("--megabytes", type=float, default=4.0, help="size of AIM's model")
    args = parser.parse_args()
    repair()
    dp.enable_features("contrib")
    about = json.loads((args.work / "about.json").read_text())
    bins = np.load(args.work / "bins.npz")
    names, least, most = about["columns"], bins["least"], bins["most"]
    table = pl.DataFrame({name: bins["voters"][:, index] for index, name in enumerate(names)}).lazy()
    n = len(bins["voters"])
    delta, began = 1 / (n * math.log(n)), time.process_time()
    rho = rho_of(args.epsilon, delta) / 2.1
    context = dp.Context.compositor(
        data=table,
        privacy_unit=dp.unit_of(contributions=1),
        privacy_loss=dp.loss_of(rho=rho),
    )
    options: dict[str, Any] = {"estimator": partial(fitted, args.iterations)}
    if args.algorithm == "AIM":
        options |= {"queries": args.degree, "rounds": args.rounds * len(names), "max_size": args.megabytes}
    algorithm = getattr(algorithms, args.algorithm)(**options)
    keys = {name: list(range(size)) for name, size in zip(names, about["sizes"], strict=True)}
    query = context.query(rho=rho).contingency_table(keys=keys, algorithm=algorithm)
    made = query.release().synthesize(n, "sample")
    rng = np.random.default_rng(args.seed)
    codes = np.stack([made[name].to_numpy().astype(float) for name in names], axis=1)
    for index in np.flatnonzero(most > least):
        codes[:, index] = numbers(codes[:, index], least[index], most[index], int(bins["decimals"][index]), rng)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    file = args.work / f"{args.algorithm}-{args.epsilon:g}-{args.seed}.npz"
    np.savez(file, rows=codes, seconds=time.process_time() - began, gigabytes=peak)


if __name__ == "__main__":
    main()
