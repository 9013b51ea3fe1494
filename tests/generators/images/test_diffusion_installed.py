"""The tests of diffusers run where it is not installed, in a folder of packages that has it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_a_tiny_pipeline_draws_and_redraws(tmp_path: Path) -> None:
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--only-binary=:all:",
        "--target",
        str(tmp_path),
    ]
    subprocess.run([*install, "diffusers==0.42.1", "importlib-metadata", "zipp"], check=True)
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", "tests/generators/images/test_diffusion.py"]
    done = subprocess.run(
        tests, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert "skipped" not in done.stdout
