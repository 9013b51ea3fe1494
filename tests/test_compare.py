"""Grids of runs: the same whatever runs beside them, resumed after a kill, and marked as what they are."""

import csv
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing, nullcontext
from dataclasses import dataclass, replace
from hashlib import blake2b
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, cast

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import ttest_rel

import faulty_server
from faulty_server import FaultyServer
from gape.compare import (
    Cell,
    Comparison,
    Grid,
    Method,
    Moment,
    Parts,
    Study,
    by_voters,
    compare,
    held_out,
    read_comparison,
)
from gape.compare.cell import Known, Result, Score, Split, Turn
from gape.compare.pool import _Office, _Worker
from gape.compare.results import Estimate
from gape.compare.shared import SharedPoints
from gape.compare.texts import Scoring, compare_texts
from gape.embedders.cached import Cached
from gape.embedders.minilm import MiniLM
from gape.errors import InputError, PrivacyError, RunError
from gape.evolve import evolve
from gape.generators.corpus import CorpusText
from gape.generators.prompted import PromptedText
from gape.language.request import LanguageModel, Request
from gape.language.scripted import ScriptedModel
from gape.language.stored import Stored
from gape.plan import Plan
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.prompts import load
from gape.protocols import Embedder, Generator, Selector
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking
from gape.selection.subsampling import Subsampling
from gape.settings import Settings
from gape.types import Points, Samples
from gape.voting.electorate import LocalElectorate
from generators.writing import write
from made_up import leaks, private_rows, public_texts, write_corpus, write_csv

PLAN = Plan(epsilon=1.0, delta=1e-3, rounds=2, samples=8, scales=(0.3, 0.7))
STUDY = Study(PLAN, scored=40)
TESTS = Path(__file__).parent


class Words:
    """A light embedder: every word a fixed direction in 24 dimensions, a text their normed sum; it counts texts."""

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed(self, samples: Samples) -> Points:
        self.embedded += samples.tolist()
        points = np.array([np.sum([_direction(word) for word in text.split()], axis=0) for text in samples])
        unit: Points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
        return unit


def _direction(word: str) -> Any:
    return np.random.default_rng(list(blake2b(word.encode(), digest_size=8).digest())).standard_normal(24)


@dataclass(frozen=True)
class CorpusBuilder:
    texts: tuple[str, ...]

    def __call__(self, model: LanguageModel | None, embedder: Embedder) -> tuple[Generator, Embedder]:
        return CorpusText(self.texts, embedder), embedder


@dataclass(frozen=True)
class PromptsBuilder:
    def __call__(self, model: LanguageModel | None, embedder: Embedder) -> tuple[Generator, Embedder]:
        assert model is not None
        return PromptedText(model, load("forum")), embedder


@dataclass(frozen=True)
class Broken:
    error: Exception

    def __call__(self, model: LanguageModel | None, embedder: Embedder) -> tuple[Generator, Embedder]:
        raise self.error


@dataclass(frozen=True)
class Dying:
    """Ends the process it gets into, as the system does when memory runs out; not that of the tests."""

    parent: int

    def __call__(self, model: LanguageModel | None, embedder: Embedder) -> tuple[Generator, Embedder]:
        assert os.getpid() != self.parent
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def ranking(plan: Plan, units: int) -> Selector:
    return Ranking()


def subsampling(plan: Plan, units: int) -> Selector:
    return Subsampling()


def gape_rule(plan: Plan, units: int) -> Selector:
    return Gape(math.inf, threshold=plan.sigma, spare=2.0, signed=False)


METHODS = (Method("gape", gape_rule), Method("augpe", ranking), Method("subsamplepe", subsampling, {"keep": False}))
GRID = Grid(METHODS, (1.0, math.inf), (0, 1))


def private_texts(count: int = 200) -> Samples:
    return np.array([row["review"] for row in private_rows(count)], dtype=object)


def private_points() -> Points:
    return Words().embed(private_texts())


def run_grid(
    folder: Path, grid: Grid = GRID, study: Study = STUDY, jobs: int = 1, embedder: Words | None = None, **more: Any
) -> Comparison:
    points = private_points()
    parts = Parts(points, Cached(embedder or Words()), more.pop("build", CorpusBuilder(tuple(public_texts()))))
    return compare(folder, grid, study, nullcontext(parts), LocalElectorate(points).fingerprint, jobs=jobs, **more)


