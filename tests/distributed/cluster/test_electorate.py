"""Votes on a real cluster of two workers."""

import json
import os
import signal
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from contracts.electorate import ElectorateContract
from distributed.cluster.on_workers import SECRET, Broken, Deadly
from distributed.cluster.processes import killed_at_work
from gape.core.errors import InputError, PrivacyError, RunError, ServiceError
from gape.core.types import Counts, Points
from gape.distributed.cluster import PointShard, RayElectorate, TextShard, in_parts
from gape.embedders.identity import IdentityEmbedder
from gape.embedders.minilm import MiniLM
from gape.evolution.plan import Plan
from gape.evolution.state import State
from gape.generators.vectors import GaussianGenerator, StartFromBox
from gape.modalities import load_texts
from gape.privacy.ledger import Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.runs.electorate import TextElectorate
from gape.runs.run import run
from gape.selection.ranking import Ranking
from gape.voting.electorate import LocalElectorate
from made_up import private_rows

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("ray_here")]

SALT = b"s" * 32
PLAN = Plan(epsilon=2.0, delta=1e-5, rounds=2, samples=1_500, scales=(0.1, 0.01), copies=2, seed=11)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Private vectors, enough of them that a worker counts for seconds, with users."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("private")
    np.save(path / "points.npy", rng.normal(size=(40_000, 256)).astype(np.float32))
    np.save(path / "users.npy", rng.integers(0, 9_000, 40_000))
    return path


def points_of(folder: Path, count: int | None = None) -> Points:
    points: Points = np.load(folder / "points.npy")[:count]
    return points


def some_of(folder: Path, count: int, name: str = "some") -> PointShard:
    """The first of the vectors and users, in files of their own."""
    for kind in ("points", "users"):
        np.save(folder / f"{name}-{kind}.npy", np.load(folder / f"{kind}.npy")[:count])
    return PointShard(str(folder / f"{name}-points.npy"), str(folder / f"{name}-users.npy"))


def candidates(count: int, width: int = 256) -> Points:
    return np.random.default_rng(1).normal(size=(count, width)).astype(np.float32)


class TestRecords(ElectorateContract):
    electorate: ClassVar[RayElectorate]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _electorate(cls, folder: Path, ray_here: None) -> Iterator[None]:
        shard = PointShard(some_of(folder, 300, "records").file)
        with RayElectorate(in_parts(shard, 2)) as cls.electorate:
            yield

    def make(self) -> RayElectorate:
        return self.electorate


class TestUsers(ElectorateContract):
    electorate: ClassVar[RayElectorate]

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _electorate(cls, folder: Path, ray_here: None) -> Iterator[None]:
        with RayElectorate(in_parts(some_of(folder, 300, "users"), 2), votes_per_unit=3) as cls.electorate:
            yield

    def make(self) -> RayElectorate:
        return self.electorate


class TestTheSameAsInOneProcess:
    @pytest.mark.parametrize("workers", [1, 2, 3])
    def test_counts_and_fingerprint_of_records(self, folder: Path, workers: int) -> None:
        local = LocalElectorate(points_of(folder, 10_000))
        with RayElectorate(in_parts(PointShard(some_of(folder, 10_000).file), workers)) as electorate:
            for turn in (1, 2):
                counts = electorate.count(candidates(500), turn)
                assert np.array_equal(counts, local.count(candidates(500), turn))
            assert electorate.fingerprint(SALT) == local.fingerprint(SALT)
            assert (electorate.unit, electorate.units, electorate.dimension) == ("record", 10_000, 256)
            assert electorate.replaced == 0

    @pytest.mark.parametrize("workers", [2, 3])
    def test_counts_and_fingerprint_of_users(self, folder: Path, workers: int) -> None:
        shard = some_of(folder, 10_000)
        users = np.load(shard.users or "").tolist()
        local = LocalElectorate(points_of(folder, 10_000), units=users, votes_per_unit=2)
        with RayElectorate(in_parts(shard, workers), votes_per_unit=2) as electorate:
            for turn in (1, 2, 3):
                counts = electorate.count(candidates(500), turn)
                assert np.array_equal(counts, local.count(candidates(500), turn))
            assert electorate.fingerprint(SALT) == local.fingerprint(SALT)
            assert (electorate.unit, electorate.units) == ("user", len(set(users)))

    def test_texts_with_labels_and_users_in_files(self, tmp_path: Path) -> None:
        rows = [{**row, "stars": 1 + i % 3} for i, row in enumerate(private_rows(120))]
        for name, some in {"a": rows[:50], "b": rows[50:], "all": rows}.items():
            (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in some))
        shard = TextShard(str(tmp_path / "[ab].jsonl"), MiniLM, "review", "stars", "who", labels=("1", "2", "3"))
        whole = replace(shard, files=str(tmp_path / "all.jsonl")).read()
        records = load_texts(tmp_path / "all.jsonl", "review", "stars", "who")
        local = TextElectorate(records, whole.points, 2)
        public = np.concatenate([whole.points[::7], -whole.points[::11]])
        with RayElectorate(in_parts(shard, 2), votes_per_unit=2) as electorate:
            assert electorate.fingerprint(SALT) == local.fingerprint(SALT)
            assert np.array_equal(electorate.count(public, 2), local.count(public, 2))


