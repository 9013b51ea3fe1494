import gc
import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from multiprocessing.context import ForkServerContext
from multiprocessing.forkserver import ensure_running
from pathlib import Path

import pytest

from faulty_server import FaultyServer
from shared_minilm import share


def pytest_configure() -> None:
    """Take interrupts also where a shell has started the tests in the background, which ignores them."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


# The files that take longest, in that order. `./check` hands out files one by one, and a long one that comes last keeps
# one core waiting for the other. The first three wait, or need no kernels, while `./check` compiles those.
LONGEST = (
    "runs/test_batches.py",
    "language/test_openvino.py",
    "language/test_embedded.py",
    "fuzz/test_fuzz.py",
    "project/test_long_pages.py",
    "project/test_docs.py",
    "whole/test_planted_bugs.py",
    "cli/test_text.py",
    "modalities/rows/test_runs.py",
    "whole/test_faults.py",
    "cli/test_demo.py",
    "_support/test_silence.py",
    "runs/test_synthesize.py",
    "language/test_batched.py",
    "report/test_browser.py",
    "evaluation/compare/test_texts.py",
    "language/test_openai.py",
    "voting/test_streamed.py",
    "evaluation/compare/test_pool.py",
    "modalities/rows/test_survey_runs.py",
    "generators/images/test_captions.py",
    "whole/test_crash.py",
    "cli/test_compare.py",
    "project/test_tutorial.py",
    "selection/test_local_search.py",
    "audit/test_mechanism.py",
    "modalities/mixed/test_runs.py",
    "privacy/test_noise.py",
    "selection/flow/test_objective.py",
    "whole/test_secrets.py",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the longest files first."""
    rank = {Path(__file__).parent / name: position for position, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path, len(rank)))


def pytest_collection() -> None:
    """Look for no garbage while all tests are imported: little is, and looking through the rest takes a second."""
    gc.disable()


def pytest_collection_finish() -> None:
    """Set aside what importing all tests has made, so that no later collection looks through it."""
    gc.collect()
    gc.freeze()
    gc.enable()


@pytest.fixture(scope="module", autouse=True)
def collected() -> Iterator[None]:
    """Let go of what tracebacks of a file's tests still hold, ledgers above all: another thread may not close them.

    What is left stays for good, most of it libraries, and is set aside: looking through it after each file would take
    a fifth of a second.
    """
    yield
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def processes() -> ForkServerContext:
    """Processes forked from a server that has everything imported, compiled and warm."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["crashing_server"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))  # the server does not inherit sys.path
        ensure_running()
    return context


@pytest.fixture(scope="session", autouse=True)
def own_state(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Keep the key that seals run folders out of the home of whoever runs the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GAPE_STATE", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture
def serve() -> Iterator[Callable[..., FaultyServer]]:
    """Start servers that fail as asked, and stop them after the test."""
    with ExitStack() as servers:
        yield lambda *faults, **settings: servers.enter_context(FaultyServer(faults, **settings))


@pytest.fixture
def without_matplotlib(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of a comparison take longer than a small comparison; others test them, in every shape they have."""
    monkeypatch.setitem(sys.modules, "matplotlib", None)


@pytest.fixture(scope="session", autouse=True)
def one_minilm() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        share(patch)
        yield
