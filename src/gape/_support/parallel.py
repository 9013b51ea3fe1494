"""What there is to compute on: cores, all of them at once in blocks of work, and a GPU."""

import ctypes
import functools
import importlib
import itertools
import math
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from threadpoolctl import ThreadpoolController

_DRIVERS = ("libcuda.so.1", "nvcuda.dll")

SCRATCH = 64 * 2**20  # bytes over all threads
_SIDE = 960  # rows and columns of a tile: larger gains nothing, and a power of two collides in the caches

# The limit on BLAS threads belongs to the process: two calls at once would restore each other's.
_blas_limit = threading.Lock()


# Cores that this process leaves the others alone with, where it was told to.
_most = math.inf


def cores() -> int:
    """Count the cores this process may use, which can be fewer than the machine has."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(min(allowed, _most))


def use_at_most(count: int) -> None:
    """Have this process work on so many cores at a time, whichever are free: for one of several side by side."""
    global _most  # noqa: PLW0603  (it belongs to the process, as the cores do)
    _most = count


def cuda() -> str | None:
    """Return the name of a device that torch can compute on, or None.

    Torch takes seconds to import, so that the driver is looked for first.
    """
    if not any(_loads(driver) for driver in _DRIVERS):
        return None
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return None
    return "cuda" if torch.cuda.is_available() else None


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread: for work on threads of its own, or in steps too small to share."""
    with _blas_limit, _threadpools().limit(limits=1, user_api="blas"):
        yield


def blocks(n: int, threads: int, side: int) -> list[slice]:
    """Cut n rows into blocks of at most `side`, a multiple of the threads of them: all end together."""
    count = threads * math.ceil(n / (threads * side))
    cuts = [n * i // count for i in range(count + 1)] if n else []
    return [slice(low, high) for low, high in itertools.pairwise(cuts) if low < high]


def tile_side(width: int, threads: int) -> int:
    """Choose the side s of a tile so that what threads need, s (s + 3 d) floats each, fits the scratch."""
    floats = SCRATCH / 4 / threads
    return int(min(_SIDE, max(1.0, (np.sqrt(9.0 * width**2 + 4 * floats) - 3 * width) / 2)))


@functools.cache
def _threadpools() -> ThreadpoolController:
    """Find the BLAS of this process, which takes a millisecond, once."""
    return ThreadpoolController()


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
