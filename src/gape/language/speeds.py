"""The speed of embedded models on this machine, measured once and kept in the cache."""

import time
from pathlib import Path

from gape._support.files import read_json, write_json
from gape.core.errors import RunError
from gape.language.embedded import EmbeddedModel
from gape.language.request import Request
from gape.language.weights import Weights, cache_folder

_PROMPT = "Tell people on an internet forum, in a few sentences, about something in your life, and ask what they think."
_REQUESTS, _TOKENS = 32, 48


def measure(weights: Weights) -> float:
    """Measure and store how many tokens per second the fetched model writes, prompts included in the time."""
    model = EmbeddedModel(weights.path)
    requests = [Request(_PROMPT, max_tokens=_TOKENS, seed=seed) for seed in range(_REQUESTS)]
    begin = time.perf_counter()
    written = sum(completion.completion_tokens for _, completion in model.complete(requests))
    speed = written / (time.perf_counter() - begin)
    write_json(_file(), {**known_speeds(), weights.sha256: round(speed, 1)})
    return speed


def known_speeds() -> dict[str, float]:
    """Return the measured speeds by the SHA-256 of the model file."""
    try:
        stored = read_json(_file())
    except (OSError, ValueError, RunError):
        return {}
    return {str(key): float(value) for key, value in stored.items()} if isinstance(stored, dict) else {}


def _file() -> Path:
    return cache_folder() / "speeds.json"
