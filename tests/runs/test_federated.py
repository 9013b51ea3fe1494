"""The loop with votes from devices."""

import math
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from distributed.federated.devices import InMemory, make_devices, records
from gape.core.errors import InputError, PrivacyError, ServiceError
from gape.core.types import as_samples
from gape.distributed.federated import FederatedElectorate, Terms
from gape.embedders.identity import IdentityEmbedder
from gape.embedders.minilm import MiniLM
from gape.evolution.plan import Plan
from gape.evolution.state import State
from gape.generators.corpus import CorpusText
from gape.generators.topic_survey import NearestTopic
from gape.modalities import Columns, Mixed
from gape.privacy.accounting import Release
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.release import release_answers, release_votes
from gape.privacy.statement import PrivacyStatement
from gape.runs.federated import run_federated
from gape.runs.folder.layout import Layout
from gape.selection.ranking import Ranking
from made_up import public_texts
from parts import GENERATOR, SELECT

PLAN = Plan(epsilon=2.0, delta=1e-5, rounds=2, samples=3, scales=(0.1, 0.01), copies=2, seed=11)
TERMS = Terms.for_plan(PLAN, federation="test", devices=6, dropouts=1, colluders=1, dimension=2, spare=1)


def run(folder: Path, channel: InMemory, *, plan: Plan = PLAN, terms: Terms = TERMS) -> tuple[State, PrivacyStatement]:
    ledger = Ledger(folder / "ledger", Budget(PLAN.epsilon, PLAN.delta))
    try:
        electorate = FederatedElectorate(terms, channel)
        return run_federated(folder / "run", plan, GENERATOR, IdentityEmbedder(), electorate, SELECT, ledger)
    finally:
        ledger.close()


@pytest.fixture
def channel(tmp_path: Path) -> InMemory:
    return InMemory(make_devices(TERMS, tmp_path))


def test_a_run_ends_and_says_what_it_costs(channel: InMemory, tmp_path: Path) -> None:
    state, statement = run(tmp_path, channel)
    assert state.round == 2
    assert 1 <= len(state.synthetic) <= 3
    assert statement.private
    assert statement.unit == "user"
    assert statement.sigma == (PLAN.sigma, PLAN.sigma)
    assert statement.epsilon == pytest.approx(replace(TERMS, spare=0).epsilon, rel=1e-7)
    assert statement.epsilon <= 2.0


def test_votes_reach_the_selection(tmp_path: Path) -> None:
    """With noise this small beside 30 devices that agree, their candidate must win."""
    plan = Plan(epsilon=1e3, delta=1e-5, rounds=1, samples=2, scales=(0.1,), sigma=2.5, seed=3)
    terms = Terms.for_plan(plan, federation="test", devices=30, dropouts=2, colluders=2, dimension=2)
    place = np.array([[1.0, 0.5]], dtype=np.float32)
    ledger = Ledger(":memory:", Budget(math.inf, 1e-5))
    electorate = FederatedElectorate(terms, InMemory(make_devices(terms, tmp_path, [place] * 30)))
    state, _ = run_federated(tmp_path / "run", plan, GENERATOR, IdentityEmbedder(), electorate, SELECT, ledger)
    ledger.close()
    assert state.votes is not None
    assert state.votes.max() > 15
    assert np.sort(state.votes)[-2] < 14


def test_rows_with_texts_are_voted_on_and_published_as_rows(tmp_path: Path) -> None:
    (tmp_path / "schema.toml").write_text('[stars]\nchoices = [1, 2, 3]\n[review]\ntext = "reviews"\n')
    mixed = Mixed(tmp_path / "schema.toml")
    embedder = mixed.compared(MiniLM())
    public = [mixed.schema.row([1 + i % 3, text], "row") for i, text in enumerate(public_texts()[:30])]
    (own,) = mixed.read([{"stars": 3, "review": "The library was closed again."}], Columns()).content
    place = embedder.embed(as_samples([own]))
    plan = Plan(epsilon=1e3, delta=1e-5, rounds=1, samples=2, scales=(0.5,), sigma=2.5, initial=30, vary_start=False)
    terms = Terms.for_plan(plan, federation="rows", devices=20, dropouts=1, colluders=1, dimension=place.shape[1])
    electorate = FederatedElectorate(terms, InMemory(make_devices(terms, tmp_path, [place] * 20)))
    ledger, corpus = Ledger(":memory:", Budget(math.inf, 1e-5)), CorpusText(public, embedder)
    state, _ = run_federated(tmp_path / "run", plan, corpus, embedder, electorate, Ranking(), ledger, modality=mixed)
    published = pq.read_table(Layout(tmp_path / "run").published).to_pylist()
    assert [list(row) for row in published] == [["stars", "review"]] * len(published)
    nearest = np.linalg.norm(embedder.embed(as_samples(public)) - place, axis=1).argmin()
    assert public[nearest] in state.synthetic


