"""Runs through the Batch API: stopped, killed, failing in part and expiring, they end as without batches."""

import math
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from batch_server import BatchServer
from command import gape, one_line_error
from faulty_server import FaultyServer
from gape.core.errors import InputError, RunError
from gape.language import batched
from gape.language.request import Request
from gape.runs.settings import Settings
from gape.runs.synthesize import resume, run_text
from generators.writing import write
from made_up import PROMPTS, leaks, private_rows, write_csv


def in_sentences(prompt: str, seed: int) -> str:
    return write(Request(prompt, seed=seed))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("_FIRST_LOOK", "_LONGEST_PAUSE"):
        monkeypatch.setattr(batched, name, 0.01)
    (tmp_path / "prompts.toml").write_text(PROMPTS)
    return write_csv(tmp_path / "reviews.csv", private_rows())


@pytest.fixture
def server() -> Iterator[BatchServer]:
    with BatchServer(answer=in_sentences) as server:
        yield server


def through(url: str, data: Path, **values: Any) -> Settings:
    small = {"epsilon": math.inf, "samples": 8, "rounds": 2, "copies": 3, "text": "review", "selector": "ranking"}
    service = {"generator": "openai:tiny", "base_url": url, "prompts": str(data.parent / "prompts.toml"), "batch": True}
    return Settings.of(small, service, {"data": str(data), "exact_votes_may_leave": True, **values})


@pytest.fixture
def expected(data: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The result without batches."""
    monkeypatch.setattr("faulty_server.answer_to", in_sentences)
    with FaultyServer() as plain:
        return run_text(through(plain.url, data, batch=False), data.parent / "plain").texts


@pytest.mark.parametrize("fault", ["", "partly", "expiring", "lost"])
def test_a_run_in_batches_ends_as_one_without(data: Path, server: BatchServer, expected: list[str], fault: str) -> None:
    if fault:
        setattr(server, fault, (0, 2))
    said = []
    result = run_text(through(server.url, data), data.parent / "run", progress=lambda now: said.append(now.doing))
    assert result.texts == expected
    assert set(server.paid.values()) == {1}
    assert server.direct == 0
    assert "waiting for a batch of the service" in said
    assert leaks(data.parent, data) == []


def test_a_run_killed_while_it_waits_resumes_with_the_answers(
    data: Path, server: BatchServer, expected: list[str]
) -> None:
    """Twice by SIGKILL, in other rounds, and the batch ends while no process runs."""
    folder = data.parent / "run"
    settings = data.parent / "run.toml"
    chosen = through(server.url, data)
    settings.write_text(chosen.as_toml())
    command = [sys.executable, "-m", "gape", "run", str(data), "--settings", str(settings), "--out", str(folder)]
    for batches in (1, 3):
        server.held = True
        while_waiting = [*command, "--exact-votes-may-leave"]
        with subprocess.Popen(while_waiting, stderr=subprocess.PIPE, env=os.environ | {"COLUMNS": "200"}) as process:
            until = time.monotonic() + 120
            while not (len(server.batches) >= batches and list(server.batches.values())[-1]["seen"]):
                server.held = len(server.batches) >= batches
                assert process.poll() is None, process.communicate()[1].decode()
                assert time.monotonic() < until
                time.sleep(0.05)
            process.send_signal(signal.SIGKILL)
        server.held = False
    assert resume(folder, exact_votes_may_leave=True).texts == expected
    assert set(server.paid.values()) == {1}


def test_batches_are_fixed_for_a_run_and_need_a_service(data: Path, server: BatchServer) -> None:
    with pytest.raises(InputError, match="batch is for openai:MODEL, got generator 'embedded'; leave it out"):
        Settings.of({"batch": True})
    server.held = True
    folder = data.parent / "run"

    def interrupt(now: Any) -> None:
        if now.doing.startswith("waiting"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_text(through(server.url, data), folder, progress=interrupt)
    with pytest.raises(RunError, match="was started with batch True, not False"):
        run_text(through(server.url, data, batch=False), folder)  # what is under way would be paid for again


def test_the_plan_shows_half_the_price(data: Path) -> None:
    flags = [data, "--text", "review", "--epsilon", 4, "--generator", "openai:tiny"]
    flags += ["--prompt-price", 20, "--completion-price", 100, "--samples", 20]
    costs = {}
    for batch in ([], ["--batch"]):
        shown = gape("plan", *flags, *batch)
        assert shown.exit_code == 0, shown.stderr
        line = next(line for line in shown.stdout.splitlines() if line.startswith("cost"))
        costs[bool(batch)] = float(line.split()[2].rstrip(","))
        assert ("half price" in line) == ("within a day" in " ".join(shown.stdout.split())) == bool(batch)
    assert costs[True] == pytest.approx(costs[False] / 2, rel=0.02)
    assert "batch is for openai:MODEL" in one_line_error(gape("plan", data, "--epsilon", 4, "--batch"))
