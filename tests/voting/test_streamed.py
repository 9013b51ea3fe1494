import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contracts.electorate import ElectorateContract
from gape.core.errors import InputError, PrivacyError, RunError
from gape.voting import streamed as module
from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import nearest_votes
from gape.voting.store import VectorFolder
from gape.voting.streamed import StreamedElectorate
from voting.folders import begin, fill


def gaussian(n: int, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)


@pytest.fixture
def records(tmp_path: Path) -> VectorFolder:
    return fill(tmp_path / "v", gaussian(50), shard=4 * 3 * 20)


class TestRecords(ElectorateContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        self.path = fill(tmp_path / "v", gaussian(50)).path

    def make(self) -> StreamedElectorate:
        return StreamedElectorate(self.path)


class TestUsers(ElectorateContract):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path: Path) -> None:
        users = [f"user {i}" for i in np.random.default_rng(1).integers(0, 12, 50)]
        self.path = fill(tmp_path / "v", gaussian(50), users=users).path

    def make(self) -> StreamedElectorate:
        return StreamedElectorate(self.path, votes_per_unit=3)


@pytest.mark.parametrize("rows", [1, 2, 7, 19, 20, 21, 49, 50, 1000])
def test_counts_are_those_of_memory_whatever_the_blocks(records: VectorFolder, rows: int) -> None:
    candidates = gaussian(9, seed=1)
    counts = StreamedElectorate(records, block=4 * 3 * rows).count(candidates, 1)
    np.testing.assert_array_equal(counts, nearest_votes(gaussian(50), candidates))
    assert counts.dtype == np.int64


@settings(max_examples=40)
@given(
    rows=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 8)), min_size=1, max_size=40),
    most=st.integers(1, 4),
    turn=st.integers(1, 9),
    block=st.integers(1, 50),
    shard=st.integers(1, 20),
    ballots=st.integers(1, 40),
)
def test_users_speak_as_they_do_in_memory(
    rows: list[tuple[int, int]], most: int, turn: int, block: int, shard: int, ballots: int
) -> None:
    """Whatever blocks, shards and passes cut a user's records apart: places on a line, with ties between candidates."""
    users = [f"user {user}" for user, _ in rows]
    points = np.array([[place / 2] for _, place in rows], dtype=np.float32)
    candidates = np.arange(5, dtype=np.float32)[:, None]
    expected = LocalElectorate(points, units=users, votes_per_unit=most).count(candidates, turn)
    before = module._BALLOTS
    module._BALLOTS = ballots
    try:
        with tempfile.TemporaryDirectory() as scratch:
            folder = fill(Path(scratch) / "v", points, users=users, shard=4 * shard)
            electorate = StreamedElectorate(folder, votes_per_unit=most, block=4 * block)
            for _ in range(2):  # the second time it trusts the content, and skips blocks where nobody speaks
                np.testing.assert_array_equal(electorate.count(candidates, turn), expected)
    finally:
        module._BALLOTS = before


def test_marks_stand_behind_the_vectors_of_their_label(tmp_path: Path) -> None:
    points = gaussian(50)
    codes = np.random.default_rng(2).integers(0, 3, 50)
    users = [f"user {i % 9}" for i in range(50)]
    marks = 2 * np.eye(3, dtype=np.float32)
    places: dict[int, int] = {}
    for code in codes.tolist():
        places.setdefault(code, len(places))
    whole = np.concatenate([points, marks[[places[code] for code in codes.tolist()]]], axis=1)
    candidates = np.concatenate([gaussian(12, seed=1), np.repeat(marks, 4, axis=0)], axis=1)
    labels = [f"label {code}" for code in codes]
    for units in (None, users):
        folder = fill(tmp_path / str(units is None), points, users=units, labels=labels)
        electorate = StreamedElectorate(folder, marks=marks, block=4 * 3 * 7)
        assert electorate.dimension == 6
        expected = LocalElectorate(whole, units=units).count(candidates, 2)
        np.testing.assert_array_equal(electorate.count(candidates, 2), expected)
    with pytest.raises(InputError, match="one row for each of 3 labels, got 2"):
        StreamedElectorate(folder, marks=marks[:2])


