"""Runs of texts with a survey of topics first: from memory and disk, with users and labels, and a kill."""

from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import faulty_server
from command import gape as command
from faulty_server import FaultyServer
from gape.audit.books import audit_run
from gape.core.errors import InputError
from gape.core.types import NoisyVotes
from gape.evolution.plan import Plan
from gape.language.request import Request
from gape.privacy.ledger import Ledger
from gape.privacy.noise import SeededNoise
from gape.runs.embedding import embed_texts
from gape.runs.expand import expand
from gape.runs.folder.record import read_run
from gape.runs.settings import Settings
from gape.runs.synthesize import resume, run_text
from generators.writing import write
from made_up import CANARIES, PLACES, PROMPTS, STARS, leaks, private_rows, public_texts, write_corpus, write_csv


@pytest.fixture
def data(tmp_path: Path) -> Path:
    write_corpus(tmp_path / "public.txt")
    return write_csv(tmp_path / "reviews.csv", private_rows())


def settings(data: Path, **values: Any) -> Settings:
    small = {"epsilon": 4.0, "samples": 6, "rounds": 2, "scales": [0.4, 0.8], "text": "review", "survey": 0.5}
    return Settings.of(small, {"data": str(data), "generator": f"corpus:{data.parent / 'public.txt'}", **values})


def answers_in(folder: Path) -> NoisyVotes:
    (answers,) = read_run(folder).answers()
    return answers


def test_the_books_the_statement_and_the_commands_count_the_survey(data: Path) -> None:
    folder = data.parent / "run"
    result = run_text(settings(data), folder)
    assert set(result) <= set(public_texts())
    assert leaks(data.parent, data) == []
    plan = read_run(folder).plan
    assert plan.answers == (2,)  # as many as 2 rounds of a vote
    assert result.privacy.answers == (2,)
    assert 3.9 < result.privacy.epsilon <= 4.0
    words = "one release of the answers to public questions, at most 2 answers per record in total, and 2 adaptive"
    assert words in result.privacy.text()
    found = audit_run(folder)
    assert found.passed, found.text()
    assert found.releases == 3
    asked = ["--text", "review", "--epsilon", 4, "--samples", 6, "--rounds", 2, "--survey", 0.5]
    planned = command("plan", data, *asked, "--generator", f"corpus:{data.parent / 'public.txt'}").stdout
    assert "2 answers to the survey, 50% of the privacy budget" in " ".join(planned.split())
    assert command("report", folder, "--out", data.parent / "report.html").exit_code == 0
    page = (data.parent / "report.html").read_text()
    assert "at most 2 in one release before the first round" in page
    assert "a survey decides which topics the first texts are about" in page
    assert len(expand(folder, 9)) == 9


class StoppedError(Exception):
    """A kill."""


