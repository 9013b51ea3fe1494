"""Checks of single promises: the accounting, the sensitivity to one unit, and the noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import chdtrc, ndtr, ndtri

from gape.audit.canaries import ElectorateMaker, Entries, Game, middles, votes_of
from gape.core.protocols import Electorate
from gape.core.types import Floats, Indices, NoisyVotes, Points
from gape.evolution.plan import Plan
from gape.privacy.accounting import Release, delta_spent, stated
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import Noise
from gape.privacy.release import release_votes

NEVER = 1e-9  # approximate probability that a test of a distribution fails by chance
_GROUPS = 20  # approximate number of groups of noise values
_EXACT_BELOW = 100.0  # sigma; above it, a sum of the discrete law is within 1e-5 of the continuous one
_LEAST_EXPECTED = 25  # draws per group: with fewer, the test would fail by chance too often
_SMALL_SIGMA = 0.5  # at which 79% of discrete noise is 0, but 68% of rounded noise
_SMALL_RELEASES = 4
_TURNS = 4  # rounds after which a unit with three records per vote has started again


@dataclass(frozen=True)
class Check:
    """One promise, whether it was found to be kept, and the finding."""

    name: str
    passed: bool
    finding: str


def check_accounts(plan: Plan) -> Check:
    """Whether all releases at the plan's sigma are certified for the plan's epsilon and delta."""
    used = delta_spent(plan.releases, plan.epsilon)
    made = f"{plan.rounds} rounds" + (f" and a survey of {len(plan.answers)}" if plan.answers else "")
    cost = f"{made} at sigma {plan.sigma:g} have delta {stated(used, 3)} at epsilon {plan.epsilon:g}"
    if used <= plan.delta:
        return Check("accounts", passed=True, finding=f"{cost}, within the {stated(plan.delta, 3)} claimed")
    return Check("accounts", passed=False, finding=f"{cost}, above the {stated(plan.delta, 3)} claimed")


def check_sensitivity(plan: Plan, make: ElectorateMaker) -> Check:
    """Whether replacing, adding or removing one unit moves at most as many counts as the accounting assumes.

    The unit has more records than votes, some of them at the same point. Its votes are counted by the release step
    without noise, which is harmless for made-up data.
    """
    release, votes = Release(0.0, plan.neighbours, plan.votes_per_unit), plan.votes_per_record
    records = 3 * plan.votes_per_unit // votes
    unit, replacement = np.arange(records), records + np.arange(records)
    others = np.array([2 * records])
    neighbour = replacement if plan.neighbours == "replace" else unit[:0]
    pair = [_with_user(positions, others, votes) for positions in (unit, neighbour)]
    pairs = [[make(points, units=units, **votes_of(plan)) for points, units in pair]]
    if plan.votes_per_unit == votes:  # single records are counted by another code path
        pairs.append([make(np.unique(points[[0, -1]], axis=0), **votes_of(plan)) for points, _ in pair])
    candidates = np.arange((2 * records + 1) * votes, dtype=np.float32)[:, None]
    most, largest = 0, 0
    for turn in range(1, _TURNS + 1):
        for neighbours in pairs:
            counts = [_without_noise(electorate, candidates, turn, release) for electorate in neighbours]
            moved = np.abs(counts[0] - counts[1])
            most, largest = max(most, int((moved > 0).sum())), max(largest, int(moved.max()))
    passed = most <= release.unit_shifts and largest <= 1
    rule = "" if passed else f"; the accounting assumes {release.unit_shifts} counts by 1"
    return Check("votes", passed, f"one unit moves {most} counts of a round by at most {largest}{rule}")


def check_runs(plan: Plan, runs: Sequence[Entries]) -> list[Check]:
    """Whether each round was charged once, as planned, with noise that is recorded as secure."""
    charged = sum(run.charged for run in runs)
    repeated = sum(run.repeated for run in runs)
    secure = sum(run.secure for run in runs)
    total, planned = len(runs), len(plan.releases)
    return [
        Check("charged", charged == total, f"{charged} of {total} runs were charged for {planned} releases as planned"),
        Check("drawn once", repeated == total, f"a release requested again was the same in {repeated} of {total} runs"),
        Check(
            "secure source", secure == total, f"{secure} of {total} runs are recorded with noise from a secure source"
        ),
    ]


def check_noise(sigma: float, residuals: NoisyVotes) -> list[Check]:
    """Whether noise, (runs, T, v), has whole numbers and the promised law, and is new for each run, round and count."""
    whole = residuals.dtype == np.int64
    kind = "64-bit integers" if whole else f"{residuals.dtype}, not 64-bit integers"
    dependence = _dependence(residuals)
    worst = max(dependence, key=lambda name: abs(dependence[name]))
    fresh = abs(dependence[worst]) < -float(ndtri(NEVER / 2))
    return [
        Check("whole numbers", bool(whole), f"noisy votes are {kind}"),
        _check_law("law", residuals.ravel(), sigma),
        Check("fresh", fresh, f"the largest dependence of noise is between {worst}: z = {dependence[worst]:.2g}"),
    ]


def check_small_noise(game: Game, noise: Noise | None) -> Check:
    """Whether noise of a scale below one count is discrete Gaussian; rounded floating-point noise is not."""
    game = Game.of(replace(game.plan, rounds=1, answers=()), game.make)
    coins = np.zeros(game.canaries, dtype=np.bool_)
    release = Release(_SMALL_SIGMA, game.plan.neighbours, game.plan.votes_per_unit)
    electorate = game.electorate(coins)
    with closing(Ledger(":memory:", Budget(math.inf, 0.5, release.neighbours))) as ledger:
        account = Account(ledger, "audit")
        turns = range(1, _SMALL_RELEASES + 1)
        votes = [release_votes(electorate, game.candidates, turn, release, account, noise) for turn in turns]
    residuals = np.concatenate(votes) - np.tile(game.exact(coins)[-1], _SMALL_RELEASES)
    return _check_law("not rounded", residuals, _SMALL_SIGMA)


def _with_user(records: Indices, others: Indices, votes: int) -> tuple[Points, list[str]]:
    """Return a dataset with one user's records, the first of them two more times, and another user."""
    positions = np.concatenate([records, np.repeat(records[:1], 2), others])
    units = ["canary"] * (len(positions) - len(others)) + ["other"] * len(others)
    return middles(votes * positions, votes), units


