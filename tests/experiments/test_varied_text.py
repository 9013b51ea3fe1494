"""The tables of experiments/varied_text are those of its stored results."""

import json
import re
from pathlib import Path
from statistics import fmean

import pytest

FOLDER = Path(__file__).parents[2] / "experiments" / "varied_text"
ROWS = {
    "Reddit, epsilon 1": ("reddit", "before--eps-1"),
    "Reddit, epsilon 4": ("reddit", "before--eps-4"),
    "as many real posts": ("reddit", "real"),
    "PubMed, epsilon 1": ("pubmed", "before--eps-1"),
    "PubMed, epsilon 4": ("pubmed", "before--eps-4"),
    "as many real abstracts": ("pubmed", "real"),
}


@pytest.mark.parametrize("row", ROWS)
def test_the_baseline_is_the_mean_of_three_stored_seeds(row: str) -> None:
    dataset, name = ROWS[row]
    ends = [
        json.loads(path.read_text())["turns"][-1]
        for path in sorted((FOLDER / "results" / dataset).glob(f"{name}--seed-*.json"))
    ]
    assert len(ends) == 3
    line = re.search(rf"^\| {re.escape(row)} \|(.*)\|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert line is not None
    recall, w1, repeating, openings, pairs, lineages, next_word = (cell.strip() for cell in line[1].split("|"))
    assert recall == f"{fmean(end['held_out']['recall'] for end in ends):.3f}".removeprefix("0")
    assert w1 == f"{fmean(end['held_out']['sinkhorn'] for end in ends):.3f}".removeprefix("0")
    assert repeating == f"{fmean(end['repetition']['repeating'] for end in ends):.0%}"
    assert openings == f"{fmean(end['repetition']['openings'] for end in ends):.0%}"
    assert pairs == f"{fmean(end['repetition']['pairs'] for end in ends):.3f}".removeprefix("0")
    assert next_word == f"{fmean(end['next_word'] for end in ends):.3f}".removeprefix("0")
    if name != "real":
        assert lineages == f"{fmean(end['lineages'] for end in ends):.0f}"