@pytest.mark.parametrize("after", [1, 2])
def test_a_run_that_stops_resumes_with_the_answers_it_paid_for(
    data: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    whole = run_text(settings(data, ledger=str(data.parent / "whole")), data.parent / "whole-run", noise=SeededNoise(3))
    charge, made = Ledger.charge, []

    def stopping(self: Ledger, *given: Any, **options: Any) -> NoisyVotes:
        votes = charge(self, *given, **options)
        made.append(votes)
        if len(made) == after:
            raise StoppedError
        return votes

    monkeypatch.setattr(Ledger, "charge", stopping)
    with pytest.raises(StoppedError):
        run_text(settings(data), data.parent / "run", noise=SeededNoise(3))
    assert list(resume(data.parent / "run", noise=SeededNoise(3))) == list(whole)
    np.testing.assert_array_equal(made[0], answers_in(data.parent / "run"))
    with closing(Ledger(data.with_name("reviews.csv.gape-ledger.sqlite"))) as ledger:
        assert len(ledger.releases()) == len(made) == 3


def test_a_model_is_asked_for_the_topics_of_the_records_and_told_nothing_else(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faulty_server, "answer_to", lambda prompt, seed: write(Request(prompt, seed=seed)))
    prompts = data.parent / "prompts.toml"
    prompts.write_text(PROMPTS + 'widen = "About: a {topic}."\n[rules]\ntopic = ["other"]\n')
    asked = {"generator": "openai:tiny", "prompts": str(prompts), "topics": list(PLACES), "selector": "ranking"}
    with FaultyServer() as server:
        chosen = settings(
            data, **asked, base_url=server.url, epsilon=200.0, initial=60, rounds=1, scales=None, copies=1
        )
        run_text(chosen, data.parent / "run")
    sent = [body["messages"][-1]["content"] for body in server.bodies]
    topics = Counter(place for prompt in sent for place in PLACES if f"About: a {place}." in prompt)
    assert sum(topics[place] for place in PLACES[:3]) > 0.8 * sum(topics.values()) >= 0.8 * 60
    assert not any(canary in prompt for canary in CANARIES for prompt in sent)
    assert len(answers_in(data.parent / "run")) == 8 * read_run(data.parent / "run").plan.answers[0]


@pytest.mark.parametrize("user", [None, "who"])
def test_vectors_on_disk_answer_as_texts_do(data: Path, user: str | None) -> None:
    place = data.parent
    run_text(settings(data, user=user), place / "memory", noise=SeededNoise(1))
    embed_texts(Settings.of({"data": str(data), "text": "review", "user": user}), place / "vectors")
    budget = {"budget_epsilon": 20.0, "user": None, "text": None}
    run_text(settings(place / "vectors", **budget), place / "disk", noise=SeededNoise(1))
    np.testing.assert_array_equal(answers_in(place / "memory"), answers_in(place / "disk"))
    plan = read_run(place / "memory").plan
    units = 90 if user is None else 40
    mean = answers_in(place / "memory").reshape(plan.answers[0], -1).mean(axis=0).sum()
    assert abs(mean - units) < 6 * plan.sigma * np.sqrt(16 / plan.answers[0])


def test_each_label_is_asked_for_its_topics(data: Path) -> None:
    chosen = settings(data, label="stars", labels=list(STARS), samples=9, neighbours="add_remove", delta=1e-4)
    result = run_text(chosen, data.parent / "run")
    assert len(answers_in(data.parent / "run")) == 2 * 3 * 16  # times, labels, one in ten of 160 texts
    assert audit_run(data.parent / "run").passed
    assert result.privacy.answers == (2,)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"survey": -0.1}, "survey must be a share of the budget, from 0 to 1, got -0.1; use 0 for none"),
        ({"survey": 1.0}, "texts need rounds after a survey, got survey 1 and rounds 2; use a share below 1"),
        ({"bare_prompts": True}, "with bare_prompts no prompt names one; leave out one of them"),
    ],
)
def test_a_survey_that_cannot_be_is_refused(data: Path, values: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        settings(data, **values)


def test_prompts_without_topics_are_refused_before_anything_is_read(data: Path) -> None:
    file = data.parent / "prompts.toml"
    file.write_text('domain = "reports"\nrandom = ["Write one."]\nrephrase = ["Rewrite: {sample}"]\n')
    with pytest.raises(InputError, match=r"a survey asks for topics, and the prompts .* name none; add \{topic\} to"):
        run_text(settings(data, generator="embedded", prompts=str(file)), data.parent / "run")
    assert not (data.parent / "run").exists()


def test_a_table_answers_with_the_whole_budget_or_not_at_all(tmp_path: Path) -> None:
    schema = tmp_path / "schema.toml"
    schema.write_text("[age]\nminimum = 0\nmaximum = 9\n")
    rows = {"schema": str(schema), "epsilon": 1.0}
    with pytest.raises(InputError, match=r"rows answer a survey with the whole budget or none, got 0\.5; use 1 or 0"):
        Settings.of(rows, {"survey": 0.5})
    assert (Settings.of(rows).survey, Settings.of(rows).rounds) == (1.0, 0)
    assert (Settings.of(rows, {"survey": True}).survey, Settings.of(rows, {"survey": False}).rounds) == (1.0, 20)
    assert Settings.of({"epsilon": 1.0}).survey == 0
    assert Plan(1.0, 1e-5, 2, 3, answers=(1,)).releases[0].votes_per_unit == 1
