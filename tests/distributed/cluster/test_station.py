import hashlib
from pathlib import Path

import numpy as np
import pytest

from distributed.cluster.on_workers import Broken
from gape.distributed.cluster.crew import Failure, Worker
from gape.distributed.cluster.shards import PointShard
from gape.distributed.cluster.station import Station, Votes
from gape.voting.electorate import LocalElectorate

SALT = b"s" * 32
ONE, SEVERAL = Votes(1, 1), Votes(6, 6)


class Open(Worker):
    public = True

    def fail(self) -> None:
        raise KeyError("a prompt")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    np.save(tmp_path / "points.npy", np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32))
    return tmp_path / "points.npy"


def candidates(count: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(count, 3)).astype(np.float32)


def test_of_a_foreign_exception_only_the_type_leaves_a_worker() -> None:
    failure = Station(Broken()).answer(1, "describe", SALT)
    assert failure == Failure("", "KeyError")
    assert Station(Broken()).answer(3, "vote", candidates(5), 1, ONE, SALT, None) == [failure] * 3
    assert Open().answer(1, "fail") == Failure("", "KeyError: 'a prompt'")


def test_our_own_errors_keep_their_kind_and_words() -> None:
    failure = Station(PointShard("none.npy")).answer(1, "describe", SALT)
    assert failure.kind == "InputError"
    assert "none.npy" in failure.text


@pytest.mark.parametrize("pieces", [1, 2, 7])
def test_counts_come_in_pieces_as_they_are(file: Path, pieces: int) -> None:
    station = Station(PointShard(str(file)))
    held = station.describe(SALT)
    assert (held.records, held.units, held.dimension, held.has_units) == (50, 50, 3, False)
    counts = station.answer(pieces, "vote", candidates(20), 1, ONE, SALT, held)
    together = counts if pieces == 1 else np.concatenate(counts)
    assert np.array_equal(together, LocalElectorate(np.load(file)).count(candidates(20), 1))


def test_as_many_votes_are_cast_as_each_question_says(file: Path) -> None:
    station = Station(PointShard(str(file)))
    held = station.describe(SALT)
    for votes in (ONE, SEVERAL, ONE):
        counts = station.vote(candidates(20), 1, votes, SALT, held)
        assert np.array_equal(counts, LocalElectorate(np.load(file), **votes._asdict()).count(candidates(20), 1))
        assert counts.sum() == 50 * votes.votes_per_record


def test_files_that_changed_before_a_worker_was_started_again_are_refused(file: Path) -> None:
    held = Station(PointShard(str(file))).describe(SALT)
    points = np.load(file)
    points[7] += 1
    np.save(file, points)
    failure = Station(PointShard(str(file))).answer(1, "vote", candidates(4), 1, ONE, SALT, held)
    assert failure.kind == "RunError"
    assert "changed" in failure.text


def test_digests_come_sorted_under_their_salt_and_in_any_portion(file: Path) -> None:
    station = Station(PointShard(str(file)))
    held = station.describe(SALT)
    for salt in (SALT, b"t" * 32):
        whole = station.digests("records", salt, 0, 50, SALT, held)
        parts = [station.digests("records", salt, first, 9, SALT, held) for first in range(0, 50, 9)]
        rows = np.load(file)
        expected = sorted(hashlib.blake2b(row.tobytes(), key=salt, digest_size=32).digest() for row in rows)
        assert b"".join(parts) == whole == b"".join(expected)