class TestWorkersThatDie:
    def test_one_killed_while_it_counts_changes_nothing(self, folder: Path) -> None:
        expected = LocalElectorate(points_of(folder)).count(candidates(6_000), 1)
        with RayElectorate(in_parts(PointShard(str(folder / "points.npy")), 2)) as electorate:
            first = electorate.pids
            with killed_at_work(first[1]) as killed:
                counts = electorate.count(candidates(6_000), 1)
            assert killed.is_set()
            assert electorate.replaced == 1
            assert electorate.pids[0] == first[0]
            assert electorate.pids[1] != first[1]
            assert np.array_equal(counts, expected)
            assert electorate.fingerprint(SALT) == LocalElectorate(points_of(folder)).fingerprint(SALT)

    def test_all_killed_between_two_rounds_change_nothing(self, folder: Path) -> None:
        expected = LocalElectorate(points_of(folder, 1_000)).count(candidates(50), 1)
        with RayElectorate(in_parts(PointShard(some_of(folder, 1_000).file), 2)) as electorate:
            for pid in electorate.pids:
                os.kill(pid, signal.SIGKILL)
            assert np.array_equal(electorate.count(candidates(50), 1), expected)
            assert electorate.replaced == 2

    def test_a_run_with_one_killed_in_every_round_ends_as_in_one_process(self, folder: Path, tmp_path: Path) -> None:
        whole, _ = small_run(tmp_path / "local", LocalElectorate(points_of(folder)))
        with Mortal(in_parts(PointShard(str(folder / "points.npy")), 2)) as electorate:
            state, releases = small_run(tmp_path / "ray", electorate)
            assert electorate.killed == [True] * PLAN.rounds
            assert electorate.replaced == PLAN.rounds
        assert releases == PLAN.rounds
        assert np.array_equal(state.synthetic, whole.synthetic)
        assert state.votes is not None
        assert whole.votes is not None
        assert np.array_equal(state.votes, whole.votes)

    def test_a_shard_that_is_gone_for_good_is_an_error_and_releases_nothing(self, folder: Path, tmp_path: Path) -> None:
        shard = PointShard(some_of(folder, 1_000, "gone").file)
        with RayElectorate(in_parts(shard, 2)) as electorate:
            Path(shard.file).unlink()
            os.kill(electorate.pids[0], signal.SIGKILL)
            with pytest.raises(InputError, match=r"on worker 0: .*gone-points.npy cannot be read"):
                small_run(tmp_path / "run", electorate)
        ledger = Ledger(tmp_path / "run.ledger")
        assert ledger.releases() == ()
        ledger.close()

    def test_a_shard_that_changed_is_an_error(self, folder: Path) -> None:
        shard = PointShard(some_of(folder, 1_000, "changed").file)
        with RayElectorate(in_parts(shard, 2)) as electorate:
            np.save(shard.file, points_of(folder, 1_001))
            os.kill(electorate.pids[1], signal.SIGKILL)
            with pytest.raises(RunError, match="on worker 1: the files changed"):
                electorate.count(candidates(5), 1)

    def test_one_that_dies_again_and_again_is_an_error(self) -> None:
        with pytest.raises(ServiceError, match=r"worker 0 died 3 times .* nothing was released"):
            RayElectorate([Deadly()])

    def test_a_machine_that_is_not_there_is_an_error(self, folder: Path) -> None:
        shard = PointShard(str(folder / "points.npy"), node="192.0.2.77")
        with pytest.raises(
            ServiceError, match=r"worker 0 could not be started \(no machine took it within 3 seconds\)"
        ):
            RayElectorate([shard], patience=3)


