"""Nothing talks unless asked: whole local runs, under a kernel that kills whoever turns to another machine."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gape._support.silence import SWITCHES
from gape.language.weights import USUAL, cache_folder, fetch
from made_up import private_rows, write_corpus, write_csv
from small_model import FOLDER

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")

GUARD = Path(__file__).parents[1] / "sockets.py"
# Little else: neither the switches that are under test, nor CI, by which some libraries know that nobody is there.
KEPT = {name: os.environ[name] for name in ("PATH", "PYTHONPATH", "LD_LIBRARY_PATH") if name in os.environ}


@pytest.fixture(scope="module", autouse=True)
def weights() -> None:
    """Fetch the models that the runs use, which cannot be fetched under the guard."""
    for model in USUAL:
        fetch(model)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    write_csv(tmp_path / "reviews.csv", private_rows())
    write_corpus(tmp_path / "public.txt")
    (tmp_path / "home").mkdir()
    (tmp_path / "tmp").mkdir()
    return tmp_path


def guarded(here: Path, *command: object, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command of Python under the guard, with a home of its own, in which whatever a library leaves is seen."""
    environment = KEPT | {
        "HOME": str(here / "home"),
        "TMPDIR": str(here / "tmp"),
        "XDG_CACHE_HOME": str(here / "home" / ".cache"),
        "GAPE_CACHE": str(cache_folder()),
        "OMP_NUM_THREADS": "1",
    }
    words = [sys.executable, GUARD, sys.executable, *command]
    return subprocess.run(
        list(map(str, words)),
        cwd=here,
        env=environment | variables,
        capture_output=True,
        text=True,
        check=False,
    )


IN_TURN = """
import json, sys
from gape.cli import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["gape", *words]
    try:
        main()
    except SystemExit as end:
        if end.code:
            raise
print("all done")
"""


def gape(here: Path, *commands: tuple[object, ...]) -> None:
    """Run commands one after the other in one process, under the guard."""
    done = guarded(here, "-c", IN_TURN, json.dumps([list(map(str, words)) for words in commands]))
    assert done.returncode == 0, (commands, done.returncode, done.stderr)
    assert done.stdout.endswith("all done\n")


def left_behind(here: Path) -> list[str]:
    """What telemetry leaves on disk, long before it sends anything."""
    places = [path for folder in ("home", "tmp") for path in (here / folder).rglob("*")]
    return [str(path) for path in places if "icrosoft" in str(path) or path.name == ".ses"]


@pytest.mark.parametrize(
    "code",
    [
        "socket.create_connection(('127.0.0.1', 9))",
        "socket.create_connection(('::1', 9))",
        "socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
        "socket.getaddrinfo('example.org', 80)",
        "socket.socket().sendto(b'', socket.MSG_FASTOPEN, ('127.0.0.1', 9))",
    ],
)
def test_the_guard_catches_what_turns_to_a_machine(here: Path, code: str) -> None:
    code = f"import socket; {code}"
    assert guarded(here, "-c", code).returncode == -signal.SIGSYS
    by_a_child = "import subprocess, sys; sys.exit(subprocess.run([sys.executable, '-c', sys.argv[1]]).returncode)"
    assert guarded(here, "-c", by_a_child, code).returncode == 256 - signal.SIGSYS


def test_the_guard_lets_processes_of_one_machine_talk(here: Path) -> None:
    code = "import socket; a, b = socket.socketpair(); a.send(b'x'); socket.create_server(('127.0.0.1', 0))"
    assert guarded(here, "-c", code).returncode == 0


def test_the_guard_sees_telemetry_that_nobody_turned_off(here: Path) -> None:
    guarded(here, "-c", "import onnxruntime")
    assert left_behind(here)


RUN = ("run", "reviews.csv", "--text", "review", "--epsilon", 4, "--rounds", 1, "--out", "run")
FEW = ("--samples", 3, "--copies", 1, "--scales", "0.5", "--words", 20)


@pytest.mark.parametrize(
    "made",
    [
        ("--generator", f"hf:{FOLDER}", "--prompts", "generic"),
        pytest.param(("--generator", "openvino", "--prompts", "yelp"), marks=pytest.mark.slow),
    ],
    ids=["hf", "openvino"],
)
def test_a_local_model_talks_to_nobody(here: Path, made: tuple[object, ...]) -> None:
    gape(here, (*RUN, *made, *FEW))
    assert left_behind(here) == []


def test_a_run_all_that_reads_it_and_the_demo_in_the_plane_talk_to_nobody(here: Path) -> None:
    gape(
        here,
        (*RUN, "--generator", "embedded", "--prompts", "yelp", *FEW),
        ("evaluate", "run", "--private", "reviews.csv", "--text", "review"),
        ("report", "run"),
        ("export", "run", "--format", "csv", "--out", "out.csv"),
        ("demo", "--clusters", "--out", "demo"),
    )
    assert (here / "out.csv").exists()
    assert left_behind(here) == []


@pytest.mark.slow
def test_the_demo_talks_to_nobody(here: Path) -> None:
    gape(here, ("demo", "--out", "demo"))
    assert left_behind(here) == []


def test_a_call_in_the_users_own_process_talks_to_nobody(here: Path) -> None:
    code = (
        "import gape\n"
        "made = gape.synthesize('reviews.csv', text='review', epsilon=4.0, samples=5, rounds=1, "
        "generator='corpus:public.txt')\n"
        "assert len(made) == 5"
    )
    done = guarded(here, "-c", code)
    assert done.returncode == 0, done.stderr
    assert left_behind(here) == []


def test_every_switch_is_set_before_any_library_is_imported_and_a_choice_is_respected(here: Path) -> None:
    code = "import os, gape; print([os.environ[name] for name in {names}])"
    done = guarded(here, "-c", code.format(names=list(SWITCHES)), DO_NOT_TRACK="0")
    assert done.stdout.strip() == str(list((SWITCHES | {"DO_NOT_TRACK": "0"}).values()))
