"""What would be uploaded: a wheel and an archive of the sources that package indexes accept, and that run."""

import re
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

from gape import __version__

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A wheel and an archive of this checkout."""
    folder = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=300)
    return next(folder.glob("*.whl")), next(folder.glob("*.tar.gz"))


def test_the_wheel_has_the_package_and_the_archive_what_explains_it(built: tuple[Path, Path]) -> None:
    wheel, archive = built
    assert wheel.name == f"gape-{__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as opened:
        names = set(opened.namelist())
        metadata = opened.read(f"gape-{__version__}.dist-info/METADATA").decode()
    own = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "gape").rglob("*.py")}
    assert own <= names
    assert {name.partition("/")[0] for name in names} == {"gape", f"gape-{__version__}.dist-info"}
    assert "License-Expression: Apache-2.0" in metadata
    assert "Description-Content-Type: text/markdown" in metadata
    with tarfile.open(archive) as opened:
        packed = {name.partition("/")[2] for name in opened.getnames()}
    assert {"README.md", "LICENSE", "CHANGELOG.md", "CITATION.cff", "SECURITY.md", "examples/notebook.ipynb"} <= packed


def test_the_version_is_the_same_everywhere() -> None:
    assert re.search(r"^version: (.+)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)[1] == __version__  # type: ignore[index]
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text()


@pytest.mark.slow
def test_an_index_would_accept_them_and_a_bare_environment_runs_the_demo(
    built: tuple[Path, Path], tmp_path: Path
) -> None:
    for name in ("checking", "bare"):
        venv.create(tmp_path / name, with_pip=True)
    wheel = built[0]
    for name, package in (("checking", "twine"), ("bare", f"{wheel}[plot]")):
        install = [f"{tmp_path}/{name}/bin/python", "-m", "pip", "install", "-q", package]
        subprocess.run(install, check=True, timeout=900)
    twine = [f"{tmp_path}/checking/bin/twine", "check", "--strict", *map(str, built)]
    checked = subprocess.run(twine, capture_output=True, text=True, timeout=120, check=True)
    assert checked.stdout.count("PASSED") == 2
    demo = [f"{tmp_path}/bare/bin/gape", "demo", "--clusters", "--out", f"{tmp_path}/demo"]
    shown = subprocess.run(demo, cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "differentially private" in shown.stdout
