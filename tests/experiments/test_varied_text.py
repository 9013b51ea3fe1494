"""The tables of experiments/varied_text are those of its stored results."""

import json
import re
from pathlib import Path
from statistics import fmean

import numpy as np
import pytest
from experiments.varied_text.listed import Listed

from gape.core.types import as_samples
from gape.generators.prompts import generic
from gape.language.request import Request
from gape.language.scripted import ScriptedModel

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


@pytest.mark.parametrize("dataset", ["Reddit", "PubMed", "Yelp"])
@pytest.mark.parametrize("epsilon", [1, 4])
@pytest.mark.parametrize("before", [False, True], ids=["choice", "before"])
def test_the_price_of_more_variety_is_that_of_the_stored_seeds(dataset: str, epsilon: int, *, before: bool) -> None:
    folder = FOLDER / "results" / (dataset.lower() if before else f"tried/{dataset.lower()}")
    ends, real = (
        [json.loads(path.read_text())["turns"][-1] for path in sorted(cells)]
        for cells in (
            folder.glob(f"{'before' if before else 'choice-4-temperature-1.2'}--eps-{epsilon}--seed-[012].json"),
            (FOLDER / "results" / dataset.lower()).glob("real--seed-[012].json"),
        )
    )
    named = re.escape(f"{dataset}{', before' * before} | {epsilon}")
    line = re.search(rf"^\| {named} \|(.*)\|$", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert line is not None
    pairs = fmean(end["repetition"]["pairs"] for end in ends)
    accuracies = [end["label_accuracy"] for end in ends if dataset == "Yelp"]
    assert [cell.strip() for cell in line[1].split("|")] == [
        f"{fmean(end['held_out']['recall'] for end in ends):.3f}".removeprefix("0"),
        f"{fmean(end['held_out']['sinkhorn'] for end in ends):.3f}".removeprefix("0"),
        f"{fmean(end['repetition']['repeating'] for end in ends):.0%}",
        f"{fmean(end['repetition']['openings'] for end in ends):.0%}",
        f"{pairs:.3f}".removeprefix("0"),
        f"{pairs / fmean(end['repetition']['pairs'] for end in real):.2f}".removeprefix("0"),
        f"{fmean(end['lineages'] for end in ends):.0f}",
        f"{fmean(end['next_word'] for end in ends):.3f}".removeprefix("0"),
        f"{fmean(accuracies):.3f}".removeprefix("0") if accuracies else "",
    ]


def test_a_listed_text_is_the_entry_after_its_sample_and_ends_where_the_next_begins() -> None:
    def answer(request: Request) -> str:
        assert request.prompt.endswith("Text A: We waited an hour for a cold pizza.\n\nText B:")
        return " the soup was hot, and the owner came out to greet us.\n\nText C: Never again, said everyone there."

    writer = Listed(ScriptedModel(answer), generic("reviews", words=20))
    (text,) = writer.vary(
        as_samples(["We waited an hour for a cold pizza."]), np.array([0.9]), np.random.default_rng(0)
    )
    assert "the soup was hot, and the owner came out to greet us." in text
    assert "Never again" not in text
