"""Cores, threads and GPUs that this process may use, and blocks of work for them."""

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
_SIDE = 960  # rows and columns of a tile: larger tiles are no faster, and a power of two collides in the caches

# The limit on BLAS threads is per process: two concurrent calls would restore each other's limit.
_blas_limit = threading.Lock()


# Cap on the cores for this process.
_most = math.inf


def cores() -> int:
    """Return the number of cores this process may use, which can be fewer than the machine has."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return int(min(allowed, _most))


def use_at_most(count: int) -> None:
    """Limit this process to `count` cores at a time, for example when several processes share the machine."""
    global _most  # noqa: PLW0603  (a property of the process, like its cores)
    _most = count


def cuda() -> str | None:
    """Return the name of a GPU that torch can use, or None.

    Torch takes seconds to import, so it is imported only if a driver is installed.
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
    """Limit BLAS to one thread, for work that has its own threads or whose steps are too small to share."""
    with _blas_limit, _threadpools().limit(limits=1, user_api="blas"):
        yield


def blocks(n: int, threads: int, side: int) -> list[slice]:
    """Cut n rows into blocks of at most `side`. Their number is a multiple of `threads`, so that all end together."""
    count = threads * math.ceil(n / (threads * side))
    cuts = [n * i // count for i in range(count + 1)] if n else []
    return [slice(low, high) for low, high in itertools.pairwise(cuts) if low < high]


def tile_side(width: int, threads: int) -> int:
    """Choose the side s of a tile so that the threads, with s (s + 3 d) floats each, fit into the scratch memory."""
    floats = SCRATCH / 4 / threads
    return int(min(_SIDE, max(1.0, (np.sqrt(9.0 * width**2 + 4 * floats) - 3 * width) / 2)))


@functools.cache
def _threadpools() -> ThreadpoolController:
    """Find the BLAS libraries of this process. This takes a millisecond, so it is done once."""
    return ThreadpoolController()


def _loads(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True
