"""A key that a run uses is in none of the things that it leaves, says or shows."""

import logging
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

import pytest

from command import gape
from faulty_server import FaultyServer
from gape.core.errors import ServiceError
from gape.runs.settings import Settings
from gape.runs.synthesize import run_text
from made_up import PROMPTS, private_rows, write_csv

KEY = "sk-Marked53cret0815"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with data and prompts, where the key is in the environment."""
    write_csv(tmp_path / "reviews.csv", private_rows(40))
    (tmp_path / "prompts.toml").write_text(PROMPTS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MARKED_KEY", KEY)
    return tmp_path


def values(url: str) -> dict[str, object]:
    """Both the generator and the embedder are behind the service, and so are asked with the key."""
    return {
        "data": "reviews.csv",
        "text": "review",
        "epsilon": 4.0,
        "samples": 4,
        "rounds": 1,
        "copies": 1,
        "selector": "ranking",
        "generator": "openai:tiny",
        "embedder": "openai:tiny",
        "base_url": url,
        "key_variable": "MARKED_KEY",
        "prompts": "prompts.toml",
        "private_text_may_leave": True,
    }


def holders(folder: Path) -> list[str]:
    """Files that hold the key."""
    return [str(path) for path in folder.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()]


def test_a_run_with_a_key_file_leaves_its_key_nowhere_else(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MARKED_KEY")
    (here / "key").write_text(KEY)
    (here / "key").chmod(0o600)
    with FaultyServer(key=KEY) as server:
        run_text(Settings.of(values(server.url) | {"key_file": "key"}), here / "run")
    assert holders(here) == [str(here / "key")]


def test_a_run_leaves_its_key_nowhere(here: Path) -> None:
    with FaultyServer(key=KEY, delay=0.02) as server:
        Path("run.toml").write_text(Settings.of(values(server.url)).as_toml())
        command = [sys.executable, "-c", "from gape.cli import main; main()"]
        process = subprocess.Popen(
            [*command, "run", "--settings", "run.toml", "--private-text-may-leave"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        shown = b""
        while process.poll() is None and not server.bodies:
            time.sleep(0.05)
        if process.poll() is None:  # the title of a process can be read by everybody while it runs
            shown = Path(f"/proc/{process.pid}/cmdline").read_bytes() + Path(f"/proc/{process.pid}/comm").read_bytes()
        out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert len(server.bodies) > 4
    assert b"run.toml" in shown
    for said in (out, err, shown):
        assert KEY.encode() not in said
    later = [
        gape("status", "runs/reviews"),
        gape("export", "runs/reviews", "--format", "hf", "--out", "dataset"),
        gape("report", "runs/reviews", "--no-map"),
    ]
    for result in later:
        assert result.exit_code == 0, result.output
        assert KEY not in result.output
    assert holders(here) == []
    assert {path.name for path in here.rglob("*.html")} == {"report.html"}


def test_errors_show_no_key_even_with_their_variables(here: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A service that repeats the key in its refusal; a traceback as the tools write it that show all variables."""
    caplog.set_level(logging.DEBUG)
    with FaultyServer(key="another") as server:
        with pytest.raises(ServiceError, match="MARKED_KEY is wrong") as refused:
            run_text(Settings.of(values(server.url)), "runs/reviews")
        done = gape("run", "--settings", _written(server.url))
    shown = "".join(traceback.TracebackException.from_exception(refused.value, capture_locals=True).format())
    assert "base_url" in shown
    assert done.exit_code == 1
    for said in (shown, str(refused.value), caplog.text, done.output):
        assert KEY not in said
    assert holders(here) == []


def test_the_search_for_a_key_finds_one(here: Path) -> None:
    (here / "runs").mkdir()
    (here / "runs" / "log.bin").write_bytes(b"\0" + os.environ["MARKED_KEY"].encode())
    assert holders(here) == [str(here / "runs" / "log.bin")]


def test_a_key_is_no_setting(here: Path) -> None:
    """So it cannot be written down by mistake: not in a file, not among the flags that a shell remembers."""
    Path("run.toml").write_text(f'data = "reviews.csv"\napi_key = "{KEY}"\n')
    done = gape("run", "--settings", "run.toml")
    assert done.exit_code == 1
    assert "there is no setting 'api_key'" in done.stderr
    assert KEY not in done.output


def _written(url: str) -> str:
    Path("run.toml").write_text(Settings.of(values(url)).as_toml())
    return "run.toml"