def cells(folder: Path) -> dict[str, Any]:
    """All cells of a folder, without what a clock decides."""
    found = {path.stem: json.loads(path.read_text()) for path in (folder / "cells").glob("*.json")}
    for cell in found.values():
        del cell["seconds"], cell["processor_seconds"]
    return found


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Comparison]:
    """The grid, run in this process without interruption."""
    folder = tmp_path_factory.mktemp("compare") / "whole"
    return folder, run_grid(folder)


class TestReading:
    def test_a_folder_is_read_without_running_anything(self, whole: tuple[Path, Comparison], tmp_path: Path) -> None:
        copied = tmp_path / "copied"
        shutil.copytree(whole[0], copied)
        table = (copied / "table.md").read_text()
        (copied / "table.md").unlink()
        found = read_comparison(copied)
        assert found.study.common() == whole[1].study.common()  # epsilon and seed of its plan are those of a cell
        assert replace(found, study=whole[1].study) == whole[1]
        assert (copied / "table.md").read_text() == table

    def test_cells_that_were_brought_count_and_missing_ones_are_left_out(
        self, whole: tuple[Path, Comparison], tmp_path: Path
    ) -> None:
        copied = tmp_path / "copied"
        shutil.copytree(whole[0], copied)
        for path in (copied / "cells").glob("subsamplepe--*"):
            path.unlink()
        found = read_comparison(copied)
        assert found.methods == ("gape", "augpe")
        assert found.results == tuple(each for each in whole[1].results if each.cell.method != "subsamplepe")

    def test_what_is_no_comparison_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(RunError, match="is not the folder of a comparison"):
            read_comparison(tmp_path)


class TestCells:
    def test_a_cell_is_a_run_of_the_loop_scored_by_those_who_did_not_vote(self, whole: tuple[Path, Comparison]) -> None:
        order = np.random.default_rng([1, *b"split"]).permutation(200)
        points, embedder = private_points(), Words()
        plan = Plan(epsilon=1.0, delta=1e-3, rounds=2, samples=8, scales=(0.3, 0.7), seed=1)
        with closing(Ledger(":memory:", Budget(math.inf, 1e-3))) as ledger:
            generator = CorpusText(public_texts(), embedder)
            electorate = LocalElectorate(points[order[40:]])
            account = Account(ledger, "x")
            *_, end = evolve(plan, generator, embedder, electorate, Ranking(), account, noise=SeededNoise(1))
        left = points[order[:40]].astype(np.float64)
        gaps = np.linalg.norm(left[:, None] - left[None], axis=2)
        radii = np.sort(gaps, axis=1)[:, 3]
        nearest = np.linalg.norm(left[:, None] - embedder.embed(end.synthetic)[None], axis=2).min(axis=1)
        cell = cells(whole[0])["augpe--eps-1--seed-1"]
        assert cell["turns"][-1]["held_out"]["recall"] == pytest.approx(np.mean(nearest <= radii))
        assert cell["turns"][-1]["held_out"]["distance"] == pytest.approx(nearest.mean(), rel=1e-5)
        assert cell["sigma"] == plan.sigma
        assert (cell["units"], cell["scored"]) == (160, 40)
        assert [turn["round"] for turn in cell["turns"]] == [0, 1, 2]

    def test_what_runs_beside_a_cell_does_not_change_it(self, whole: tuple[Path, Comparison], tmp_path: Path) -> None:
        embedder = Words()
        run_grid(tmp_path / "two", jobs=2, embedder=embedder)
        assert cells(tmp_path / "two") == cells(whole[0])
        assert sorted(embedder.embedded) == sorted(public_texts())  # no text twice, by whichever cell it is asked for
        assert len(cells(whole[0])) == 3 * 2 * 2 + 2

    def test_all_cells_of_a_seed_begin_alike(self, whole: tuple[Path, Comparison]) -> None:
        for seed in (0, 1):
            starts = [cell["turns"][0] for name, cell in cells(whole[0]).items() if f"--seed-{seed}" in name]
            starts = [start for start in starts if start["voters"] is not None]  # real records have no start
            assert len(starts) == 6
            assert all(start == starts[0] for start in starts)
        assert starts[0] != cells(whole[0])["gape--eps-1--seed-0"]["turns"][0]

    def test_methods_differ_and_noise_is_heard(self, whole: tuple[Path, Comparison]) -> None:
        ends = {name: json.dumps(cell["turns"][-1]) for name, cell in cells(whole[0]).items()}
        assert ends["gape--eps-1--seed-0"] != ends["gape--eps-inf--seed-0"]
        assert len({ends[f"{name}--eps-1--seed-0"] for name in ("gape", "augpe", "subsamplepe")}) == 3
        no_noise = whole[1].at_end("augpe", math.inf, by_voters("distance")).mean
        assert no_noise < whole[1].at_start(by_voters("distance")).mean  # selection brings texts nearer

    def test_the_model_is_asked_once_for_what_cells_share(self, tmp_path: Path) -> None:
        points, model = private_points(), ScriptedModel(write)
        with closing(Stored(model, tmp_path / "answers.sqlite")) as stored:
            parts = Parts(points, Cached(Words()), PromptsBuilder(), stored)
            plan = Plan(epsilon=1.0, delta=1e-3, rounds=1, samples=4, scales=(1.0,), copies=2)
            grid = Grid(METHODS[:2], (1.0, math.inf), (0,))
            electorate = LocalElectorate(points)
            compare(tmp_path / "out", grid, Study(plan), nullcontext(parts), electorate.fingerprint, jobs=2)
        assert len(model.calls) == len(set(model.calls)) == 4 + 4 * 2  # start and variations, of all four cells


