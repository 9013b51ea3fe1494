"""A GPU that is full, as one is that several processes share.

Nothing is lost when a device runs out of memory: what did not fit is tried again with less at once, then after waiting
for other processes to let go of theirs. Only what does not fit at all stops, in one sentence.
"""

import gc
import importlib
import sys
import time
from typing import Any

from gape.core.errors import DeviceError

# Beside torch's own error, what the libraries below it say when they cannot have memory.
_SIGNS = ("out of memory", "cublas_status_alloc_failed", "cublas_status_not_initialized", "cudnn_status_alloc_failed")
_WAITS = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)  # seconds, where even the least does not fit


def is_full(error: BaseException) -> bool:
    """Whether an error says that a device has too little memory."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not isinstance(error, RuntimeError):
        return False
    return isinstance(error, torch.OutOfMemoryError) or any(sign in str(error).lower() for sign in _SIGNS)


def free_bytes(device: Any) -> int:
    """Count the memory of a CUDA device that is free, or held by this process and not in use."""
    torch: Any = importlib.import_module("torch")
    free, _ = torch.cuda.mem_get_info(device)
    return int(free + torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device))


def let_go() -> None:
    """Give memory that is not in use back to the device, where other processes can have it."""
    gc.collect()  # tracebacks hold tensors
    torch: Any = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


def refuse_full(error: BaseException, model: object) -> None:
    """Raise DeviceError if `model` could not be loaded because the device is full; return for other errors."""
    if is_full(error):
        raise DeviceError(
            f"the GPU has too little free memory to load {model}; stop other programs on it, or hide it by "
            "CUDA_VISIBLE_DEVICES= to use the processor"
        ) from None


class Pressure:
    """How much to try at once on a device that may be full: `batch`, which halves each time it does not fit."""

    def __init__(self, batch: int, what: str) -> None:
        """Begin with `batch`; `what` names the work in the final error message."""
        self.batch, self._what = batch, what
        self._waits = iter(_WAITS)

    def relieve(self, error: Exception, at_once: int) -> None:
        """Shrink the batch after an error with so many at once, or wait; raise errors that are not a lack of memory."""
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
                f"{sum(_WAITS):.0f} seconds; stop other programs on it, or hide it by CUDA_VISIBLE_DEVICES= to use the "
                "processor"
            ) from None
        time.sleep(wait)
