"""Signed instances for the tests of selection: points with noisy votes, and a separation that may truncate.

`instances` is the hypothesis strategy; `random_instance` draws the same kinds from a seeded generator, for
tests that need thousands. Both make what breaks a network simplex: duplicated points, lattices full of ties,
zero weights, totals of exactly zero. Fractional weights are multiples of 1/64, so that whether a total is
negative does not depend on the order of summation.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from gape._support.geometry import distances
from gape.core.types import Floats, NoisyVotes, Points

LAYOUTS = ("cloud", "lattice", "duplicates", "clusters", "one place", "wide")
SIGNED = ("noisy", "integer", "fractional", "real", "sparse", "balanced", "heavy")  # of both signs
WEIGHTINGS = (*SIGNED, "positive", "negative", "deficit")
SEPARATIONS = ("inf", "wide", "truncating", "tiny")


@dataclass(frozen=True)
class Instance:
    """Points (v, d) with signed weights (v,), and the separation R that truncates distances at R/3."""

    points: Points
    weights: NoisyVotes | Floats
    separation: float

    @property
    def total(self) -> float:
        """The sum of the weights; negative: the objective is infinite."""
        return float(self.weights.sum())

    @property
    def rounding(self) -> float:
        """The most that costs rounded to 2^-40 of the largest distance can move the objective."""
        diameter = min(float(distances(self.points, self.points).max()), self.separation / 3)
        return float(np.abs(self.weights).sum()) * diameter * 2.0**-38


def random_points(rng: np.random.Generator, count: int, layout: str) -> Points:
    """Draw points, (count, d), in one of `LAYOUTS`."""
    d = int(rng.integers(1, 4))
    if layout == "lattice":
        points = rng.integers(0, 4, (count, d)).astype(np.float64)
    elif layout == "duplicates":
        distinct = rng.standard_normal((max(1, count // 3), d))
        points = distinct[rng.integers(0, len(distinct), count)]
    elif layout == "clusters":
        centres = 10 * rng.standard_normal((3, d))
        points = centres[rng.integers(0, 3, count)] + 0.1 * rng.standard_normal((count, d))
    elif layout == "one place":
        points = np.full((count, d), 0.7)
    elif layout == "wide":
        points = rng.standard_normal((count, 40))
    else:
        points = rng.standard_normal((count, d))
    return points.astype(np.float32)


def random_weights(rng: np.random.Generator, count: int, weighting: str) -> NoisyVotes | Floats:
    """Draw weights, (count,), in one of `WEIGHTINGS`."""
    mixed = rng.integers(-6, 10, count)
    one = (np.arange(count) == rng.integers(count)).astype(np.int64)
    draws: dict[str, Callable[[], NoisyVotes | Floats]] = {
        "noisy": lambda: (
            rng.multinomial(2 * count, rng.dirichlet(np.full(count, 0.3)))  # votes for a few, noise on all
            + np.rint(rng.normal(0, 2, count)).astype(np.int64)
        ),
        "integer": lambda: mixed,
        "fractional": lambda: rng.integers(-300, 500, count) / 64,
        "real": lambda: rng.normal(0.3, 1.0, count),
        "sparse": lambda: mixed * rng.integers(0, 2, count),
        "balanced": lambda: mixed - mixed.sum() * one,
        "heavy": lambda: mixed + 100_000 * one,
        "positive": lambda: np.abs(mixed),
        "negative": lambda: -np.abs(mixed),
        "deficit": lambda: mixed - (max(int(mixed.sum()), 0) + 1) * one,
    }
    return draws[weighting]()


def random_separation(rng: np.random.Generator, points: Points, kind: str) -> float:
    """Draw a separation in one of `SEPARATIONS`; its third is a share of the widest distance."""
    if kind == "inf":
        return float("inf")
    widest = float(distances(points, points).max()) or 1.0
    shares = {"wide": (1.0, 2.0), "truncating": (0.1, 0.5), "tiny": (1e-3, 1e-2)}
    return 3 * widest * float(rng.uniform(*shares[kind]))


def random_instance(
    rng: np.random.Generator,
    count: int,
    *,
    layouts: tuple[str, ...] = LAYOUTS,
    weightings: tuple[str, ...] = WEIGHTINGS,
    separations: tuple[str, ...] = SEPARATIONS,
) -> Instance:
    """Draw an instance of `count` points of any of the given kinds."""
    points = random_points(rng, count, str(rng.choice(layouts)))
    weights = random_weights(rng, count, str(rng.choice(weightings)))
    return Instance(points, weights, random_separation(rng, points, str(rng.choice(separations))))


def random_selected(rng: np.random.Generator, count: int) -> NoisyVotes:
    """Draw a non-empty set of distinct indices below `count`; often one of them, often all."""
    size = int(rng.choice([1, count, int(rng.integers(1, count + 1))]))
    return rng.permutation(count)[:size]


@st.composite
def instances(draw: st.DrawFn, most: int = 12) -> Instance:
    """Signed instances of at most `most` points, which shrink towards few lattice points of small weight."""
    count = draw(st.integers(1, most))
    shape = (count, draw(st.integers(1, 3)))
    lattice = st.integers(-2, 2).map(float)
    fine = st.integers(-400, 400).map(lambda k: k / 16)
    points = draw(arrays(np.float32, shape, elements=draw(st.sampled_from([lattice, fine]))))
    whole = arrays(np.int64, count, elements=st.integers(-5, 9))
    fractional = arrays(np.float64, count, elements=st.integers(-300, 500).map(lambda k: k / 64))
    weights = draw(st.one_of(whole, fractional))
    if draw(st.booleans()):  # a total of exactly zero: every unit that is sent cancels another
        weights[draw(st.integers(0, count - 1))] -= weights.sum()
    separation = draw(st.sampled_from([float("inf"), 60.0, 6.0, 3.0, 1.0, 0.05]))
    return Instance(points, weights, separation)