class TestMethods:
    def test_a_method_may_bring_its_own_generator_and_a_last_pass(self, tmp_path: Path) -> None:
        same = "We have seen this film before, in another town and with other people, but it ended as it always does. "
        points, model = (
            private_points(),
            ScriptedModel(lambda _: f"{same}Nobody laughed, nobody cried, and then we left."),
        )
        own = replace(METHODS[0], name="own", build=CorpusBuilder(tuple(public_texts())), last_pass=True)
        parts = Parts(points, Cached(Words()), PromptsBuilder(), model, Known(texts=private_texts().tolist()))
        plan = Plan(epsilon=1.0, delta=1e-3, rounds=1, samples=6, scales=(0.9,), copies=2)
        grid, electorate = Grid((METHODS[0], own), (math.inf,), (0,)), LocalElectorate(points)
        compare(tmp_path / "out", grid, Study(plan), nullcontext(parts), electorate.fingerprint)
        usual, other = (
            cells(tmp_path / "out")[f"{name}--eps-inf--seed-0"]["turns"] for name in (METHODS[0].name, "own")
        )
        assert usual[0]["repetition"]["openings"] == 1 / 6
        assert other[0]["repetition"]["openings"] > 1 / 6
        assert other[-1]["repetition"]["repeating"] == 0
        settings = (tmp_path / "out" / "settings.toml").read_text()
        assert "CorpusBuilder" in settings
        assert ", last pass" in settings


