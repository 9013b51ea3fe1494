"""The one way to compile a hot kernel, and the one way to run it on all cores."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])
Tool = TypeVar("Tool")
Piece = TypeVar("Piece")
Result = TypeVar("Result")

# Typed for the checker, cached on disk, outside the interpreter lock. Nothing calls kernels from C, and leaving out the
# wrapper for it saves an eighth of the time to compile.
compiled = cast(Callable[[F], F], numba.njit(cache=True, nogil=True, no_cfunc_wrapper=True))


def threads() -> int:
    """Return how many threads share the work: one per core, or as many as NUMBA_NUM_THREADS says."""
    return int(numba.config.NUMBA_NUM_THREADS)  # type: ignore[attr-defined]  # made when numba is imported


def in_threads(work: Callable[[Tool, Piece], Result], tools: Sequence[Tool], pieces: Iterable[Piece]) -> list[Result]:
    """Do each piece of work with one of the tools, as many at a time as there are tools; results keep their order.

    No two pieces share a tool at the same time, so a tool may hold the memory that a kernel writes to.
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
