"""An attack on a plan: how much its releases reveal about one unit, compared with the claim."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gape.audit.bounds import CONFIDENCE, Bounds, Scores, lower_bounds
from gape.audit.canaries import ElectorateMaker, Game
from gape.audit.checks import Check, check_accounts, check_noise, check_runs, check_sensitivity, check_small_noise
from gape.audit.surveys import check_answers
from gape.core.errors import InputError
from gape.evolution.plan import Plan
from gape.privacy.accounting import stated
from gape.privacy.noise import Noise
from gape.voting.electorate import LocalElectorate

_LEAST_TRIALS = 1_000
_USUAL_DRAWS = 2_400_000  # draws of noise in total: about 40 seconds
_MOST_TRIALS = 1_000_000  # unless more are requested
_TESTED = 1_000_000  # draws whose law is tested


@dataclass(frozen=True)
class PlanAudit:
    """The result of an attack."""

    plan: Plan
    bounds: Bounds
    checks: tuple[Check, ...]
    trials: int
    seconds: float  # CPU time

    @property
    def passed(self) -> bool:
        """Whether nothing contradicts the claim."""
        return self.bounded and all(check.passed for check in self.checks)

    @property
    def bounded(self) -> bool:
        """Whether both bounds are at most the claimed epsilon."""
        return max(self.bounds.any_mechanism, self.bounds.gaussian) <= self.plan.epsilon

    def text(self) -> str:
        """Return the result in a sentence or two."""
        plan, bounds = self.plan, self.bounds
        finding = (
            f"with {CONFIDENCE:.1%} confidence epsilon is at least {bounds.any_mechanism:.3g}, and at least "
            f"{bounds.gaussian:.3g} if the noise is Gaussian; the claim is {plan.epsilon:g} at delta "
            f"{stated(plan.delta, 3)}"
        )
        failed = ", ".join(check.name for check in self.checks if not check.passed)
        if self.passed:
            return f"Nothing found that breaks the claim: {finding}. An audit can refute a claim, never prove it."
        if not self.bounded:
            return f"THE CLAIM IS FALSE: {finding}." + (f" Failed too: {failed}." if failed else "")
        return f"THE CLAIM IS NOT KEPT: the checks failed for {failed}, though {finding}."


def audit_plan(
    plan: Plan,
    rng: np.random.Generator,
    *,
    trials: int | None = None,
    make: ElectorateMaker = LocalElectorate,
    noise: Noise | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> PlanAudit:
    """Attack the releases of a plan with canaries, and bound its epsilon from below.

    If the releases are (epsilon, delta)-DP as the plan claims, a bound exceeds epsilon with probability 0.1% at most:
    the first for any mechanism whose trials are independent, the second if its noise is also Gaussian. `rng` tosses
    only the canaries' coins: the noise is that of a run, unless `noise` is given. At least `trials` canaries are
    played; `progress` is called with the number played so far and in total.
    """
    if not math.isfinite(plan.epsilon) or plan.sigma == 0:
        raise InputError(f"epsilon must be finite for an audit, got {plan.epsilon:g}; use a plan with noise")
    trials = usual_trials(plan) if trials is None else trials
    if trials < _LEAST_TRIALS:
        raise InputError(f"trials must be at least {_LEAST_TRIALS}, got {trials}; fewer would show nothing")
    started = time.process_time()
    game = Game.of(plan, make)
    runs = 2 * math.ceil(trials / (2 * game.canaries))  # one half chooses thresholds, the other judges
    coins = rng.random((runs, game.canaries)) < 0.5
    scores, residuals, entries = [], [], []
    for run, tossed in enumerate(coins):
        votes, entry = game.play(tossed, noise)
        scores.append(game.scores(votes))
        entries.append(entry)
        if run < 2 or run * votes.size < _TESTED:
            residuals.append(votes - game.exact(tossed))
        if progress:
            progress((run + 1) * game.canaries, runs * game.canaries)
    halves = [
        _split_by_coin(np.array(scores[part]), coins[part]) for part in (slice(runs // 2), slice(runs // 2, runs))
    ]
    checks = (
        check_accounts(plan),
        check_sensitivity(plan, make),
        check_answers(plan.neighbours),
        *check_runs(plan, entries),
        *check_noise(plan.sigma, np.array(residuals)),
        check_small_noise(game, noise),
    )
    bounds = lower_bounds(halves[0], halves[1], plan.delta, game.shifts)
    return PlanAudit(plan, bounds, checks, runs * game.canaries, time.process_time() - started)


def usual_trials(plan: Plan) -> int:
    """Return the number of trials that takes about 40 seconds."""
    most = max(release.unit_shifts for release in plan.releases)
    return min(_MOST_TRIALS, max(_LEAST_TRIALS, _USUAL_DRAWS // (len(plan.releases) * most)))


def _split_by_coin(scores: np.ndarray, coins: np.ndarray) -> Scores:
    return Scores(inside=scores[coins], outside=scores[~coins])
