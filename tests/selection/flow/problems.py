"""Small transportation problems in exact arithmetic, for the tests of the flow and of what is built on it."""

import numpy as np

from gape.core.types import Floats
from gape.selection.flow import simplex as flow
from gape.selection.flow.tree import Network

INF = float("inf")


class Problem:
    """A transportation problem whose costs and weights are small multiples of 1/8: every sum is exact."""

    def __init__(self, rng: np.random.Generator, sources: int, sinks: int) -> None:
        self.rng = rng
        self.ties = int(rng.choice([2, 5, 1000]))  # few distinct costs: many ties and degenerate pivots
        self.costs = self.draw((sources, sinks))
        self.supply = rng.integers(1, 6, sources).astype(np.float64)
        self.demand = np.zeros(sinks)
        if sinks:
            spare = 0 if rng.random() < 0.3 else int(rng.integers(0, 8))
            self.demand[:] = rng.integers(1, 4, sinks)
            self.supply[0] += max(0.0, self.demand.sum() + spare - self.supply.sum())

    def draw(self, shape: tuple[int, ...]) -> Floats:
        return self.rng.integers(0, self.ties, shape) / 8

    def solved(self, root_costs: Floats) -> Network:
        net = flow.network(self.costs, self.supply, self.demand, root_costs)
        flow.optimise(net)
        return net

    def optimum(self, root_costs: Floats) -> float:
        return flow.total_cost(self.solved(root_costs))

    def certify(self, net: Network, root_costs: Floats) -> None:
        """Check that the tree is strongly feasible and its flow optimal; all of it exactly."""
        p, q = self.costs.shape
        root = p + q
        parent, u, v = net.parent, net.potential[:p], net.potential[p:root]
        shipped, kept = np.zeros((p, q)), np.zeros(p)
        for node in range(root):
            assert net.depth[node] == net.depth[parent[node]] + 1
            if node < p and parent[node] == root:
                kept[node] = net.flow[node]
                assert u[node] == root_costs[node]
            else:
                assert parent[node] != root  # a sink fed by the root: an artificial arc
                x, y = (node, parent[node] - p) if node < p else (parent[node], node - p)
                shipped[x, y] += net.flow[node]
                assert u[x] == self.costs[x, y] + v[y]
        assert np.all(net.flow >= 0)
        assert np.all(net.flow[p:root] > 0)  # Cunningham: an arc without flow points to the root
        np.testing.assert_array_equal(kept + shipped.sum(axis=1), self.supply)
        np.testing.assert_array_equal(shipped.sum(axis=0), self.demand)
        np.testing.assert_array_equal(net.root_costs, root_costs)
        np.testing.assert_array_equal(flow.root_flow(net), kept)
        around = (self.costs + v).min(axis=1, initial=INF)
        assert np.all(u <= np.minimum(root_costs, around))  # no arc is violated
        primal = np.sum(shipped * self.costs) + kept @ root_costs
        assert flow.total_cost(net) == primal == self.supply @ u - self.demand @ v


def problems(seed: int, count: int) -> list[Problem]:
    rng = np.random.default_rng(seed)
    return [Problem(rng, int(rng.integers(1, 15)), int(rng.integers(0, 12))) for _ in range(count)]
