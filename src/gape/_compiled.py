"""The one way to compile a hot kernel: typed for the checker, cached on disk, outside the interpreter lock."""

from collections.abc import Callable
from typing import TypeVar, cast

import numba

F = TypeVar("F", bound=Callable[..., object])

compiled = cast(Callable[[F], F], numba.njit(cache=True, nogil=True))
