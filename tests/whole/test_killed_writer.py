"""A run with the engine of a process per core that is killed while it writes, and resumed."""

import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from gape.language.openvino import _Engine
from gape.language.request import Request
from gape.language.stored import stored_tokens
from gape.runs.folder.layout import Layout
from gape.runs.settings import Settings
from gape.runs.synthesize import run_text

# Noise so small that it is always zero, so that runs can be compared.
VALUES = {"epsilon": 1e6, "samples": 4, "rounds": 1, "words": 12, "seed": 3, "generator": "openvino"}
TEXTS = [f"The {dish} was {how}, the waiter kind." for dish in ("soup", "bread", "cake") for how in ("hot", "bad")]
KILLED = f"""
import sys
from pathlib import Path
from gape.runs.settings import Settings
from gape.runs.synthesize import run_text

run_text(Settings.of({VALUES!r}), Path(sys.argv[1]), source={TEXTS!r})
"""


def run(folder: Path) -> list[str]:
    return run_text(Settings.of(VALUES), folder, source=TEXTS).texts


@pytest.mark.slow
def test_a_run_that_is_killed_while_it_writes_resumes_to_the_same_texts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: Counter[Request] = Counter()
    ask = _Engine.ask

    def counted(self: _Engine, index: int, request: Request) -> None:
        asked[request] += 1
        ask(self, index, request)

    monkeypatch.setattr(_Engine, "ask", counted)
    whole = run(tmp_path / "whole")
    answers, _ = stored_tokens(Layout(tmp_path / "whole").answers)
    assert answers == len(asked) == asked.total()

    killed, asked_whole = Layout(tmp_path / "killed"), set(asked)
    with subprocess.Popen([sys.executable, "-c", KILLED, killed.path]) as process:
        while process.poll() is None and stored_tokens(killed.answers)[0] < answers // 2:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    before, _ = stored_tokens(killed.answers)
    assert answers // 2 <= before < answers
    asked.clear()
    assert run(killed.path) == whole
    assert set(asked) < asked_whole
    assert asked.total() == answers - before
