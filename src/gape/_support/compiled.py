"""Compiling numba kernels, and running them on all cores."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])
Tool = TypeVar("Tool")
Piece = TypeVar("Piece")
Result = TypeVar("Result")

# Keeps types for the checker, caches on disk, releases the interpreter lock.
compiled = cast(Callable[[F], F], numba.njit(cache=True, nogil=True))


def threads() -> int:
    """Return the number of worker threads: NUMBA_NUM_THREADS, or one per core."""
    return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]  # made when numba is imported


def in_threads(work: Callable[[Tool, Piece], Result], tools: Sequence[Tool], pieces: Iterable[Piece]) -> list[Result]:
    """Run `work` on each piece with one of the tools, in as many threads as there are tools. Results keep their order.

    No two pieces use a tool at the same time, so a tool may hold the memory that a kernel writes to.
    """
    waiting = list(pieces)
    if len(waiting) == 1 or len(tools) == 1:
        return [work(tools[0], piece) for piece in waiting]
    idle: SimpleQueue[Tool] = SimpleQueue()
    for tool in tools:
        idle.put(tool)

    def do(piece: Piece) -> Result:
        tool = idle.get()
        try:
            return work(tool, piece)
        finally:
            idle.put(tool)

    with ThreadPoolExecutor(len(tools)) as pool:
        return list(pool.map(do, waiting))
