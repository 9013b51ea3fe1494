"""Recovering from a full GPU, as happens when several processes share one.

Nothing is lost when a device runs out of memory. Work that did not fit is retried with a smaller batch, then after
waiting for other processes to free memory. Only work that still does not fit fails, with a one-sentence error.
"""

import gc
import importlib
import sys
import time
from typing import Any

from gape.core.errors import DeviceError

# Messages of the libraries below torch when they cannot allocate memory.
_SIGNS = ("out of memory", "cublas_status_alloc_failed", "cublas_status_not_initialized", "cudnn_status_alloc_failed")
_WAITS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)  # seconds, used when even a batch of one does not fit


def is_full(error: BaseException) -> bool:
    """Whether an error means that a device is out of memory."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(error, RuntimeError):
        return False
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error).lower() for sign in _SIGNS)


def free_bytes(device: Any) -> int:
    """Return the bytes of a CUDA device that are free, or reserved by this process and not in use."""
    torch: Any = importlib.import_module("torch")
    free, _ = torch.cuda.mem_get_info(device)
    return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def let_go() -> None:
    """Return unused memory to the device, so that other processes can have it."""
    gc.collect()  # tracebacks hold tensors
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def refuse_full(error: BaseException, model: object) -> None:
    """Raise DeviceError if `model` could not be loaded because the device is full; return otherwise."""
    if is_full(error):
        raise DeviceError(
            f"the GPU has too little free memory to load {model}; stop other programs on it, or set "
            "CUDA_VISIBLE_DEVICES= to use the CPU"
        ) from None


class Pressure:
    """Batch size for a device that may be full. `batch` is halved each time it does not fit."""

    def __init__(self, batch: int, what: str) -> None:
        """Start with `batch`; `what` names the work in the final error message."""
        self.batch, self._what = batch, what
        self._waits = iter(_WAITS)

    def relieve(self, error: Exception, at_once: int) -> None:
        """Halve the batch after an error with `at_once` items, or wait. Other errors are raised."""
        if not is_full(error):
            raise error
        let_go()
        if (smaller := min(self.batch, at_once) // 2) >= 1:
            self.batch = smaller
            return
        wait = next(self._waits, None)
        if wait is None:
            raise DeviceError(
                f"the GPU has too little free memory for {self._what}, even one at a time and after waiting "
                f"{sum(_WAITS):.0f} seconds; stop other programs on it, or set CUDA_VISIBLE_DEVICES= to use the CPU"
            ) from None
        time.sleep(wait)
