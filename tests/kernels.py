"""Compile the kernels and keep them on disk: python tests/kernels.py.

`./check` does so while it installs the rest and checks types, on the core that would be idle. The two processes of the
tests would otherwise both compile the same kernels.
"""

import gc

import numpy as np

from gape.metrics.balls import recall
from gape.selection.flow.blocked import BlockedSearch
from gape.selection.flow.objective import signed_points
from gape.selection.flow.search import Search
from gape.voting.nearest import nearest_votes
from gape.voting.several import several_nearest


def main() -> None:
    gc.disable()  # looking for garbage would take a tenth of the time
    rng = np.random.default_rng(0)
    points = rng.standard_normal((200, 3), dtype=np.float32)
    signed = signed_points(points, rng.integers(-3, 9, len(points)).astype(np.float64), np.inf)
    candidates, start = np.arange(100), np.arange(10)
    for precision in (np.float64, np.float32):
        Search(signed, candidates, start, precision).run(certify=True)
    BlockedSearch(signed, candidates, start, 1e9).run(certify=False)
    nearest_votes(points, points[:20])
    several_nearest(points, points[:20], 2)
    recall(points, points[:50])


if __name__ == "__main__":
    main()
