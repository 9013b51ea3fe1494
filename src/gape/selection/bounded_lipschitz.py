"""The bounded-Lipschitz distance, the projection in it onto the simplex, and Algorithm 3's selector; all exact.

For a signed measure mu on the points,

    BL(mu) = max_f  sum_x f(x) mu_x    s.t.  |f| <= 1  and  |f(x) - f(y)| <= rho(x, y),

which is the least cost of bringing mu to zero if moving a unit costs rho and creating or destroying one costs 1.
The projection of w is the probability vector p that minimises BL(w - p). Mass of p is best kept where w has it,
at no cost, or created. So the projection is one transportation problem on the network of `flow`:

    sources    every x with w_x > 0, and the creator, with more supply than all demand
    sinks      every y with w_y < 0, and, for the projection, "kept", with demand 1
    costs      x to y: min(rho, 2);  x to kept: 0;  creator to anyone: 1;  x to the root (destroyed): 1;
               creator to the root (unused): 0

The network's potentials v of the sinks give the witness f(z) = min(1, v_kept, min_y v_y + rho(z, y)), and
BL(w - p) >= sum_x f(x) w_x - max f for every p proves the answer without trusting the flow.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from gape._support.geometry import distances
from gape.core.errors import InputError
from gape.core.protocols import Selection
from gape.core.types import Floats, NoisyVotes, Points
from gape.selection.flow import simplex as flow
from gape.selection.flow.tree import Network

_FARTHEST = 2.0  # the cost of destroying a unit in one place and creating it in another
_ROWS = 512  # rows of distances computed at once, so that temporaries stay small compared with the costs
_LARGEST_TOTAL = 2.0**49  # above it, sums of fractional weights and 1 are no longer exact


@dataclass(frozen=True)
class BoundedLipschitzProjection:
    """The nearest probability vector, with a function that proves that none is nearer."""

    probabilities: Floats  # (v,)
    distance: float  # BL(weights - probabilities)
    gap: float  # distance minus the bound that the witness proves; zero up to the rounding of distances to 2^-39
    created: float  # probability that was created because less than 1 of the positive weight could be kept
    witness: Floats  # (v,): f with |f| <= 1, 1-Lipschitz, and weights @ f - max f = distance - gap


@dataclass(frozen=True)
class BoundedLipschitzResult(Selection):
    """The draws, and the distance of the noisy histogram from the distribution they were drawn from."""

    distance: float
    gap: float
    created: float


class _Solution(NamedTuple):
    cost: float
    kept: Floats  # (v,): weight that stays where it is and becomes probability
    witness: Floats  # (v,)


def bounded_lipschitz_distance(points: Points, signed: NoisyVotes | Floats) -> float:
    """BL(signed) = max of sum_x f(x) signed_x over all 1-Lipschitz f with values in [-1, 1].

    Give the difference of two measures for the distance between them (Section "Proof Outline"). `points` is
    (v, d), `signed` (v,). Distances are rounded to 2^-39, which moves the result by less than 1e-12 of the
    sum of |signed|.
    """
    return _solve(points, _checked(points, signed), keep=0.0).cost


def bounded_lipschitz_projection(points: Points, weights: NoisyVotes | Floats) -> BoundedLipschitzProjection:
    """Find the probability vector p on the points that minimises BL(weights - p) (Algorithm 3, l. 11).

    p keeps some of the positive weight where it is. If less than 1 can be kept, the rest is created, at the same cost
    anywhere: it is added to p in proportion, or, if nothing can be kept, evenly to the points of largest weight.
    `points` is (v, d), `weights` (v,).
    """
    w = _checked(points, weights)
    solution = _solve(points, w, keep=1.0)
    kept = solution.kept
    total = float(kept.sum())
    spread = kept if total > 0 else (w == w.max()).astype(np.float64)
    f = solution.witness
    return BoundedLipschitzProjection(
        probabilities=spread / spread.sum(),
        distance=solution.cost,
        gap=solution.cost - float(w @ f - f.max()),
        created=1.0 - total,
        witness=f,
    )


def _checked(points: Points, weights: NoisyVotes | Floats) -> Floats:
    """Check points and weights, and return the weights in float64."""
    w = np.asarray(weights, dtype=np.float64)
    if np.ndim(points) != 2 or w.shape != np.shape(points)[:1] or not len(w):
        raise InputError(
            f"points must be (v, d) and weights (v,) with v >= 1, got {np.shape(points)} and {w.shape}; "
            "give one weight per point"
        )
    if not np.isfinite(points).all() or not np.isfinite(w).all():
        raise InputError("points and weights must be finite, got NaN or infinity; drop those candidates")
    if np.abs(w).sum() > _LARGEST_TOTAL:
        raise InputError(
            f"weights must sum to at most 2^49 in absolute value, got {np.abs(w).sum():.3g}; "
            "divide votes by the number of records"
        )
    return w


def _solve(points: Points, weights: Floats, keep: float) -> _Solution:
    """Solve the transportation problem of this module's docstring; `keep` is the demand of "kept", 1 or 0."""
    # On one grid with `keep`, so that every flow is exact and rounding leaves no remainder.
    w = flow.weights_on_grid(np.append(weights, 1.0))[:-1]
    sources, sinks = np.flatnonzero(w > 0), np.flatnonzero(w < 0)
    p, q = len(sources), len(sinks)
    demand = np.append(-w[sinks], [keep] if keep else [])
    if not len(demand):
        return _Solution(float(w.sum()), np.zeros(len(w)), np.ones(len(w)))
    costs = np.ones((p + 1, len(demand)))  # the creator is the last source, "kept" the last sink
    for low in range(0, p, _ROWS):
        rho = distances(points[sources[low : low + _ROWS]], points[sinks])
        costs[low : low + len(rho), :q] = flow.on_grid(np.minimum(rho, _FARTHEST), _FARTHEST)
    costs[:p, q:] = 0.0
    # One unit more than all demand, so that some stays unused: this fixes the creator's potential at zero.
    supply = np.append(w[sources], demand.sum() + 1.0)
    net = flow.network(costs, supply, demand, np.append(np.ones(p), 0.0))
    flow.optimise(net)
    kept = np.zeros(len(w))
    if keep:
        kept[sources] = _flow_into(net, p + 1 + q)[:p]
    return _Solution(
        cost=float(flow.total_cost(net)),
        kept=kept,
        witness=_witness(points, points[sinks], net.potential[p + 1 : p + 1 + len(demand)]),
    )