class TestFolder:
    def test_everything_says_that_it_is_not_private(self, whole: tuple[Path, Comparison]) -> None:
        folder = whole[0]
        assert folder.stat().st_mode & 0o777 == 0o700
        names = {"README.md", "settings.toml", "table.md", "results.csv", "results.parquet"}
        names |= {f"{name}.{kind}" for name in ("figure", "further", "rounds") for kind in ("png", "svg")}
        assert {path.name for path in folder.iterdir()} == {*names, "cells"}
        for name in ("README.md", "settings.toml", "table.md"):
            assert "NOT differentially private" in (folder / name).read_text()
        for cell in cells(folder).values():
            assert cell["differentially_private"] is False
        with (folder / "results.csv").open() as file:
            rows = list(csv.DictReader(file))
        assert {row["differentially_private"] for row in rows} == {"False"}
        table = pq.read_table(folder / "results.parquet")
        assert not any(table["differentially_private"].to_pylist())
        assert table.num_rows == len(rows) == 12 * 3 * 2 + 2
        assert leaks(folder) == []

    def test_a_finished_grid_runs_nothing(self, whole: tuple[Path, Comparison]) -> None:
        before = {path: path.stat().st_mtime_ns for path in (whole[0] / "cells").glob("*.json")}
        again = run_grid(whole[0], build=Broken(InputError("nothing is to be built")))
        assert again == whole[1]
        assert {path: path.stat().st_mtime_ns for path in (whole[0] / "cells").glob("*.json")} == before

    def test_a_larger_grid_adds_to_what_is_there(self, whole: tuple[Path, Comparison], tmp_path: Path) -> None:
        folder = tmp_path / "out"
        run_grid(folder, Grid(METHODS[:1], (math.inf,), (1,)))
        kept = {path: path.stat().st_mtime_ns for path in (folder / "cells").glob("*.json")}
        run_grid(folder, Grid(METHODS[1:], (1.0,), (1,)))
        more = run_grid(folder)
        assert {path: path.stat().st_mtime_ns for path in kept} == kept
        assert cells(folder) == cells(whole[0])
        assert (more.methods, more.epsilons, more.seeds) == (whole[1].methods, whole[1].epsilons, whole[1].seeds)
        assert (folder / "table.md").read_text() == (whole[0] / "table.md").read_text()
        settings = (folder / "settings.toml").read_text()
        assert 'methods = ["gape", "augpe", "subsamplepe"]' in settings
        assert "seeds = [1, 0]" in settings

    def test_another_study_is_refused(self, whole: tuple[Path, Comparison]) -> None:
        other = Study(PLAN, scored=40, k=4)
        with pytest.raises(RunError, match="was started with k 3, not 4, and its cells could not be compared"):
            run_grid(whole[0], study=other)
        with pytest.raises(RunError, match="was started with held_out"):
            run_grid(whole[0], study=Study(PLAN, held_out=0.3, scored=40))
        with pytest.raises(RunError, match="was started with method augpe '<function ranking>'"):
            run_grid(whole[0], Grid((Method("augpe", subsampling),), (1.0,), (0,)))
        points = private_points()[:-1]
        parts = nullcontext(Parts(points, Words(), CorpusBuilder(tuple(public_texts()))))
        with pytest.raises(RunError, match="compares methods on other data"):
            compare(whole[0], GRID, STUDY, parts, LocalElectorate(points).fingerprint)

    def test_another_model_of_the_same_name_is_refused(self, tmp_path: Path) -> None:
        points, folder = private_points(), tmp_path / "out"

        def run(seeds: tuple[int, ...], **made_by: str) -> Comparison:
            parts = Parts(points, Words(), CorpusBuilder(tuple(public_texts())), made_by=made_by)
            grid = Grid(METHODS[1:2], (math.inf,), seeds)
            return compare(folder, grid, STUDY, nullcontext(parts), LocalElectorate(points).fingerprint)

        run((0,), model="weights 1", embedder="words")
        before = cells(folder)
        with pytest.raises(RunError, match="was made by the model 'weights 1', not 'weights 2', and could not be"):
            run((0, 1), model="weights 2", embedder="words")
        assert cells(folder) == before
        run((0,), model="weights 2", embedder="words")  # nothing is missing, so nothing is loaded or run
        for path in (folder / "cells").glob("*--seed-0.json"):  # as if an older version had made them
            kept = json.loads(path.read_text())
            path.write_text(json.dumps({name: value for name, value in kept.items() if name != "made_by"}))
        run((0, 1), model="weights 2", embedder="words")
        assert cells(folder)["augpe--eps-inf--seed-1"]["made_by"] == {"model": "weights 2", "embedder": "words"}

    def test_a_foreign_folder_is_left_alone(self, tmp_path: Path) -> None:
        (tmp_path / "thesis.txt").write_text("")
        with pytest.raises(RunError, match="is not the folder of a comparison"):
            run_grid(tmp_path)
        assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]

    def test_one_that_was_killed_before_its_settings_is_taken(self, tmp_path: Path) -> None:
        (tmp_path / "out" / "cells").mkdir(parents=True)
        (tmp_path / "out" / ".settings.toml.77.tmp").write_text("[gr")
        study = Study(PLAN, scored=40, described={"the weather": 'a "fine" day'})
        run_grid(tmp_path / "out", Grid(METHODS[:1], (math.inf,), (0,)), study)
        assert not list(tmp_path.rglob("*.tmp"))
        with pytest.raises(RunError, match="was started with the weather"):
            run_grid(tmp_path / "out")

    def test_two_processes_cannot_use_one_folder(self, tmp_path: Path) -> None:
        def again(now: Moment) -> None:
            with pytest.raises(RunError, match="in use by another process"):
                run_grid(tmp_path / "out")
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_grid(tmp_path / "out", progress=again)

    def test_a_damaged_cell_is_named(self, tmp_path: Path) -> None:
        grid = Grid(METHODS[:1], (math.inf,), (0,))
        run_grid(tmp_path / "out", grid)
        (tmp_path / "out" / "cells" / "gape--eps-inf--seed-0.json").write_text('{"version": 1}\n')
        with pytest.raises(RunError, match=r"gape--eps-inf--seed-0\.json is not a cell of a comparison; remove it"):
            run_grid(tmp_path / "out", grid)


