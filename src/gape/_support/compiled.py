"""Compiling numba kernels, and running them on all cores."""

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, TypeVar, cast

import numba
from numba.extending import register_jitable
from numpy.typing import NDArray

F = TypeVar("F", bound=Callable[..., object])
Tool = TypeVar("Tool")
Piece = TypeVar("Piece")
Result = TypeVar("Result")

# Keeps types for the checker, caches on disk, releases the interpreter lock.
compiled = cast(Callable[[F], F], numba.njit(cache=True, nogil=True, no_cfunc_wrapper=True))
# The same for a function that only kernels call. It has no entry from Python, which would take longer to compile than
# the function; called from Python, it is interpreted.
compiled_part = cast(Callable[[F], F], register_jitable(no_cfunc_wrapper=True))


@compiled_part
def overwrite(target: NDArray[Any], values: NDArray[Any]) -> None:
    """Do `target[:] = values` for equal lengths, in one dimension. This compiles in a fraction of the time."""
    for i in range(target.shape[0]):
        target[i] = values[i]


def threads() -> int:
    """Return the number of worker threads: NUMBA_NUM_THREADS, or one per core."""
    return int(numba.config.NUMBA_NUM_THREADS)


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
