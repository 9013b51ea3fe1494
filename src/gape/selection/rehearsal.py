"""Compiling the kernels of a selection in the background, before their first use on a machine."""

import contextlib
from threading import Thread

import numpy as np

from gape.core.errors import InputError
from gape.core.protocols import Selector

_SMALL, _LARGE = 300, 5_000  # numbers of points for which distances are kept in float64 and in float32


def rehearse(selector: Selector, candidates: int) -> Thread:
    """Let `selector` select among made-up points in the background, with the kernels for this number of candidates.

    At its first use on a machine the local search takes half a minute to compile. A run has that time while texts are
    embedded and written. Afterwards the kernels are loaded from the cache in less than a second.
    """
    rng = np.random.default_rng(0)
    points = rng.normal(size=(_SMALL if candidates < _LARGE else _LARGE, 2)).astype(np.float32)
    votes = np.ones(len(points), dtype=np.int64)
    votes[::25], votes[1::500] = 9, -3  # few candidates and few negative votes reach every kernel in the least time

    def run() -> None:
        with contextlib.suppress(InputError):  # a rule that refuses such points has nothing to compile
            selector(votes, points, 3, rng)

    thread = Thread(target=run, name="gape-rehearsal", daemon=True)
    thread.start()
    return thread
