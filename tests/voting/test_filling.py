import json
import os
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gape.core.errors import InputError, RunError
from gape.runs.embedding import _save as save
from gape.voting import filling as module
from gape.voting.filling import Filling
from gape.voting.store import HEADER, Manifest, dataset_digest, record_digest
from voting.folders import ORIGIN, begin, fill

SHARED = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def gaussian(n: int, d: int = 3, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((n, d), dtype=np.float32)


@pytest.fixture
def in_small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Sort a few digests at a time, as if there were millions."""
    for name, value in {"_STEP": 7, "_SPAN": 4, "_BLOCK": 64}.items():
        monkeypatch.setattr(module, name, value)


def digests_on_disk(path: Path, digests: list[bytes]) -> Path:
    path.write_bytes(b"".join(digests))
    return path


@SHARED
@given(records=st.lists(st.sampled_from("abcdefgh") | st.text(max_size=3), min_size=1, max_size=60))
def test_sorting_on_disk_gives_the_digest_of_sorting_in_memory(
    records: list[str], tmp_path: Path, in_small_steps: None
) -> None:
    digests = [record_digest(record.encode()) for record in records]
    file = digests_on_disk(tmp_path / "digests", digests)
    assert module._joined_digest(file, len(digests)) == dataset_digest(digests) == dataset_digest(digests[::-1])


def test_a_text_that_all_records_share_takes_the_room_of_one(tmp_path: Path, in_small_steps: None) -> None:
    digests = [record_digest(b"same")] * 1000
    sizes = []
    original = module._merged_counts

    def watched(digests: list[np.ndarray], times: list[np.ndarray]) -> tuple[list[np.ndarray], list[np.ndarray]]:
        sizes.append(sum(map(len, digests)))
        return original(digests, times)

    module._merged_counts = watched
    try:
        assert module._joined_digest(digests_on_disk(tmp_path / "digests", digests), 1000) == dataset_digest(digests)
    finally:
        module._merged_counts = original
    assert max(sizes) <= 2 * module._SPAN + module._STEP


@SHARED
@given(users=st.lists(st.sampled_from(["a", "b", "c", "d", "é", "user 17"]), min_size=1, max_size=60))
def test_the_index_says_whose_each_record_is(users: list[str], tmp_path: Path, in_small_steps: None) -> None:
    names = digests_on_disk(tmp_path / "users", [module._user_digest(user) for user in users])
    count = module._index_users(names, len(users), tmp_path / "units.npy")
    index = np.fromfile(tmp_path / "units.npy", "<u4", offset=HEADER).reshape(-1, 3)
    sizes = Counter(users)
    assert count == len(sizes)
    owners = {user: set(index[[other == user for other in users], 0].tolist()) for user in sizes}
    assert sorted(owner for own in owners.values() for owner in own) == list(range(count))
    seen: Counter[str] = Counter()
    for user, (_, place, size) in zip(users, index.tolist(), strict=True):
        assert (place, size) == (seen[user], sizes[user])
        seen[user] += 1


def test_what_is_written_is_what_numpy_reads(tmp_path: Path) -> None:
    points = gaussian(25)
    labels = [f"label {i % 3}" for i in range(25)]
    folder = fill(tmp_path / "v", points, labels=labels, users=["one"] * 25, shard=4 * 3 * 8)
    shards = [np.load(folder.path / shard.name) for shard in folder.shards]
    assert [len(shard) for shard in shards] == [8, 8, 8, 1]
    np.testing.assert_array_equal(np.concatenate(shards), points)
    assert [folder.manifest.labels[i] for i in np.load(folder.path / "labels.npy")] == labels  # type: ignore[index]
    np.testing.assert_array_equal(np.load(folder.path / "units.npy"), [[0, i, 25] for i in range(25)])
    assert folder.manifest.largest_norm == pytest.approx(np.linalg.norm(points, axis=1).max(), rel=1e-6)
    assert folder.manifest.dataset == dataset_digest(record_digest(row.tobytes()) for row in points).hex()


def test_nobody_else_may_read_any_of_it(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        folder = fill(tmp_path / "v", gaussian(25), users=["one"] * 25, labels=["a"] * 25, shard=100)
    finally:
        os.umask(before)
    assert folder.path.stat().st_mode & 0o777 == 0o700
    assert {path.stat().st_mode & 0o777 for path in folder.path.iterdir()} == {0o600}


def test_killed_at_any_write_it_ends_the_same_byte_for_byte() -> None:
    program, memory = Path(__file__).with_name("filling_crash.py"), Path("/dev/shm")  # noqa: S108  (a fresh folder in it)
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as scratch:  # which waits for no disk
        done = subprocess.run(
            [sys.executable, program, scratch],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "PYTHONPATH": str(program.parents[1])},
        )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["writes"] > 30
    assert said["survived"] == said["different"] == []


def test_what_a_batch_that_never_counted_has_left_is_overwritten(tmp_path: Path) -> None:
    points, users = gaussian(25), [f"user {i % 4}" for i in range(25)]
    whole = fill(tmp_path / "whole", points, users=users, shard=4 * 3 * 8)
    halfway = begin(tmp_path / "half")
    filling = Filling(halfway, save, users=True, labels=False, shard=4 * 3 * 8)
    filling.append(points[:10], b"".join(record_digest(row.tobytes()) for row in points[:10]), users[:10])
    for name in ("vectors-00001.npy", "vectors-00009.npy", "partial/digests", "partial/users"):
        with (halfway / name).open("ab") as file:
            file.write(b"half a batch")
    again = fill(halfway, points, users=users, shard=4 * 3 * 8)
    files = sorted(path.name for path in whole.path.iterdir())
    assert sorted(path.name for path in again.path.iterdir()) == files
    assert all((whole.path / name).read_bytes() == (again.path / name).read_bytes() for name in files)


def test_other_data_than_it_was_begun_with_is_refused(tmp_path: Path) -> None:
    path, points = begin(tmp_path / "v"), gaussian(20)
    digests = [record_digest(row.tobytes()) for row in points]
    filling = Filling(path, save, users=False, labels=True)
    filling.append(points[:10], b"".join(digests[:10]), labels=["a", "b"] * 5)
    for records, labels in ((digests[1:11], ["a", "b"] * 5), (digests[:10], ["a", "a"] * 5)):
        again = Filling(path, save, users=False, labels=True)
        with pytest.raises(RunError, match=r"differs from the records already in"):
            again.recognise(0, b"".join(records), labels)
    again = Filling(path, save, users=False, labels=True)
    again.recognise(0, b"".join(digests[:10]), ["a", "b"] * 5)
    with pytest.raises(RunError, match=r"differs from the records already in"):
        again.recognise_end(9)


def test_what_cannot_vote_is_refused_without_its_values(tmp_path: Path) -> None:
    filling = Filling(begin(tmp_path / "v"), save, users=False, labels=False)
    with pytest.raises(InputError, match="only 3 blank rows"):
        filling.finish(ORIGIN, 3)
    bad = np.array([[np.nan, 123.25]], dtype=np.float32)
    with pytest.raises(InputError, match="NaN") as caught:
        filling.append(bad, record_digest(b""))
    assert "123.25" not in str(caught.value)
    filling.append(gaussian(1), record_digest(b""))
    with pytest.raises(InputError, match="must all have 3 columns, got 4"):
        filling.append(gaussian(1, 4), record_digest(b""))
    assert not (tmp_path / "v" / "gape-vectors.json").exists()


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    folder = fill(tmp_path / "v", gaussian(5), labels=list("abcab"))
    assert Manifest.read(folder.path / "gape-vectors.json") == folder.manifest