class TestInterruption:
    def test_killed_it_goes_on_without_repeating_a_cell(self, whole: tuple[Path, Comparison], tmp_path: Path) -> None:
        folder = tmp_path / "killed"
        code = f"import test_compare, pathlib; test_compare.run_grid(pathlib.Path({str(folder)!r}), jobs=2)"
        environment = {**os.environ, "PYTHONPATH": str(TESTS)}
        process = subprocess.Popen([sys.executable, "-c", code], env=environment, start_new_session=True)
        until = time.monotonic() + 60
        while len(list((folder / "cells").glob("*.json"))) < 4:
            assert process.poll() is None
            assert time.monotonic() < until
            time.sleep(0.002)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        while _group_lives(process.pid):  # workers end with their parent
            assert time.monotonic() < until
            time.sleep(0.01)
        kept = {path: path.stat().st_mtime_ns for path in (folder / "cells").glob("*.json")}
        assert 4 <= len(kept) < 14
        told: list[str] = []
        run_grid(folder, jobs=2, progress=lambda now: told.append(now.doing))
        assert {path: path.stat().st_mtime_ns for path in kept} == kept
        assert sum(doing.endswith("done") for doing in told) == 14 - len(kept)
        assert cells(folder) == cells(whole[0])
        assert (folder / "table.md").read_text() == (whole[0] / "table.md").read_text()
        assert not list(folder.rglob("*.tmp"))

    def test_what_goes_wrong_in_a_worker_is_said_here(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no such corpus"):
            run_grid(tmp_path / "a", jobs=2, build=Broken(InputError("no such corpus")))
        with pytest.raises(RuntimeError, match=r"failed with ValueError in test_compare\.py line \d+") as raised:
            run_grid(tmp_path / "b", jobs=2, build=Broken(ValueError("a private text")))
        assert "private text" not in str(raised.value)
        with pytest.raises(RunError, match=r"ended with code -9 .*use fewer jobs"):
            run_grid(tmp_path / "c", jobs=2, build=Dying(os.getpid()))

    @pytest.mark.parametrize(("workers", "shares"), [(1, [1]), (2, [1, 1]), (3, [2, 1]), (5, [3, 2]), (8, [4, 4])])
    def test_the_model_answers_half_of_the_workers_while_the_others_compute(
        self, workers: int, shares: list[int]
    ) -> None:
        pipes = [Pipe()[0] for _ in range(workers)]
        office = _Office([_Worker(cast(Any, None), pipe) for pipe in pipes], cast(Any, None), print, print)
        for pipe in pipes:
            office._asked.put((pipe, [Request("prompt")]))
        found = [list(office._waiting() or ()) for _ in shares]
        assert [len(some) for some in found] == shares
        assert [pipe for some in found for pipe in some] == pipes

    def test_the_model_answers_second_tries_first_and_no_more_than_keep_it_busy(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("gape.compare.pool._ENOUGH", 30)
        pipes = [Pipe()[0] for _ in range(10)]
        office = _Office([_Worker(cast(Any, None), pipe) for pipe in pipes], cast(Any, None), print, print)

        free = iter(pipes)

        def answered(*counts: int) -> list[int]:
            for count in counts:
                office._asked.put((next(free), [Request("prompt")] * count))
            return [len(requests) for requests in (office._waiting() or {}).values()]

        assert answered(16, 16, 16) == [16, 16]  # enough of them
        assert answered(2, 16, 1) == [2, 1]
        assert answered(3) == [16, 16]  # more than an eighth waits for its turn
        assert answered() == [3]

    def test_shared_points_have_no_name(self) -> None:
        points = private_points()
        with closing(SharedPoints(points)) as shared:
            read = shared.read()
            assert np.array_equal(read, points)
            assert not read.flags.writeable
            assert not Path(f"/proc/self/fd/{shared._descriptor}").readlink().exists()


class TestSplit:
    def test_a_user_is_on_one_side(self) -> None:
        points = np.arange(400, dtype=np.float32).reshape(200, 2)
        users = [f"user {i % 23}" for i in range(200)]
        split = Split.of(points, Known(users), Study(PLAN, held_out=0.4, scored=500), seed=3)
        owner = {tuple(point): user for point, user in zip(points.tolist(), users, strict=True)}
        out = {owner[tuple(point)] for point in split.held_out.tolist()}
        assert split.known.units == [owner[tuple(point)] for point in split.voters.tolist()]
        assert len(out) == 9
        assert len(set(split.known.units)) == 14
        assert not out & set(split.known.units)

    def test_both_parts_score_with_as_many(self) -> None:
        split = Split.of(private_points(), Known(), Study(PLAN, scored=25), seed=0)
        assert (len(split.voters), len(split.held_out), len(split.again)) == (160, 25, 25)
        assert {row.tobytes() for row in split.again} <= {row.tobytes() for row in split.voters}

    def test_too_few_are_refused(self) -> None:
        with pytest.raises(InputError, match="of 10 private records 2 are held out and 8 vote"):
            Split.of(private_points()[:10], Known(), STUDY, seed=0)


class TestResults:
    def test_estimates_are_those_of_a_paired_test(self) -> None:
        rng = np.random.default_rng(0)
        mine, theirs = rng.random(6), rng.random(6)
        results = [_result(Cell(name, 1.0, seed), value) for name, values in (("a", mine), ("b", theirs))
                   for seed, value in enumerate(values.tolist())]  # fmt: skip
        comparison = Comparison.of(STUDY, results, ["a", "b"])
        found = comparison.difference("a", "b", 1.0, held_out("recall"))
        interval = ttest_rel(mine, theirs).confidence_interval(0.95)
        assert found.mean == pytest.approx((interval.low + interval.high) / 2)
        assert found.reach == pytest.approx((interval.high - interval.low) / 2)
        alone = comparison.at_end("a", 1.0, held_out("recall"))
        assert (alone.mean, alone.lowest, alone.highest) == pytest.approx((mine.mean(), mine.min(), mine.max()))
        assert math.isnan(comparison.at_end("a", 2.0, held_out("recall")).mean)
        assert math.isnan(Estimate((1.0,)).reach)

    def test_the_table_is_the_papers(self, whole: tuple[Path, Comparison]) -> None:
        text = (whole[0] / "table.md").read_text()
        recall = text.partition("## Recall of records that did not vote")[2].partition("##")[0]
        lines = [[part.strip() for part in line.split("|")[1:-1]] for line in recall.splitlines() if "|" in line]
        assert lines[0] == ["", "epsilon 1", "no noise"]
        assert [line[0] for line in lines[2:]] == ["GAPE", "AugPE", "SubsamplePE", "start", "as many real records"]
        found = [cells(whole[0])[f"gape--eps-1--seed-{seed}"]["turns"][-1]["held_out"]["recall"] for seed in (0, 1)]
        assert float(lines[2][1].split()[0]) == pytest.approx(np.mean(found), abs=1e-4)
        assert "recall, GAPE less AugPE" in text

    def test_the_seeds_of_a_mean_are_those_that_are_there(self, whole: tuple[Path, Comparison]) -> None:
        comparison = whole[1]
        assert comparison.seeds_of_a_mean == "2 seeds"
        missing = [each for each in comparison.results if not each.cell.real][:1]
        some = replace(comparison, results=tuple(each for each in comparison.results if each not in missing))
        assert some.seeds_of_a_mean == "1 to 2 seeds"
        alone = replace(comparison, results=tuple(each for each in comparison.results if each.cell.seed == 0))
        assert alone.seeds_of_a_mean == "one seed"

    @pytest.mark.parametrize("name", ["figure", "further", "rounds"])
    def test_the_figures_are_drawings_with_the_mark(self, whole: tuple[Path, Comparison], name: str) -> None:
        from matplotlib.image import imread  # noqa: PLC0415

        colours = np.unique(np.round(255 * imread(whole[0] / f"{name}.png")).astype(np.uint8).view(np.uint32))
        assert len(colours) > 50
        assert "NOT differentially private" in (whole[0] / f"{name}.svg").read_text()

    def test_without_matplotlib_there_are_tables(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "matplotlib", None)
        run_grid(tmp_path / "out", Grid(METHODS[:1], (math.inf,), (0,)))
        assert (tmp_path / "out" / "table.md").exists()
        assert not (tmp_path / "out" / "figure.png").exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Grid(METHODS, (0.0,), (0,)), "epsilons must be positive"),
        (lambda: Grid(METHODS, (1.0, 1.0), (0,)), "epsilons must be different"),
        (lambda: Grid((), (1.0,), (0,)), "methods must be different and at least one"),
        (lambda: Grid(METHODS, (1.0,), (-1,)), "seeds must not be negative"),
        (lambda: Method("a/b", ranking), "a method needs a name"),
        (lambda: Method("real", ranking), "other than real"),
        (lambda: Study(PLAN, held_out=1.0), "held_out must lie between 0 and 1"),
        (lambda: Study(PLAN, scored=3), "scored larger"),
        (lambda: Study(PLAN, blur=0.0), "blur must be positive"),
    ],
)
def test_what_cannot_be_compared_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()