def test_users_have_as_many_votes_as_is_said(records: VectorFolder) -> None:
    with pytest.raises(InputError, match="at least 1"):
        StreamedElectorate(records, votes_per_unit=0)
    with pytest.raises(InputError, match=r"must equal votes_per_record, 1, .* got 2; give units"):
        StreamedElectorate(records, votes_per_unit=2)


def change_a_byte(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-2] ^= 1
    path.write_bytes(content)


@pytest.mark.parametrize("name", ["vectors-00000.npy", "vectors-00002.npy", "units.npy", "labels.npy"])
def test_content_that_has_changed_is_never_counted(name: str, tmp_path: Path) -> None:
    folder = fill(tmp_path / "v", gaussian(50), users=["a", "b"] * 25, labels=["x"] * 50, shard=4 * 3 * 20)
    change_a_byte(folder.path / name)
    electorate = StreamedElectorate(folder.path, marks=np.ones((1, 1), dtype=np.float32))  # sizes are right
    for _ in range(2):
        with pytest.raises(RunError, match=f"{name} of .* has changed since it was embedded"):
            electorate.count(gaussian(3, 4), 1)


def truncate(path: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(path.stat().st_size - 4)


def link(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


def edit(path: Path) -> None:
    manifest = path.with_name("gape-vectors.json")
    manifest.write_text(manifest.read_text().replace('"records": 50', '"records": 49'))


@pytest.mark.parametrize(
    ("harm", "error", "message"),
    [
        (truncate, RunError, "does not match its manifest"),
        (lambda path: path.write_bytes(b"x" * path.stat().st_size), RunError, "does not match its manifest"),
        (Path.unlink, RunError, "is missing; restore it"),
        (link, PrivacyError, "is a link, which could lead to other data"),
        (lambda path: path.chmod(0o640), PrivacyError, "is open to other users; run: chmod"),
        (lambda path: path.parent.chmod(0o755), PrivacyError, "is open to other users; run: chmod"),
        (edit, RunError, "gape-vectors.json is damaged or was changed"),
        (lambda path: path.with_name("gape-vectors.json").write_text("{}"), RunError, "is damaged or was changed"),
        (lambda path: path.with_name("gape-vectors.json").unlink(), RunError, "contains no vectors"),
        (
            lambda path: (begin(path.parent) / "gape-vectors.json").unlink(),
            RunError,
            "not complete yet; repeat `gape embed`",
        ),
    ],
)
def test_a_folder_that_is_not_as_it_was_made_is_refused(
    harm: Callable[[Path], object], error: type[Exception], message: str, records: VectorFolder
) -> None:
    harm(records.path / "vectors-00001.npy")
    with pytest.raises(error, match=message):
        StreamedElectorate(records.path)


COUNT = """
import re, sys
from pathlib import Path
import numpy as np
from gape.voting.nearest import nearest_votes
from gape.voting.streamed import StreamedElectorate

def memory(field):
    return int(re.search(rf"{field}:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

candidates = np.random.default_rng(1).standard_normal((20, 256), dtype=np.float32)
nearest_votes(candidates, candidates)
electorate = StreamedElectorate(sys.argv[1], block=2**24)
before = memory("VmRSS")
print(electorate.count(candidates, 1).sum(), memory("VmHWM") - before)
"""


def test_memory_does_not_grow_with_the_records(tmp_path: Path) -> None:
    """Of 25 and of 300 MB of vectors, in a process of its own: blocks and what `nearest` needs, nothing else."""
    peaks = []
    for batches in (1, 12):
        points = np.tile(gaussian(25_000, 256), (batches, 1))
        folder = fill(tmp_path / str(batches), points, batch=25_000, shard=2**27)
        size = points.nbytes
        del points
        command = [sys.executable, "-c", COUNT, str(folder.path)]
        done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
        voted, peak = map(int, re.findall(r"\d+", done.stdout))
        assert voted == batches * 25_000
        peaks.append(peak)
    assert size > 300e6
    assert max(peaks) < 150e6
    assert peaks[1] < peaks[0] + 40e6
