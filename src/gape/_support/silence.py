"""Turns off the telemetry of other libraries, before any of them is imported.

Some libraries send usage data by default, and this process holds private text. Variables that are already set stay
unchanged, because the user has decided.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

SWITCHES = {
    "ORT_DISABLE_TELEMETRY": "1",  # onnxruntime
    "RAY_USAGE_STATS_ENABLED": "0",
    "FLWR_TELEMETRY_ENABLED": "0",  # Flower
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "DISABLE_TELEMETRY": "1",  # older libraries of Hugging Face
    "DO_NOT_TRACK": "1",  # a convention that several libraries follow
}

for _name, _value in SWITCHES.items():
    os.environ.setdefault(_name, _value)


def without_telemetry(package: str) -> None:
    """Keep a package that sends usage data from being imported. The library that asks for it works without it."""
    sys.modules.setdefault(package, None)  # type: ignore[arg-type]  # marks what must not be imported


@contextmanager
def hub_unused_for(model: str | Path) -> Iterator[bool]:
    """Keep the Hugging Face libraries offline while a local model is loaded. Yields whether the model is local.

    They would otherwise ask the hub about names that they find in the model's files.
    """
    local = Path(model).expanduser().exists()
    if not local:
        yield False
        return
    import huggingface_hub  # noqa: PLC0415  (in an extra)

    constants: Any = huggingface_hub.constants
    before, constants.HF_HUB_OFFLINE = (
        constants.HF_HUB_OFFLINE,
        True,
    )  # read at each use; the environment variable is read once
    try:
        yield True
    finally:
        constants.HF_HUB_OFFLINE = before
