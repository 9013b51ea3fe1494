"""Comparisons from the settings of a text run."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import faulty_server
from evaluation.compare.grids import cells
from faulty_server import FaultyServer
from gape.core.errors import InputError, PrivacyError, RunError
from gape.core.protocols import Embedder
from gape.embedders.cached import Cached
from gape.embedders.minilm import MiniLM
from gape.evaluation.compare import (
    Study,
)
from gape.evaluation.compare.cell import Known, Split
from gape.evaluation.compare.methods import TextSelector, given
from gape.evaluation.compare.texts import ComparisonScoring, compare_texts
from gape.evolution.plan import Plan
from gape.language.request import Request
from gape.runs.electorate import read_records
from gape.runs.generator import make_prompts
from gape.runs.resolve import resolved
from gape.runs.settings import Settings
from generators.writing import write
from made_up import leaks, private_rows, write_corpus, write_csv

pytestmark = pytest.mark.usefixtures("without_matplotlib")


@contextmanager
def _service(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Settings, FaultyServer]]:
    """A service that writes for the methods, which the owner of the data allows."""
    monkeypatch.setattr(faulty_server, "answer_to", lambda prompt, seed: write(Request(prompt, seed=seed)))
    with FaultyServer() as server:
        service = {"generator": "openai:tiny", "base_url": server.url, "prompts": "forum"}
        yield settings.with_values(**service, exact_votes_may_leave=True, separation=3.0), server


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
        assert "## Surviving lineages of the start" in table

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

        monkeypatch.setattr("gape.evaluation.compare.texts.Cached", Noted)
        monkeypatch.setattr("gape.evaluation.compare.texts.CACHED", 50)
        for jobs, most in ((1, 10**6), (2, 10**6), (2, 60)):
            monkeypatch.setattr("gape.evaluation.compare.texts._MOST_CACHED", most)
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
        compare_texts(
            chosen, tmp_path / "out", methods=["gape"], epsilons=[4.0], seeds=1, scoring=ComparisonScoring(k=1)
        )
        assert "## Label accuracy on records that did not vote" in (tmp_path / "out" / "table.md").read_text()
        for cell in cells(tmp_path / "out").values():
            assert 0 <= cell["turns"][-1]["label_accuracy"] <= 1

    def test_the_papers_rule_stands_beside_the_default(self, settings: Settings, tmp_path: Path) -> None:
        chosen = settings.with_values(samples=6, separation=3.0)
        compare_texts(chosen, tmp_path / "out", methods=["gape", "gape-paper"], epsilons=[8.0], seeds=1, jobs=1)
        rules = {name.partition("--")[0]: cell["selector"] for name, cell in cells(tmp_path / "out").items()}
        assert "certify=True, spare=0.0, signed=True" in rules["gape-paper"]
        assert "signed=False" in rules["gape"]

    def test_a_selector_casts_the_votes_of_the_default_or_as_many_as_its_name_says(
        self, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = ["gape", "ranking", "subsampling", "ranking:3", "augpe"]
        with _service(settings, monkeypatch) as (chosen, _):
            several = chosen.with_values(samples=20)  # with fewer, no record may vote for several candidates
            compare_texts(several, tmp_path / "out", methods=names, epsilons=[0.5], seeds=1, jobs=2)
        kept = cells(tmp_path / "out")
        plans = {name: kept[f"{name.replace(':', '=')}--eps-0.5--seed-0"]["settings"] for name in names}
        votes = {name: plan["votes_per_record"] for name, plan in plans.items()}
        assert votes["gape"] == 2
        assert votes == {**dict.fromkeys(names[:3], votes["gape"]), "ranking:3": 3, "augpe": 1}
        assert all(plan["votes_per_unit"] == plan["votes_per_record"] for plan in plans.values())
        sigma = {name: kept[f"{name.replace(':', '=')}--eps-0.5--seed-0"]["sigma"] for name in names}
        assert sigma["gape"] == sigma["ranking"]
        assert sigma["ranking:3"] == pytest.approx(math.sqrt(3) * sigma["augpe"], rel=1e-3)
        table = (tmp_path / "out" / "table.md").read_text()
        assert "| Ranking, 3 votes |" in table
        assert "| start |" in table
        assert "start of" not in table

    def test_votes_of_a_name_count_for_each_record_of_a_user(self, settings: Settings, tmp_path: Path) -> None:
        chosen = settings.with_values(user="who", votes_per_record=1, votes_per_unit=2)
        compare_texts(chosen, tmp_path / "out", methods=["ranking:3"], epsilons=[4.0], seeds=1)
        plan = cells(tmp_path / "out")["ranking=3--eps-4--seed-0"]["settings"]
        assert (plan["votes_per_record"], plan["votes_per_unit"]) == (3, 6)

    def test_published_methods_write_as_published_beside_the_default(
        self, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        names = ("gape", "gape-paper", "augpe", "subsamplepe", "ranking")
        few: dict[str, Any] = {"methods": names, "epsilons": [4.0], "seeds": 1}
        with _service(settings, monkeypatch) as (chosen, server):
            compare_texts(chosen, tmp_path / "shared", **few)
            asked = [body["messages"][-1]["content"] for body in server.bodies]
            compare_texts(chosen, tmp_path / "published", as_published=True, **few)
            asked_as_published = [body["messages"][-1]["content"] for body in server.bodies[len(asked) :]]
        bare = make_prompts(chosen.with_values(bare_prompts=True), None).random
        assert not set(asked) & set(bare)
        assert set(asked_as_published) & set(bare)  # of gape-paper
        shared, own = (cells(tmp_path / name) for name in ("shared", "published"))
        for name in ("gape", "ranking"):  # what is not published stays as it is
            assert own[f"{name}--eps-4--seed-0"] == shared[f"{name}--eps-4--seed-0"]
        published = {name: own[f"{name}--eps-4--seed-0"]["settings"] for name in names[1:4]}
        for name, plan in published.items():
            alone = resolved(
                Settings.of(given(chosen), {"preset": name, "epsilon": 4.0, "samples": 5, "rounds": 1}),
                read_records(chosen),
            )
            for field in ("scales", "copies", "keep", "initial", "vary_start", "samples", "rounds"):
                value = getattr(alone, field)
                assert plan[field] == (list(value) if field == "scales" else value)
            assert (plan["variation"], plan["distinct"]) == ("rephrase", "False")
            assert plan["bare_prompts"] == str(name == "gape-paper")
            assert (plan["initial"], plan["keep"]) == (10, name != "subsamplepe")
        assert own["gape--eps-4--seed-0"]["settings"]["initial"] != 10
        first = {name: own[f"{name}--eps-4--seed-0"]["turns"][0] for name in names}
        assert first["augpe"] == first["subsamplepe"]
        assert first["gape"] == first["ranking"]
        assert first["augpe"] != first["gape"]
        table = (tmp_path / "published" / "table.md").read_text()
        assert "| start of GAPE |" in table
        assert "| start of AugPE |" in table
        stored = (tmp_path / "published" / "settings.toml").read_text()
        assert "rephrase" in stored
        assert str(tmp_path) not in stored
        assert leaks(tmp_path, tmp_path / "reviews.csv") == []
        with pytest.raises(RunError, match="was started with method augpe"):
            compare_texts(chosen, tmp_path / "published", **few)

    def test_a_corpus_is_shared_by_methods_as_published(self, settings: Settings, tmp_path: Path) -> None:
        compare_texts(settings, tmp_path / "out", methods=["gape", "augpe"], epsilons=[4.0], seeds=1, as_published=True)
        kept = cells(tmp_path / "out")
        own = {name: kept[f"{name}--eps-4--seed-0"]["settings"] for name in ("gape", "augpe")}
        assert {key for key in own["gape"] if own["gape"][key] != own["augpe"][key]} == {"initial"}
        assert own["augpe"]["initial"] == 2 * own["gape"]["initial"] == 10

    def test_what_a_cell_decides_cannot_be_set(self, settings: Settings, tmp_path: Path) -> None:
        for name, value in {"epsilon": 1.0, "selector": "ranking", "ledger": "x", "budget_epsilon": 2.0}.items():
            with pytest.raises(InputError, match="a comparison"):
                compare_texts(settings.with_values(**{name: value}), tmp_path / "out")
        for wrong in ("best", "best:4"):
            with pytest.raises(InputError, match="methods must be among gape, gape-paper, augpe"):
                compare_texts(settings, tmp_path / "out", methods=[wrong])
        for wrong in ("ranking:", "ranking:0", "ranking:-1", "ranking:1.5", "ranking:04", "ranking:2:3"):
            with pytest.raises(InputError, match="must be a whole number from 1"):
                compare_texts(settings, tmp_path / "out", methods=[wrong])
        with pytest.raises(InputError, match="as_published gives each method the settings of its preset"):
            compare_texts(Settings.of(given(settings), {"preset": "augpe"}), tmp_path / "out", as_published=True)
        with pytest.raises(InputError, match="gape-paper needs separation, the paper's R"):
            compare_texts(settings, tmp_path / "out", methods=["gape", "gape-paper"])
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
            compare_texts(settings, tmp_path / "out", scoring=ComparisonScoring(blur=0.1), **few)
        with (tmp_path / "public.txt").open("a") as file:
            file.write("One more.\n")
        with pytest.raises(RunError, match="was started with generator 'corpus of 160 texts"):
            compare_texts(settings, tmp_path / "out", **few)


@pytest.mark.parametrize(
    ("values", "rule"),
    [
        ({}, "of remembered votes, up to 50 regions, distinct"),
        ({"generator": "corpus:public.csv"}, "of estimated votes, at least 50 centres"),
    ],
)
def test_a_stored_comparison_tells_the_rules_of_selection_apart(values: dict[str, str], rule: str) -> None:
    assert repr(TextSelector(Settings.of(values))) == f"gape(separation=None) {rule}"


@pytest.mark.parametrize("selector", ["gape", "ranking", "subsampling"])
def test_a_stored_comparison_tells_shares_of_labels_from_those_of_one_round(selector: str) -> None:
    labelled = Settings.of({"label": "stars", "labels": ["low", "high"], "selector": selector})
    assert repr(TextSelector(labelled)).endswith(", labels by the votes of all rounds")
    assert "labels" not in repr(TextSelector(Settings.of({"selector": selector})))