class TestTexts:
    @pytest.fixture
    def settings(self, tmp_path: Path) -> Settings:
        data, corpus = write_csv(tmp_path / "reviews.csv", private_rows()), write_corpus(tmp_path / "public.txt")
        values = {"data": str(data), "text": "review", "generator": f"corpus:{corpus}", "samples": 5, "rounds": 1}
        return Settings.of(values)

    def test_presets_differ_in_what_makes_the_method_alone(self, settings: Settings, tmp_path: Path) -> None:
        found = compare_texts(settings, tmp_path / "out", epsilons=(4.0,), seeds=1, jobs=1)
        kept = cells(tmp_path / "out")
        assert found.methods == ("gape", "augpe", "subsamplepe")
        own = {name: kept[f"{name}--eps-4--seed-0"]["settings"] for name in found.methods}
        for name in ("augpe", "subsamplepe"):
            assert {key for key in own["gape"] if own["gape"][key] != own[name][key]} <= {"keep"}
        assert (own["augpe"]["keep"], own["subsamplepe"]["keep"]) == (True, False)
        assert own["gape"]["delta"] == pytest.approx(1 / (72 * math.log(72)))  # of 90 records 72 vote
        assert kept["augpe--eps-4--seed-0"]["selector"] == "Ranking()"
        assert kept["augpe--eps-4--seed-0"]["made_by"] == {"embedder": repr(MiniLM())}
        assert leaks(tmp_path, tmp_path / "reviews.csv") == []
        assert not list(tmp_path.glob("*ledger*"))  # no budget is spent
        start, end = kept["augpe--eps-4--seed-0"]["turns"]
        assert (start["lineages"], 1 <= end["lineages"] <= 5) == (start["samples"], True)
        real = kept["real--seed-0"]["turns"][0]
        assert real["lineages"] is None
        assert 0 <= real["repetition"]["repeating"] <= 1
        table = (tmp_path / "out" / "table.md").read_text()
        assert "## Texts that share eight words in a row with another one" in table
        assert "## Lineages of the start that are left" in table

    def test_what_holds_private_texts_shows_none(self) -> None:
        texts = [row["review"] for row in private_rows(60)]
        study = Study(Plan(epsilon=1.0, delta=1e-3, rounds=1, samples=3, scales=(0.5,)), 0.2, 10, 1, 0.05)
        split = Split.of(np.zeros((60, 2), dtype=np.float32), Known(texts, texts), study, 0)
        assert split.known.texts is not None
        assert split.tested.texts is not None
        assert not any(text in repr(split) for text in texts)

    def test_what_cells_side_by_side_wait_for_stays_embedded(
        self, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        sizes = []

        class Noted(Cached):
            def __init__(self, embedder: Embedder, size: int) -> None:
                super().__init__(embedder, size)
                sizes.append(size)

        monkeypatch.setattr("gape.compare.texts.Cached", Noted)
        monkeypatch.setattr("gape.compare.texts.CACHED", 50)
        for jobs, most in ((1, 10**6), (2, 10**6), (2, 60)):
            monkeypatch.setattr("gape.compare.texts._MOST_CACHED", most)
            few: dict[str, Any] = {"methods": ["ranking"], "epsilons": (4.0,), "seeds": 1, "jobs": jobs}
            compare_texts(settings, tmp_path / f"{jobs} {most}", **few)
        assert sizes == [50, 80, 60]  # a round has 5 samples with 7 variations each

    def test_labels_and_users_take_part(self, settings: Settings, tmp_path: Path) -> None:
        chosen = settings.with_values(label="stars", labels=("low", "mid", "high"), user="who", samples=6)
        compare_texts(chosen, tmp_path / "out", methods=["ranking"], epsilons=(math.inf,), seeds=1, jobs=1)
        cell = cells(tmp_path / "out")["ranking--eps-inf--seed-0"]
        assert cell["units"] == 32  # of 40 users
        assert "PerLabel" in cell["selector"]

    def test_labels_are_told_by_a_classifier(self, settings: Settings, tmp_path: Path) -> None:
        chosen = settings.with_values(label="stars", labels=("low", "mid", "high"), samples=6)
        compare_texts(chosen, tmp_path / "out", methods=["gape"], epsilons=[4.0], seeds=1, scoring=Scoring(k=1))
        assert "## Labels of records that did not vote" in (tmp_path / "out" / "table.md").read_text()
        for cell in cells(tmp_path / "out").values():
            assert 0 <= cell["turns"][-1]["label_accuracy"] <= 1

    def test_what_a_cell_decides_cannot_be_set(self, settings: Settings, tmp_path: Path) -> None:
        for name, value in {"epsilon": 1.0, "selector": "ranking", "ledger": "x", "budget_epsilon": 2.0}.items():
            with pytest.raises(InputError, match="a comparison"):
                compare_texts(settings.with_values(**{name: value}), tmp_path / "out")
        with pytest.raises(InputError, match="methods must be among gape, augpe"):
            compare_texts(settings, tmp_path / "out", methods=["best"])
        assert not (tmp_path / "out").exists()

    def test_private_texts_are_not_sent_away(self, settings: Settings, tmp_path: Path) -> None:
        chosen = settings.with_values(embedder="openai:tiny", embedder_base_url="http://127.0.0.1:9/v1")
        with pytest.raises(PrivacyError, match="would send the private text to another machine"):
            compare_texts(chosen, tmp_path / "out", epsilons=(1.0,), seeds=1, jobs=1)

    def test_a_service_is_asked_once_for_every_answer(
        self, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(faulty_server, "answer_to", lambda prompt, seed: write(Request(prompt, seed=seed)))
        few: dict[str, Any] = {"methods": ["ranking"], "epsilons": (4.0, math.inf), "seeds": 1, "jobs": 1}
        with FaultyServer() as server:
            service = {"generator": "openai:tiny", "base_url": server.url, "prompts": "forum"}
            chosen = settings.with_values(**service, copies=2, exact_votes_may_leave=True)
            told: list[tuple[str, str]] = []
            compare_texts(chosen, tmp_path / "out", progress=lambda now: told.append((now.doing, now.detail)), **few)
            assert len(server.bodies) == 5 + 5 * 2  # the start and the first variations, of both cells together
            assert ("writing", "15 answers so far") in told
            assert ("embedding the private records", "90 of 90") in told
            assert told[-1][1] == ""
            cell = tmp_path / "out" / "cells" / "ranking--eps-4--seed-0.json"
            before = cells(tmp_path / "out")
            cell.unlink()
            compare_texts(chosen, tmp_path / "out", **few)
            assert len(server.bodies) == 15
        assert cells(tmp_path / "out") == before
        assert leaks(tmp_path, tmp_path / "reviews.csv") == []

    def test_another_corpus_or_scoring_is_another_study(self, settings: Settings, tmp_path: Path) -> None:
        few: dict[str, Any] = {"methods": ["ranking"], "epsilons": (4.0,), "seeds": 1, "jobs": 1}
        compare_texts(settings, tmp_path / "out", **few)
        with pytest.raises(RunError, match="was started with blur"):
            compare_texts(settings, tmp_path / "out", scoring=Scoring(blur=0.1), **few)
        with (tmp_path / "public.txt").open("a") as file:
            file.write("One more.\n")
        with pytest.raises(RunError, match="was started with generator 'corpus of 160 texts"):
            compare_texts(settings, tmp_path / "out", **few)


def _result(cell: Cell, recall: float) -> Result:
    turn = Turn(0, 8, 8, Score(1.0, recall, 1.0, 1.0), None)
    return Result(cell, (turn,), 160, 40, 1.0, 1e-3, "", 1.0, 1.0)


def _group_lives(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True