def _without_noise(electorate: Electorate, candidates: Points, turn: int, release: Release) -> NoisyVotes:
    with closing(Ledger(":memory:", Budget(math.inf, 0.5, release.neighbours))) as ledger:
        return release_votes(electorate, candidates, turn, release, Account(ledger, "audit"))


def _check_law(name: str, noise: NoisyVotes, sigma: float) -> Check:
    """Apply Pearson's test of noise, (n,), against the discrete Gaussian, on groups of values of similar mass."""
    edges = np.unique(np.round(sigma * ndtri(np.linspace(0, 1, _GROUPS + 1)[1:-1])))
    kept, masses = _frequent(edges, _cumulative(edges, sigma), _LEAST_EXPECTED / len(noise))
    seen = np.bincount(np.searchsorted(kept, noise), minlength=len(masses))
    expected = masses * len(noise)
    chance = float(chdtrc(len(masses) - 1, ((seen - expected) ** 2 / expected).sum())) if len(kept) else 1.0
    return Check(name, chance > NEVER, f"{len(noise):,} draws against N_Z(0, {sigma:g}²): p = {chance:.2g}")


def _frequent(edges: Floats, cumulative: Floats, least: float) -> tuple[Floats, Floats]:
    """Drop edges until each group, including the one above all edges, has the least mass; return also the masses."""
    kept, before = [], [0.0]
    for edge, mass in zip(edges, cumulative, strict=True):
        if mass - before[-1] >= least and 1 - mass >= least:
            kept.append(edge)
            before.append(mass)
    return np.array(kept), np.diff([*before, 1.0])


def _cumulative(edges: Floats, sigma: float) -> Floats:
    """Return P[Z <= edge] for the discrete Gaussian."""
    if sigma >= _EXACT_BELOW:
        smooth: Floats = ndtr((edges + 0.5) / sigma)
        return smooth
    reach = math.ceil(12 * sigma) + 1
    law = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2 * sigma * sigma))
    sums: Floats = (np.cumsum(law) / law.sum())[edges.astype(np.int64) + reach]
    return sums


def _dependence(noise: NoisyVotes) -> dict[str, float]:
    """Measure the dependence of noise, (runs, T, v), as standard normal figures."""
    unit = noise / (noise.std() or 1.0)
    pairs = {
        "runs": unit[1:] * unit[:-1],
        "rounds of a run": unit[:, 1:] * unit[:, :-1],
        "counts of a release": unit[..., 1:] * unit[..., :-1],
    }
    most = float(np.abs(unit).max()) ** 2
    figures = {name: _figure(products, most) for name, products in pairs.items() if products.size}
    # Noise that all counts of a release share shows in their sum. Its squares follow chi-square, here made normal
    # (Wilson & Hilferty 1931), unless nearly all terms are zero.
    if (noise != 0).mean() * noise.shape[2] >= _LEAST_EXPECTED:
        sums = unit.sum(axis=2) / math.sqrt(unit.shape[2])
        spread = 2 / (9 * sums.size)
        figures["all counts of a release"] = (float(np.cbrt((sums**2).mean())) - (1 - spread)) / math.sqrt(spread)
    return figures


def _figure(products: Floats, most: float) -> float:
    """Turn a sum of products of variance 1, none larger than `most`, into a normal figure by Bennett's inequality.

    For many small products this is the sum divided by its standard deviation. If nearly all noise is 0, two nonzero
    values meet by chance now and then, and such a sum is far from normal.
    """
    total, count = float(products.sum()), products.size
    if not total:
        return 0.0
    u = most * abs(total) / count
    return math.copysign(math.sqrt(2 * count * ((1 + u) * math.log1p(u) - u)) / most, total)