class TestRefusals:
    def test_a_user_on_two_workers(self, folder: Path) -> None:
        one, other = some_of(folder, 500, "one"), some_of(folder, 400, "other")
        np.save(other.users or "", np.load(other.users or "") + 100_000)
        with RayElectorate([one, other]) as electorate:
            assert electorate.units == len(set(np.load(one.users or ""))) + len(set(np.load(other.users or "")))
        users = np.load(other.users or "")
        users[399] = np.load(one.users or "")[7]
        np.save(other.users or "", users)
        with pytest.raises(PrivacyError, match="both hold records of one user") as caught:
            RayElectorate([one, other])
        assert str(users[399]) not in str(caught.value)

    def test_a_file_that_two_workers_read(self, folder: Path) -> None:
        shard = PointShard(some_of(folder, 100).file)
        with pytest.raises(PrivacyError, match=r"workers \[0, 1\]"):
            RayElectorate([shard, shard])
        with pytest.raises(PrivacyError, match="vote twice or never"):
            RayElectorate(in_parts(shard, 3)[:2])

    def test_shards_of_different_kinds(self, folder: Path) -> None:
        narrow = folder / "narrow.npy"
        np.save(narrow, points_of(folder, 10)[:, :5])
        with pytest.raises(InputError, match="vectors of width 5 without users and vectors of width 256 without users"):
            RayElectorate([PointShard(str(narrow)), PointShard(some_of(folder, 100).file)])
        with pytest.raises(InputError, match="at least one shard"):
            RayElectorate([])


class TestWhatLeavesAWorker:
    def test_no_word_of_a_foreign_exception(self) -> None:
        with pytest.raises(ServiceError, match="worker 0 failed with KeyError") as caught:
            RayElectorate([Broken()])
        assert SECRET not in str(caught.value)
        assert SECRET not in repr(caught.value.__cause__)
        assert caught.value.__context__ is None

    def test_neither_counts_nor_digests_get_into_the_object_store(self, folder: Path) -> None:
        import ray  # noqa: PLC0415  (the fixture has it started)
        from ray.experimental import get_local_object_locations  # noqa: PLC0415  (likewise)

        with Watched(in_parts(PointShard(some_of(folder, 20_000).file), 2)) as electorate:
            electorate.count(candidates(40_000, 256), 1)
            electorate.fingerprint(SALT)
            places = get_local_object_locations(electorate.answers)
            assert len(places) == len(electorate.answers) >= 2 * 4 + 2 * 4
            assert all(place["node_ids"] == [] for place in places.values())
            assert sum(place["object_size"] for place in places.values()) > 40_000 * 8 * 2 + 20_000 * 32
            large = ray.put(np.zeros(100_000))
            assert get_local_object_locations([large])[large]["node_ids"] != []  # so that it could be seen


class Watched(RayElectorate):
    """Keeps the references to all answers of its workers."""

    def __init__(self, shards: list[PointShard]) -> None:
        self.answers: list[Any] = []
        super().__init__(shards)
        take = self._crew.take

        def keeping(number: int, references: list[Any]) -> list[Any]:
            self.answers += references
            return take(number, references)

        self._crew.take = keeping  # type: ignore[method-assign]


class Mortal(RayElectorate):
    """Loses a worker in the middle of each of its counts."""

    def __init__(self, shards: list[PointShard]) -> None:
        super().__init__(shards)
        self.killed: list[bool] = []

    def count(self, candidates: Points, turn: int) -> Counts:
        with killed_at_work(self.pids[turn % 2]) as killed:
            counts = super().count(candidates, turn)
        self.killed.append(killed.is_set())
        return counts


@cache
def generator() -> GaussianGenerator:
    return GaussianGenerator.isotropic(StartFromBox((-2.0,) * 256, (2.0,) * 256), 256)


def small_run(folder: Path, electorate: LocalElectorate | RayElectorate) -> tuple[State, int]:
    ledger = Ledger(f"{folder}.ledger", Budget(PLAN.epsilon, PLAN.delta))
    try:
        state, _ = run(
            folder, PLAN, generator(), IdentityEmbedder(), electorate, Ranking(), ledger, noise=SeededNoise(5)
        )
        return state, len(ledger.releases())
    finally:
        ledger.close()
