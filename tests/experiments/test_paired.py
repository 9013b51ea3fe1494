"""Differences by seed: those of the runs, the last round of them, against a t-interval computed by another way."""

import csv
import sys
from pathlib import Path

import numpy as np
import pytest
from experiments.paper_text import paired
from scipy.stats import ttest_rel

from gape.core.errors import InputError

KEPT = Path(__file__).parents[2] / "experiments" / "paper_text" / "results" / "pubmed-corpus-m500"


def write(path: Path, rows: list[dict[str, object]]) -> Path:
    fields = ("method", "epsilon", "seed", "round", "scored_by", "sinkhorn", "recall")
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fields)
        writer.writeheader()
        writer.writerows(rows)
    return path


def row(
    method: str, epsilon: object, seed: int, turn: int, recall: float, sinkhorn: float, part: str = "held out"
) -> dict[str, object]:
    named = {"method": method, "epsilon": epsilon, "seed": seed, "round": turn, "scored_by": part}
    return {**named, "sinkhorn": sinkhorn, "recall": recall}


def test_differences_are_by_seed_after_the_last_round_with_the_interval_of_a_paired_t_test(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = rng.random((2, 5, 2))
    rows = []
    for name, scores in zip(("gape", "augpe"), values, strict=True):
        for seed in rng.permutation(5).tolist():
            for turn in (10, 2, 0):  # neither the order in the file nor that of numbers as text may matter
                recall, w1 = scores[seed] if turn == 10 else (0.0, 9.0)
                rows += [row(name, 1.0, seed, turn, recall, w1), row(name, 1.0, seed, turn, 0.5, 0.5, "voters")]
    rows += [row("augpe", 1.0, 7, 10, 0.9, 0.9), row("real", "", 0, 0, 0.3, 0.3), row("gape", 4.0, 0, 10, 0.1, 0.1)]
    (found,) = paired.paired(paired.last_scores(write(tmp_path / "results.csv", rows)), "gape", "augpe")
    assert (found["epsilon"], found["seeds"]) == ("1", "5")
    for place, (name, sign) in enumerate((("recall", 1), ("Sinkhorn W1", -1))):
        mine, theirs = sign * values[0, :, place], sign * values[1, :, place]
        low, high = ttest_rel(mine, theirs).confidence_interval(0.95)
        mean, reach = map(float, found[f"{name}, better by"].split(" ± "))
        assert (mean - reach, mean + reach) == pytest.approx((low, high), abs=1.1e-4)
        assert float(found[f"{name}, GAPE"]) == pytest.approx(values[0, :, place].mean(), abs=5.1e-5)
        assert float(found[f"{name}, AugPE"]) == pytest.approx(values[1, :, place].mean(), abs=5.1e-5)


def test_one_seed_has_no_interval_and_an_epsilon_that_the_paper_lacks_no_figure(tmp_path: Path) -> None:
    rows = [row(name, epsilon, 3, 1, 0.5, 0.5) for name in ("gape", "augpe") for epsilon in (3.0, 8.0)]
    scores = paired.last_scores(write(tmp_path / "results.csv", rows))
    other, known = paired.paired(scores, "gape", "augpe", "reddit")
    assert known["recall, better by"] == "+0.0000"
    printed = [value for name, value in known.items() if name.startswith("the paper's")]
    assert printed == ["0.3354", "0.3241", "-0.0113"]
    assert {value for name, value in other.items() if name.startswith("the paper's")} == {""}


def test_a_folder_of_results_gets_its_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "results.csv").write_bytes((KEPT / "results.csv").read_bytes())
    monkeypatch.setattr(sys, "argv", ["paired.py", str(tmp_path), "--paper", "pubmed"])
    paired.main()
    text = (tmp_path / "paired.md").read_text()
    assert text == (KEPT / "paired.md").read_text()
    table = (KEPT / "table.md").read_text()  # which the comparison made of its cells, by its own way
    (recall,) = (line for line in table.splitlines() if line.startswith("| recall, GAPE less AugPE"))
    assert [line.split(" | ")[4] for line in text.splitlines()[2:]] == recall.strip("| ").split(" | ")[1:]


def test_what_cannot_be_compared_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no .*results\.csv"):
        paired.last_scores(tmp_path / "results.csv")
    scores = paired.last_scores(write(tmp_path / "results.csv", [row("gape", 1.0, 0, 1, 0.5, 0.5)]))
    with pytest.raises(InputError, match="no seed has runs of both gape and augpe"):
        paired.paired(scores, "gape", "augpe")
