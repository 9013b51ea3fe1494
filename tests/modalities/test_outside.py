"""A modality of another package goes through every command, found by its entry point; no code of gape knows it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from command import gape, one_line_error
from gape.runs.folder.layout import Layout

HERE = Path(__file__).parent


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of packages that holds the modality, with the entry point that an installation would write."""
    packages = tmp_path / "packages"
    information = packages / "curves-1.0.dist-info"
    information.mkdir(parents=True)
    (packages / "curves_for_gape.py").write_bytes((HERE / "series.py").read_bytes())
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: curves\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[gape.modalities]\ncurves = curves_for_gape:Curves\n")
    monkeypatch.syspath_prepend(str(packages))
    monkeypatch.chdir(tmp_path)
    return packages


@pytest.fixture
def data(installed: Path) -> Path:
    """Two hundred evenings and mornings, and what is public about them."""
    rng = np.random.default_rng(0)
    peaks = rng.choice([7, 19], size=(200, 1)) + rng.normal(size=(200, 1))
    curves = 3 * np.exp(-((np.arange(24) - peaks) ** 2) / 8) + rng.random((200, 24)) / 4
    np.savetxt("meters.csv", curves, delimiter=",")
    Path("meters.toml").write_text("length = 24\nleast = 0\nmost = 5\n")
    return Path("meters.csv").absolute()


ASKED = ("--modality", "curves", "--schema", "meters.toml", "--epsilon", "4", "--samples", "12")


def test_it_is_planned_run_killed_resumed_and_looked_at(data: Path, installed: Path) -> None:
    planned = gape("plan", data, *ASKED)
    assert planned.exit_code == 0, planned.stderr
    assert "12 samples; 3 variations of each and the curve itself" in " ".join(planned.stdout.split())

    run = data.parent / "run"
    killed_in_a_round([str(data), *ASKED, "--out", str(run)], run, installed)
    assert not Layout(run).published.exists()
    assert "stopped" in output("status", run)
    output("resume", run)
    assert "finished" in output("status", run)
    assert json.loads(Layout(run).begun.read_text())["modality"] == "curves"

    published = pq.read_table(Layout(run).published)["sample"]
    curves = np.array(published.to_pylist())
    assert curves.shape == (12, 24)
    assert curves.min() >= 0
    assert curves.max() <= 5

    output("evaluate", run, "--private", data)
    scores = json.loads(Layout(run).evaluation.read_text())
    assert [measure["name"] for measure in scores["groups"]["Curves"]] == ["mean curve distance"]
    assert "curves that are records" in [measure["name"] for measure in scores["groups"]["Memorisation"]]

    output("report", run)
    page = Layout(run).release_report.read_text()
    assert "12 synthetic curves" in page
    assert "▁" in page
    assert "their root mean squared difference" in page
    output("report", run, "--internal")

    output("export", run, "--format", "csv", "--out", "curves.csv")
    assert len(Path("curves.csv").read_text().splitlines()) == 13
    output("expand", run, "--count", "30", "--out", "more.parquet")
    assert len(pq.read_table("more.parquet")) == 30
    assert "The books are in order" in output("audit", run)


def test_what_it_does_not_take_is_refused(data: Path) -> None:
    assert "the generator 'embedded' is not for curves; use curves" in one_line_error(
        gape("run", data, *ASKED, "--generator", "embedded")
    )
    assert "text has no meaning for curves" in one_line_error(gape("run", data, *ASKED, "--text", "x"))
    assert "there is no modality 'curve'; use one of curves, images, mixed, rows, text, vectors" in one_line_error(
        gape("run", data, "--modality", "curve", "--epsilon", "4")
    )


def output(*arguments: object) -> str:
    done = gape(*arguments)
    assert done.exit_code == 0, f"{arguments}: {done.stderr or done.exception!r}"
    return done.stdout


def killed_in_a_round(arguments: list[str], run: Path, packages: Path) -> None:
    """Start the run in a process of its own, and kill it as soon as the first votes are on disk."""
    path = os.pathsep.join([str(packages), *(entry for entry in sys.path if entry)])
    program = [sys.executable, "-c", "from gape.cli import main; main()", "run", *arguments]
    with subprocess.Popen(program, env={**os.environ, "PYTHONPATH": path, "CURVES_SLOW": "0.7"}) as process:
        while process.poll() is None and not Layout(run).round(1).synthetic.exists():
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