def _flow_into(net: Network, sink: int) -> Floats:
    """Return the flow from each source to `sink`. A tree arc belongs to its lower node, which may be either end."""
    sources = len(net.root_costs)
    sent = np.where(net.parent[:sources] == sink, net.flow[:sources], 0.0)
    above = int(net.parent[sink])
    if above < sources:
        sent[above] = net.flow[sink]
    return sent


def _witness(points: Points, sinks: Points, potential: Floats) -> Floats:
    """Extend the sinks' potentials to all points: the largest 1-Lipschitz function below them, and below 1."""
    q = len(sinks)
    f: Floats = np.full(len(points), potential[q:].min(initial=1.0))
    for low in range(0, len(points) if q else 0, _ROWS):
        block = f[low : low + _ROWS]
        through = distances(points[low : low + _ROWS], sinks) + potential[:q]
        np.minimum(block, through.min(axis=1), out=block)
    return np.maximum(f, -1.0, out=f)


@dataclass(frozen=True)
class BoundedLipschitz:
    """Algorithm 3's selector: draws from the projection of the noisy histogram (l. 9-12).

    `records` is n, the number of votes cast, which turns them into the histogram H = votes / n. It is public under
    the paper's neighbouring relation, replacement of a record. Under another relation, give a public estimate.
    """

    records: int

    def __post_init__(self) -> None:
        if self.records != int(self.records) or self.records < 1:
            raise InputError(
                f"records must be a whole number of at least 1, got {self.records}; give the size of the private data"
            )

    def __call__(
        self, votes: NoisyVotes, points: Points, size: int, rng: np.random.Generator
    ) -> BoundedLipschitzResult:
        """Draw `size` candidates, independently and with replacement, from the projection of votes / records."""
        if size < 1:
            raise InputError(f"size must be at least 1, got {size}; ask for one sample or more")
        projection = bounded_lipschitz_projection(points, np.asarray(votes) / self.records)
        drawn = rng.choice(len(votes), size=size, replace=True, p=projection.probabilities)
        return BoundedLipschitzResult(drawn.astype(np.int64), projection.distance, projection.gap, projection.created)
