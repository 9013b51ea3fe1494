"""MiniLM loaded once in a process, and each text embedded once: what it does for one test it need not do for the next.

An embedding depends on the tokens of its text alone. `tests/embedders/test_minilm.py` shows that, by `unshared`.
"""

from typing import Any

import numpy as np
import pytest

from gape.core.types import Points
from gape.embedders.minilm import MiniLM, Tokens
from gape.language.weights import MINILM, fetch

_OWN = {name: vars(MiniLM)[name] for name in ("__init__", "_run")}
_loaded: dict[tuple[int, str], dict[str, Any]] = {}
_rows: dict[bytes, Points] = {}


def share(patch: pytest.MonkeyPatch) -> None:
    """Have all MiniLMs of this process use the same weights, and remember what they say."""
    patch.setattr(MiniLM, "__init__", _load)
    patch.setattr(MiniLM, "_run", _run)


def unshared(patch: pytest.MonkeyPatch) -> None:
    """Have MiniLM as it is."""
    for name, own in _OWN.items():
        patch.setattr(MiniLM, name, own)


def _load(self: MiniLM, max_tokens: int = 256) -> None:
    key = (max_tokens, str(fetch(MINILM)))
    if key not in _loaded:
        _OWN["__init__"](self, max_tokens)
        _loaded[key] = dict(vars(self))
    vars(self).update(_loaded[key])


def _run(self: MiniLM, ids: Tokens) -> Points:
    keys = [row.tobytes() for row in ids]
    new = [i for i, key in enumerate(keys) if key not in _rows]
    if new:
        _rows.update(zip([keys[i] for i in new], _OWN["_run"](self, ids[new]), strict=True))
    return np.stack([_rows[key] for key in keys])
