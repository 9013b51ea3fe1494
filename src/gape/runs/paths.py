"""Settings that contain paths, and what makes these absolute."""

import os
from pathlib import Path
from typing import Any

WITH_PATHS = ("data", "ledger", "key_file", "schema", "prompts", "generator", "also", "painter", "embedder")


def anchored(name: str, value: Any) -> Any:
    """Return the value of a setting with its path made absolute; other values are returned unchanged."""
    if not value or name not in WITH_PATHS or value == ":memory:":
        return value
    if name == "also":
        return tuple(anchored("generator", spec) for spec in value)
    if name in {"data", "ledger"}:
        return os.path.realpath(value)  # terminates even if links form a cycle
    kind, colon, file = str(value).partition(":")
    if name in {"generator", "painter", "embedder"}:
        if kind.startswith("openai") or file.startswith("hub:"):
            return value
        is_path = kind == "corpus" or file.endswith(".gguf") or (bool(file) and Path(file).exists())
        return f"{kind}{colon}{Path(file).absolute()}" if is_path else value
    return value if name == "prompts" and not value.endswith(".toml") else str(Path(value).absolute())
