"""Several processes read what one would, and whatever becomes of them nothing is lost."""

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from gape.core.types import as_samples
from gape.generators import asking, reading
from gape.generators.prompts import load
from gape.generators.reading import Draft, Reading
from gape.generators.resampled import ResampledText
from gape.language.request import Completion, Request
from gape.language.scripted import ScriptedModel

TEXTS = [
    "Lungs were studied in mice. Half of them recovered. The others did not.",
    "Hearts beat. Kidneys filter blood.",
]


def shout(suffix: str, completion: Completion) -> str | None:
    """Read an answer: where it has words, in capitals."""
    return completion.text.upper() + suffix if completion.text else None


def stumble(completion: Completion) -> str | None:
    """Fail where an answer is read."""
    raise ZeroDivisionError(completion.text)


def drafts(count: int) -> list[Draft]:
    return [Draft(Request(f"prompt {i}"), partial(shout, f"-{i}")) for i in range(count)]


def read_all(some: list[Draft], processes: int) -> list[str | None]:
    with Reading(some, processes) as found:
        for place in reversed(range(len(some))):
            found.take(place, Completion(f"answer {place}" if place % 3 else ""))
        found.settle()
    return found.texts


@pytest.mark.parametrize("count", [0, 1, 3, 200])
def test_processes_read_what_one_would(count: int) -> None:
    some = drafts(count)
    expected = [f"ANSWER {place}-{place}" if place % 3 else None for place in range(count)]
    assert read_all(some, 0) == read_all(some, 3) == expected


def test_a_generator_writes_the_same_texts_with_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = as_samples(TEXTS * 40)
    scales = np.tile([0.2, 0.9], 40)

    def answer(request: Request) -> str:
        return f" Number {request.seed % 1000} was found in the liver. It was large." if request.seed % 5 else ""

    def vary() -> list[str]:
        generator = ResampledText(ScriptedModel(answer), load("pubmed"))
        varied: list[str] = generator.vary(samples, scales, np.random.default_rng(0)).tolist()
        return varied

    alone = vary()
    monkeypatch.setattr(asking, "Reading", partial(Reading, processes=2))
    assert vary() == alone
    assert len(set(alone)) > 40


def test_the_share_of_a_process_that_ends_is_read_here() -> None:
    some = drafts(300)
    with Reading(some, 2) as found:
        for place in range(150):
            found.take(place, Completion("early"))
        found._readers[0]._process.kill()
        for place in range(150, 300):
            found.take(place, Completion("late"))
        found.settle()
    assert found.texts == [f"{'EARLY' if place < 150 else 'LATE'}-{place}" for place in range(300)]


def test_drafts_that_cannot_be_sent_are_read_here() -> None:
    some = [Draft(Request("prompt"), lambda completion: completion.text + "!") for _ in range(70)]
    assert read_all(some, 1)[1] == "answer 1!"


def test_an_error_in_reading_is_raised_where_it_was_asked_for() -> None:
    some = [Draft(Request("prompt"), stumble)]
    with Reading(some, 1) as found:
        found.take(0, Completion("text"))
        with pytest.raises(ZeroDivisionError):
            found.settle()


def test_where_no_process_can_be_started_all_is_read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    class NoMore(subprocess.Popen[bytes]):
        def __init__(self, *_: object, **__: object) -> None:
            raise BlockingIOError

    monkeypatch.setattr(subprocess, "Popen", NoMore)
    assert read_all(drafts(3), 2) == [None, "ANSWER 1-1", "ANSWER 2-2"]


def test_nothing_is_left_running() -> None:
    with Reading(drafts(2), 2) as found:
        found.take(0, Completion("text"))  # and nobody waits for it
    assert all(reader._process.poll() is not None for reader in found._readers)


@pytest.mark.parametrize(("count", "cores", "processes"), [(4096, 16, 8), (4096, 6, 3), (4095, 16, 0), (4096, 3, 0)])
def test_processes_are_used_for_many_drafts_where_there_are_cores(
    count: int, cores: int, processes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "cores", lambda: cores)
    with Reading(drafts(1) * count) as found:
        assert len(found._readers) == processes


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL there")
def test_processes_end_with_whoever_started_them_and_leave_its_script_alone(tmp_path: Path) -> None:
    script = tmp_path / "script.py"  # with no guard around what it does, as many have none
    script.write_text(
        "import os, signal, sys\n"
        "from gape.generators.reading import Draft, Reading\n"
        "print('once', flush=True)\n"
        "reading = Reading([], 1)\n"
        "print(reading._readers[0]._process.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    ended = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL
    once, process = ended.stdout.split()
    assert once == "once"
    for _ in range(200):
        if not is_running(int(process)):
            return
        time.sleep(0.05)
    pytest.fail("the process still runs")


def is_running(process: int) -> bool:
    """Whether a process runs, which one that nobody has waited for does not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    state = Path(f"/proc/{process}/stat")
    return not state.exists() or state.read_text().rpartition(")")[2].split()[0] != "Z"
