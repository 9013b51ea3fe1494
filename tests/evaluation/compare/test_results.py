"""Who votes and who scores, and what the table and the figures make of it."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import ttest_rel

from evaluation.compare.grids import METHODS, PLAN, STUDY, cells, private_points, ranking, run_grid
from gape.core.errors import InputError
from gape.evaluation.compare import (
    Cell,
    Comparison,
    Grid,
    Method,
    Study,
    held_out,
)
from gape.evaluation.compare.cell import Known, Result, Score, ScoredRound, Split
from gape.evaluation.compare.figure import _styles
from gape.evaluation.compare.folder import MARK
from gape.evaluation.compare.results import SeedMean


def _result(cell: Cell, recall: float) -> Result:
    turn = ScoredRound(0, 8, 8, Score(1.0, recall, 1.0, 1.0), None)
    return Result(cell, (turn,), 160, 40, 1.0, 1e-3, "", 1.0, 1.0)


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
        assert (len(split.voters), len(split.held_out), len(split.scoring_voters)) == (160, 25, 25)
        assert {row.tobytes() for row in split.scoring_voters} <= {row.tobytes() for row in split.voters}

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
        assert math.isnan(SeedMean((1.0,)).reach)

    def test_the_table_is_the_papers(self, whole: tuple[Path, Comparison]) -> None:
        text = (whole[0] / "table.md").read_text()
        recall = text.partition("## Recall of records that did not vote")[2].partition("##")[0]
        lines = [[part.strip() for part in line.split("|")[1:-1]] for line in recall.splitlines() if "|" in line]
        assert lines[0] == ["", "epsilon 1", "no noise"]
        assert [line[0] for line in lines[2:]] == ["GAPE", "AugPE", "SubsamplePE", "start", "as many real records"]
        found = [cells(whole[0])[f"gape--eps-1--seed-{seed}"]["turns"][-1]["held_out"]["recall"] for seed in (0, 1)]
        assert float(lines[2][1].split()[0]) == pytest.approx(np.mean(found), abs=1e-4)
        assert "recall, GAPE less AugPE" in text

    def test_a_notebook_shows_the_means_under_the_mark(self, whole: tuple[Path, Comparison]) -> None:
        _, comparison = whole
        shown = comparison._repr_html_()
        assert MARK in shown
        assert shown.count("<table>") == 2
        for method in comparison.methods:
            for epsilon in comparison.epsilons:
                assert str(comparison.at_end(method, epsilon, held_out("recall"))) in shown

    def test_the_seeds_of_a_mean_are_those_that_are_there(self, whole: tuple[Path, Comparison]) -> None:
        comparison = whole[1]
        assert comparison.seeds_of_a_mean == "2 seeds"
        missing = [each for each in comparison.results if not each.cell.real][:1]
        some = replace(comparison, results=tuple(each for each in comparison.results if each not in missing))
        assert some.seeds_of_a_mean == "1 to 2 seeds"
        alone = replace(comparison, results=tuple(each for each in comparison.results if each.cell.seed == 0))
        assert alone.seeds_of_a_mean == "one seed"

    def test_several_starts_are_listed_and_one_is_not_repeated(self) -> None:
        def comparison(first: float, second: float) -> Comparison:
            results = []
            for name, sinkhorn in (("augpe", first), ("ranking:16", second)):
                result = _result(Cell(name, 1.0, 0), sinkhorn / 2)
                turn = replace(result.turns[0], held_out=replace(result.turns[0].held_out, sinkhorn=sinkhorn))
                results.append(replace(result, turns=(turn, turn)))
            return Comparison.of(STUDY, results, ["augpe", "ranking:16"])

        apart, together = comparison(1.0, 0.9).baselines(held_out("recall")), comparison(1.0, 1.0)
        assert {name: score.mean for name, score in apart.items() if score.values} == {
            "start of AugPE": 0.5,
            "start of Ranking, 16 votes": 0.45,
        }
        assert list(together.baselines(held_out("recall"), real=False)) == ["start"]

    def test_methods_of_one_rule_are_drawn_apart(self, tmp_path: Path) -> None:
        names = ("gape", "gape-paper", "augpe", "ranking", "ranking:1", "ranking:16")
        grid = Grid(tuple(Method(name, ranking) for name in names), (math.inf,), (0,))
        run_grid(tmp_path / "out", grid)
        drawn = (tmp_path / "out" / "figure.svg").read_text()
        for label in ("GAPE, paper", "AugPE", "Ranking", "Ranking, 1 vote", "Ranking, 16 votes"):
            assert f"<!-- {label} -->" in drawn
        styles = _styles(Comparison.of(STUDY, [_result(Cell(name, 1.0, 0), 1.0) for name in names], names))
        assert len(set(styles.values())) == len(names)
        assert (tmp_path / "out" / "cells" / "ranking=16--eps-inf--seed-0.json").exists()

    @pytest.mark.parametrize("name", ["figure", "further", "rounds"])
    def test_the_figures_are_drawings_with_the_mark(self, whole: tuple[Path, Comparison], name: str) -> None:
        from matplotlib.image import imread  # noqa: PLC0415

        colours = np.unique(np.round(255 * imread(whole[0] / f"{name}.png")).astype(np.uint8).view(np.uint32))
        assert len(colours) > 50
        assert "NOT differentially private" in (whole[0] / f"{name}.svg").read_text()

    @pytest.mark.usefixtures("without_matplotlib")
    def test_without_matplotlib_there_are_tables(self, tmp_path: Path) -> None:
        run_grid(tmp_path / "out", Grid(METHODS[:1], (math.inf,), (0,)))
        assert (tmp_path / "out" / "table.md").exists()
        assert not (tmp_path / "out" / "figure.png").exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Grid(METHODS, (0.0,), (0,)), "epsilons must be positive"),
        (lambda: Grid(METHODS, (1.0, 1.0), (0,)), "epsilons must be at least one and all different"),
        (lambda: Grid((), (1.0,), (0,)), "methods must be at least one and all different"),
        (lambda: Grid(METHODS, (1.0,), (-1,)), "seeds must not be negative"),
        (lambda: Method("a/b", ranking), "the name of a method must"),
        (lambda: Method("a:b", ranking), "the name of a method must"),
        (lambda: Method("a:", ranking), "the name of a method must"),
        (lambda: Method("real", ranking), "must not be .real."),
        (lambda: Study(PLAN, held_out=1.0), "held_out must lie between 0 and 1"),
        (lambda: Study(PLAN, scored=3), "scored larger"),
        (lambda: Study(PLAN, blur=0.0), "blur must be positive"),
    ],
)
def test_what_cannot_be_compared_is_refused(make: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make()
