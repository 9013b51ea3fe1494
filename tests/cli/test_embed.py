import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from command import gape, one_line_error
from made_up import CANARIES, private_rows, write_corpus, write_csv

SMALL = ["--samples", "6", "--rounds", "2", "--scales", "0.4,0.8", "--generator", "corpus:public.txt", "--epsilon", "4"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_csv(tmp_path / "reviews.csv", private_rows())
    write_corpus(tmp_path / "public.txt")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_from_embed_to_run(here: Path) -> None:
    done = gape("embed", "reviews.csv", "--text", "review", "--user", "who", "--out", "vectors")
    assert done.exit_code == 0
    assert "vectors: 90 records of 40 users, 384 numbers each from minilm" in done.stdout
    planned = gape("plan", "vectors", *SMALL)
    assert "embedded from reviews.csv: 90 records of 40 users" in planned.stdout.replace("\n", " ")
    made = gape("run", "vectors", *SMALL)
    assert made.exit_code == 0
    assert "opening the private texts" in made.stderr
    assert "replacing one user" in made.stdout
    assert (here / "reviews.csv.gape-ledger.sqlite").exists()
    assert "of a budget of 4" in gape("status", "runs/vectors").stdout
    assert "This run exceeds the rest" in gape("plan", "vectors", *SMALL).stdout
    refused = one_line_error(gape("run", "reviews.csv", "--text", "review", "--user", "who", *SMALL, "--out", "again"))
    assert "budget_epsilon" in refused
    assert "the texts are needed" in one_line_error(gape("compare", "vectors", *SMALL[:-2]))
    said = done.output + planned.output + made.output + refused
    assert not any(canary in said for canary in CANARIES)


def test_it_takes_the_flags_that_it_needs_and_no_others(here: Path) -> None:
    assert gape("embed", "reviews.csv", "--text", "review", "--out", "v", "--epsilon", "1").exit_code == 2
    assert gape("embed", "reviews.csv", "--text", "review").exit_code == 2  # the folder is for the user to name
    assert "there is no data" in one_line_error(gape("embed", "--out", "v"))
    assert "has no column 'none'" in one_line_error(gape("embed", "reviews.csv", "--text", "none", "--out", "v"))
    assert not (here / "v").exists()


def test_interrupted_it_says_how_to_go_on(here: Path) -> None:
    """In a terminal, by the signal that Ctrl-C sends, once there is something to lose."""
    write_csv(here / "reviews.csv", private_rows(400))
    program = "from gape.cli import main; from gape.runs import embedding; embedding._TEXTS_AT_ONCE = 8; main()"
    flags = ["embed", "reviews.csv", "--text", "review", "--out", "v"]
    own, terminal = pty.openpty()
    running = subprocess.Popen([sys.executable, "-c", program, *flags], stderr=terminal, stdout=subprocess.PIPE)
    os.close(terminal)
    until = time.monotonic() + 120
    while not (here / "v" / "partial" / "progress.json").exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    running.send_signal(signal.SIGINT)
    shown = b""
    while True:
        try:
            part = os.read(own, 4096)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    out, _ = running.communicate(timeout=120)
    os.close(own)
    assert running.returncode == 130
    assert not out
    assert b"Embedding:" in shown
    assert b"repeat the command to resume" in shown
    done = gape(*flags)
    assert done.exit_code == 0
    assert "v: 400 records" in done.stdout