def test_a_run_that_lost_its_devices_goes_on_where_it_was(channel: InMemory, tmp_path: Path) -> None:
    channel.failing = {(address, "poll") for address in (100, 101)}
    with pytest.raises(ServiceError, match="4 of 6 devices sent ballots"):
        run(tmp_path, channel)
    channel.failing = {(105, "call")}
    _, statement = run(tmp_path, channel)
    assert statement.sigma == (PLAN.sigma, PLAN.sigma)  # the round that failed released nothing and was not charged
    # The others did send ballots in it, one of which was spare; now all that they granted are used up.
    with pytest.raises(ServiceError, match="nothing was opened"):
        FederatedElectorate(TERMS, channel).noisy_count(np.zeros((2, 2), dtype=np.float32), 1, TERMS.sigma)


def test_the_ledger_knows_the_federation_by_its_name(channel: InMemory, tmp_path: Path) -> None:
    run(tmp_path, channel)
    other = replace(TERMS, federation="another")
    (tmp_path / "other").mkdir()
    ledger = Ledger(tmp_path / "ledger")
    ledger.change_budget(epsilon=9.0, delta=PLAN.delta)
    electorate = FederatedElectorate(other, InMemory(make_devices(other, tmp_path / "other")))
    with pytest.raises(PrivacyError, match="belongs to another dataset"):
        run_federated(tmp_path / "run 2", PLAN, GENERATOR, IdentityEmbedder(), electorate, SELECT, ledger)
    ledger.close()
    first, again = (FederatedElectorate(TERMS, channel).fingerprint(b"a" * 32) for _ in range(2))
    assert first == again != FederatedElectorate(TERMS, channel).fingerprint(b"b" * 32)
    assert first != electorate.fingerprint(b"a" * 32)


@pytest.mark.parametrize(
    "plan",
    [
        replace(PLAN, sigma=9.0),
        replace(PLAN, delta=1e-6),
        replace(PLAN, rounds=4),
        replace(PLAN, neighbours="add_remove"),
    ],
)
def test_a_plan_that_the_terms_do_not_grant_is_refused(plan: Plan, channel: InMemory, tmp_path: Path) -> None:
    with pytest.raises(PrivacyError, match=r"with Terms\.for_plan"):
        run(tmp_path, channel, plan=plan)
    assert not (tmp_path / "run").exists()


def test_a_survey_is_refused(channel: InMemory, tmp_path: Path) -> None:
    surveyed = replace(PLAN, answers=(2,), sigma=-1.0)
    with pytest.raises(InputError, match=r"devices vote and answer no survey, got answers .*; make the plan without"):
        run(tmp_path, channel, plan=surveyed)
    questions = NearestTopic(np.zeros((2, 2), dtype=np.float32), 2)
    with closing(Ledger(":memory:", Budget(PLAN.epsilon, PLAN.delta))) as ledger:
        asked = FederatedElectorate(TERMS, channel), questions, 0, surveyed.survey, Account(ledger, "run")
        with pytest.raises(InputError, match="these records cannot answer a survey; make the plan without one"):
            release_answers(*asked)
        assert not ledger.releases()


def test_a_ledger_with_a_smaller_delta_is_refused(channel: InMemory, tmp_path: Path) -> None:
    ledger = Ledger(":memory:", Budget(9.0, 1e-7))
    electorate = FederatedElectorate(TERMS, channel)
    with pytest.raises(PrivacyError, match="the ledger counts at delta 1e-07"):
        run_federated(tmp_path / "run", PLAN, GENERATOR, IdentityEmbedder(), electorate, SELECT, ledger)
    ledger.close()


def test_there_are_no_exact_counts(channel: InMemory, tmp_path: Path) -> None:
    electorate = FederatedElectorate(TERMS, channel)
    candidates = records(1)[0]
    with pytest.raises(PrivacyError, match="do not exist, because devices add noise"):
        electorate.count(candidates, 1)
    with pytest.raises(PrivacyError, match="the devices add noise for"):
        electorate.noisy_count(candidates, 1, 0.0)
    exact = replace(TERMS, sigma=0.0, exact_sums_for_tests_only=True)
    with pytest.raises(PrivacyError, match="release exact counts"):
        run(tmp_path, channel, plan=replace(PLAN, sigma=0.0), terms=exact)


@pytest.mark.parametrize("votes", [np.zeros(3, dtype=np.int64), np.zeros(2)])
def test_noisy_votes_of_another_shape_or_kind_are_refused_and_not_charged(votes: Any) -> None:
    class Broken:
        """An electorate whose sum is not one whole number per candidate."""

        dimension, votes_per_unit, unit, secure = 2, 1, "user", True

        def fingerprint(self, salt: bytes) -> str:
            return salt.hex()

        def count(self, candidates: Any, turn: int) -> Any:
            raise AssertionError((candidates, turn))

        def noisy_count(self, candidates: Any, turn: int, sigma: float) -> Any:
            return votes

    ledger = Ledger(":memory:", Budget(math.inf, 1e-6))
    with pytest.raises(PrivacyError, match="one noisy int64 count per candidate"):
        release_votes(Broken(), np.eye(2, dtype=np.float32), 1, Release(5.0), Account(ledger, "x"))
    assert ledger.releases() == ()
