"""Imported once, by the server that the doomed processes of `crashing` are forked from.

The run here loads the compiled code, so that they need not load it each.
"""

import tempfile
from pathlib import Path

import crashing  # noqa: F401  (for the processes)
import parts
from gape.privacy.ledger import Ledger

with tempfile.TemporaryDirectory() as folder:
    parts.small_run(Path(folder) / "run", Ledger(":memory:", parts.BUDGET))
