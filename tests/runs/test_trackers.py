"""Progress that goes to notebooks and trackers, and results that show themselves there."""

import json
import math
import os
import subprocess
import sys
import venv
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import gape
from folders import plan_for, statement_of
from gape.core.errors import InputError
from gape.core.types import as_samples
from gape.runs.progress import Progress
from gape.runs.settings import Settings
from gape.runs.synthesize import run_text
from made_up import private_rows, write_corpus, write_csv

ROOT = Path(__file__).parents[2]
STATEMENT = statement_of(plan_for(as_samples(["a", "b"])))


def settings(folder: Path, **values: Any) -> Settings:
    data, corpus = write_csv(folder / "reviews.csv", private_rows()), write_corpus(folder / "public.txt")
    small = {"epsilon": 4.0, "samples": 6, "rounds": 3, "scales": [0.4], "text": "review"}
    return Settings.of(small, {"data": str(data), "generator": f"corpus:{corpus}", **values})


@pytest.mark.parametrize("epsilon", [4.0, math.inf])
def test_every_round_reports_its_figures_once_and_no_exact_vote(tmp_path: Path, epsilon: float) -> None:
    seen: list[Progress] = []
    result = run_text(settings(tmp_path, epsilon=epsilon), tmp_path / "run", progress=seen.append)
    ended = [now.ended for now in seen if now.ended is not None]
    assert [figures.round for figures in ended] == [1, 2, 3]
    assert ended[-1].epsilon == pytest.approx(result.privacy.epsilon)
    assert all(figures.samples == 6 and figures.candidates >= 12 for figures in ended)
    if epsilon == math.inf:
        assert all(figures.largest_vote is figures.mean_vote is None for figures in ended)
    else:
        assert ended[0].epsilon < ended[1].epsilon < ended[2].epsilon <= 4.0
        assert all(figures.largest_vote is not None for figures in ended)


def test_a_tracker_that_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    figures = gape.RoundFigures(1, 1.0, 12, 6, 9, 2.0)
    now = Progress("writing", 1, 3, 0, 0, 0, 0, 0.0, ended=figures)
    for name in ("mlflow", "wandb", "IPython.display"):
        monkeypatch.setitem(sys.modules, name, None)
    for track in (gape.to_mlflow, gape.to_wandb, lambda _: gape.NotebookProgress()):
        with pytest.raises(InputError, match=r"the package (mlflow|wandb|IPython) is not installed; install it"):
            track(now)


def test_results_and_statements_show_themselves_with_every_text_escaped() -> None:
    text = "<script>alert(1)</script> & more"
    result = gape.SyntheticTexts([text] * 12, None, STATEMENT, pa.table({"text": [text] * 12}))
    shown = result._repr_html_()
    assert "<script>" not in shown
    assert shown.count("&lt;script&gt;alert(1)&lt;/script&gt; &amp; more") == 10
    assert "12 synthetic records, the first 10" in shown
    assert "differentially private" in shown
    assert "background" not in STATEMENT._repr_html_()
    alarming = replace(STATEMENT, private=False, epsilon=math.inf)._repr_html_()
    assert "NOT PRIVATE" in alarming
    assert "background:#b00020" in alarming


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the real packages, which sees those of this one."""
    home = tmp_path_factory.mktemp("outside")
    venv.create(home, with_pip=True)
    python = home / "bin" / "python"
    packages = ["mlflow-skinny", "wandb", "nbclient", "ipykernel"]
    subprocess.run([python, "-m", "pip", "install", "-q", *packages], check=True, timeout=900)
    found = subprocess.run(
        [python, "-c", "import site; print(site.getsitepackages()[0])"], check=True, capture_output=True, text=True
    )
    here = next(path for path in sys.path if path.endswith("site-packages"))
    (Path(found.stdout.strip()) / "here.pth").write_text(f"{ROOT / 'src'}\n{here}\n")
    return python


def run_outside(python: Path, code: str, folder: Path) -> str:
    offline = {"WANDB_MODE": "offline", "WANDB_SILENT": "true", "MLFLOW_ALLOW_FILE_STORE": "true"}
    quiet = {"PYTHONPATH": str(ROOT / "src"), "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    done = subprocess.run(
        [python, "-c", code],
        cwd=folder,
        env=os.environ | offline | quiet,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


@pytest.mark.slow
def test_mlflow_gets_every_round(outside: Path, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(settings(tmp_path).as_toml())
    code = """
import json, os, gape, mlflow
from gape.runs.settings_file import read_toml
mlflow.set_tracking_uri("file:" + os.getcwd() + "/mlruns")
with mlflow.start_run() as run:
    gape.run_text(gape.Settings.of(read_toml("run.toml")), "run", progress=gape.to_mlflow)
history = mlflow.MlflowClient().get_metric_history(run.info.run_id, "epsilon")
print(json.dumps([[point.step, point.value] for point in history]))
"""
    points = json.loads(run_outside(outside, code, tmp_path).splitlines()[-1])
    assert [step for step, _ in points] == [1, 2, 3]
    assert points[0][1] < points[1][1] < points[2][1] <= 4.0


@pytest.mark.slow
def test_weights_and_biases_gets_every_round_offline(outside: Path, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(settings(tmp_path).as_toml())
    code = """
import gape, wandb
from gape.runs.settings_file import read_toml
run = wandb.init(project="gape")
gape.run_text(gape.Settings.of(read_toml("run.toml")), "run", progress=gape.to_wandb)
print(run.summary["round"], run.summary["epsilon"])
run.finish()
"""
    last, epsilon = run_outside(outside, code, tmp_path).splitlines()[-1].split()
    assert float(last) == 3
    assert 0 < float(epsilon) <= 4.0
    assert list(tmp_path.glob("wandb/offline-run-*/*.wandb"))


@pytest.mark.slow
def test_the_example_notebook_runs_and_shows_bar_records_and_guarantee(outside: Path, tmp_path: Path) -> None:
    code = f"""
import json, nbformat
from nbclient import NotebookClient
notebook = nbformat.read({str(ROOT / "examples" / "notebook.ipynb")!r}, as_version=4)
NotebookClient(notebook, timeout=300, kernel_name="python3").execute()
print(json.dumps([output for cell in notebook.cells for output in cell.get("outputs", [])]))
"""
    outputs = json.loads(run_outside(outside, code, tmp_path).splitlines()[-1])
    shown = ["".join(output.get("data", {}).get("text/html", "")) for output in outputs]
    assert any('<progress value="1.000"' in html and "round 3 of 3: done" in html for html in shown)
    assert any("8 synthetic records" in html for html in shown)
    assert sum("differentially private" in html for html in shown) == 2
