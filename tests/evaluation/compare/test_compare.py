"""What a comparison computes: cells that are runs of the loop, whatever runs beside them; and how it is read again."""

import json
import math
import shutil
from contextlib import closing, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evaluation.compare.grids import (
    METHODS,
    CorpusBuilder,
    PromptsBuilder,
    Words,
    cells,
    private_points,
    private_texts,
    run_grid,
)
from gape.core.errors import RunError
from gape.embedders.cached import Cached
from gape.evaluation.compare import (
    Comparison,
    Grid,
    Parts,
    Study,
    by_voters,
    compare,
    read_comparison,
)
from gape.evaluation.compare.cell import Known
from gape.evolution.evolve import evolve
from gape.evolution.plan import Plan
from gape.generators.corpus import CorpusText
from gape.language.scripted import ScriptedModel
from gape.language.stored import Stored
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.selection.ranking import Ranking
from gape.voting.electorate import LocalElectorate
from generators.writing import write
from made_up import public_texts

pytestmark = pytest.mark.usefixtures("without_matplotlib")


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
