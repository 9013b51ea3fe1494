import math
from dataclasses import replace

import pytest

from gape.core.errors import InputError
from gape.evolution.plan import Plan
from gape.evolution.theory import cluster_limits
from gape.runs.advice import (
    WritingFigures,
    calls_of,
    faster_engine,
    outlook,
    samples_for,
    suggested_samples,
    suitable_votes,
    usual_delta,
)

PLAN = Plan(epsilon=1.0, delta=usual_delta(18189), rounds=6, samples=500, scales=(0.2, 0.5, 0.8), copies=2)


def test_the_usual_delta() -> None:
    assert usual_delta(75_000) == pytest.approx(1.1878e-6, rel=1e-4)
    with pytest.raises(InputError, match="too few; give delta"):
        usual_delta(2)


def test_the_rule_gives_what_was_measured_to_be_good() -> None:
    assert 450 <= samples_for(18_189, 1.0, usual_delta(18_189), 6, 8) <= 550


def test_a_typical_candidate_gets_a_third_of_sigma() -> None:
    m = suggested_samples(10_000, 12.0, 8)
    assert 10_000 / (m * 8) >= 4.0 > 10_000 / ((m + 1) * 8)


def test_suggestions_stay_within_bounds() -> None:
    assert suggested_samples(20, 30.0, 8) == 10
    assert suggested_samples(10**7, 3.0, 8) == 2000
    assert suggested_samples(8000, 0.0, 8) == 1000  # without noise every candidate should have a vote


@pytest.mark.parametrize("n", [100, 1000, 20_000])
def test_more_privacy_means_fewer_samples_and_more_records_more(n: int) -> None:
    by_epsilon = [samples_for(n, epsilon, 1e-6, 6, 8) for epsilon in (0.5, 1, 2, 4, 8)]
    assert by_epsilon == sorted(by_epsilon)
    assert samples_for(2 * n, 1, 1e-6, 6, 8) >= samples_for(n, 1, 1e-6, 6, 8)


def test_calls_are_counted_round_by_round() -> None:
    plan = Plan(epsilon=1.0, delta=1e-5, rounds=3, samples=10, initial=20, scales=(0.5, 1.0), copies=3)
    assert calls_of(plan) == (20, 120, 60, 60)
    assert outlook(plan, 1000, WritingFigures()).calls == 260
    assert outlook(plan, 1000, WritingFigures(model=False)).calls == 0
    wide = replace(plan, initial=70, vary_start=False)
    assert calls_of(wide) == (70, 0, 60, 60)


def test_the_outlook_sets_votes_against_noise() -> None:
    seen = outlook(PLAN, 18_189, WritingFigures())
    assert seen.votes_per_candidate == pytest.approx(18_189 / 3500)
    assert seen.signal == pytest.approx(seen.votes_per_candidate / PLAN.sigma)
    assert "5.2 votes under noise of 13.4: a signal of 0.39 sigma" in seen.remarks[0]
    assert seen.remarks[1:] == cluster_limits(18_189, 1.0, PLAN.delta, PLAN.rounds, per_sample=7).sentences


def test_a_weak_signal_is_said_with_its_remedies() -> None:
    seen = outlook(PLAN, 1000, WritingFigures())
    assert "Use fewer samples (32 would suit), fewer variations, or a larger epsilon" in " ".join(seen.remarks)
    assert "Half the rounds" in " ".join(seen.remarks)


@pytest.mark.parametrize(("votes", "follows"), [(64, "follow the data, but slowly"), (1, "hardly follow the data")])
def test_how_far_a_weak_signal_is_followed_is_said_as_it_was_measured(votes: int, follows: str) -> None:
    plan = Plan(
        epsilon=1.0,
        delta=usual_delta(14_790),
        rounds=10,
        samples=10_000,
        scales=(0.5,) * 7,
        votes_per_record=votes,
        votes_per_unit=votes,
    )
    assert f"selection will {follows}." in " ".join(outlook(plan, 14_790, WritingFigures()).remarks)


def test_a_strong_signal_could_carry_more() -> None:
    assert "the votes can tell about 2000 apart" in " ".join(outlook(PLAN, 10**6, WritingFigures()).remarks)


@pytest.mark.parametrize("votes", [1, 16])
def test_the_default_number_of_samples_is_not_called_too_small(votes: int) -> None:
    m = samples_for(18_189, 1.0, PLAN.delta, 6, 7)
    seen = outlook(replace(PLAN, samples=m).casting(votes), 18_189, WritingFigures())
    assert seen.suggested_samples == m
    assert "More samples" not in " ".join(seen.remarks)


def test_few_records_and_a_large_delta_are_said() -> None:
    plan = Plan(epsilon=1.0, delta=0.1, rounds=2, samples=2)
    said = " ".join(outlook(plan, 30, WritingFigures()).remarks)
    assert "above 1/n" in said
    assert "With only 30 records or users" in said
    assert "hardly limits" not in said
    weak = outlook(replace(plan, epsilon=1e3), 30, WritingFigures()).remarks
    assert "Epsilon 1000 hardly limits what the result tells about a record. 8 is weak already." in weak


def test_no_noise_is_said_first() -> None:
    seen = outlook(Plan(epsilon=math.inf, delta=1e-5, rounds=2, samples=5), 100, WritingFigures())
    assert "NOT PRIVATE" in seen.remarks[0]
    assert math.isinf(seen.signal)


def test_an_embedding_service_reads_every_record_and_every_text_once() -> None:
    chosen = Plan(samples=10, rounds=2, epsilon=4.0, delta=1e-4, initial=20)
    figures = WritingFigures(words=100, model=False, embedding_price=2.0, embedding_service=True)
    texts = 1000 + sum(calls_of(chosen))
    expected = outlook(chosen, 1000, figures)
    assert expected.embedded_tokens == round(texts * 135)
    assert expected.cost == pytest.approx(2 * texts * 135 / 1e6)
    assert outlook(chosen, 1000, figures, embedded=True).embedded_tokens == round((texts - 1000) * 135)
    assert outlook(chosen, 1000, WritingFigures(embedding_price=2.0)).embedded_tokens == 0


def test_tokens_cost_and_time_follow_from_the_writer() -> None:
    chat = WritingFigures(words=100, reads_sample=True, concurrency=10, prompt_price=1.0, completion_price=2.0)
    local = WritingFigures(words=100, rewritten=0.5, tokens_per_second=100.0)
    by_chat, here = outlook(PLAN, 1000, chat), outlook(PLAN, 1000, local)
    assert by_chat.cost == pytest.approx((by_chat.prompt_tokens + 2 * by_chat.completion_tokens) / 1e6)
    assert by_chat.completion_tokens == pytest.approx(18_500 * 135)
    assert here.completion_tokens == pytest.approx((500 + 18_000 / 2) * 135)
    assert here.cost == 0
    assert by_chat.seconds is not None
    assert here.seconds is not None
    assert here.seconds > here.completion_tokens / 100
    assert by_chat.seconds > by_chat.calls * 3 / 10
    assert outlook(PLAN, 1000, WritingFigures()).seconds is None  # nobody knows how fast it is
    more_cores = outlook(PLAN, 1000, local, cores=4).seconds
    assert more_cores is not None
    assert more_cores < here.seconds


def test_what_is_embedded_already_takes_no_time() -> None:
    before, after = (outlook(PLAN, 10**6, WritingFigures(model=False), embedded=done).seconds for done in (False, True))
    assert before is not None
    assert after is not None
    assert before - after == pytest.approx(10**6 / 19)


@pytest.mark.parametrize(("epsilon", "votes"), [(0.1, 64), (1.0, 17), (4.0, 5), (100.0, 2), (math.inf, 2)])
def test_records_vote_for_more_candidates_where_there_is_more_noise(epsilon: float, votes: int) -> None:
    plan = Plan(epsilon, 6.3e-6, rounds=10, samples=500, scales=(0.1, 0.2, 0.3, 0.4, 0.55, 0.7, 0.9))
    assert suitable_votes(plan, 16_370) == votes
    assert suitable_votes(plan.casting(votes), 16_370) == votes  # whatever it had before


@pytest.mark.parametrize(("epsilon", "votes"), [(0.1, 8), (0.5, 5), (1.0, 3), (10.0, 2), (math.inf, 2)])
def test_records_vote_for_fewer_candidates_where_votes_are_estimated(epsilon: float, votes: int) -> None:
    plan = Plan(epsilon, 1 / (25_000 * math.log(25_000)), rounds=10, samples=500, scales=(0.2, 0.4), copies=3)
    assert suitable_votes(plan, 25_000, estimated=True) == votes


def test_nobody_votes_for_a_large_share_of_the_candidates() -> None:
    plan = Plan(0.1, 1e-6, rounds=10, samples=50, scales=(1.0,), copies=7)
    assert suitable_votes(plan, 1000) == 400 // 60
    assert suitable_votes(plan, 1000, kinds=5) == 1


def test_of_users_with_several_votes_each_record_has_its_share() -> None:
    plan = Plan(1.0, 1e-6, rounds=10, samples=500, scales=(1.0,), copies=7, votes_per_unit=3)
    several = plan.casting(suitable_votes(plan, 5000))
    assert several.votes_per_unit == 3 * several.votes_per_record > 3
    assert several.sigma > plan.sigma


def test_a_candidate_gets_no_more_votes_than_there_are_records() -> None:
    plan = Plan(epsilon=1.0, delta=1e-5, rounds=1, samples=10, votes_per_record=10**6, votes_per_unit=10**6)
    assert outlook(plan, 250, WritingFigures()).votes_per_candidate == 250


def test_the_default_model_has_a_faster_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    writes = "writes about 3.5 times as fast with the same model."
    assert faster_engine("embedded") == f"A new run with --generator openvino {writes}"
    monkeypatch.setattr("gape.runs.advice.find_spec", lambda name: None)
    install = "(first `pip install 'gape[openvino]'`)"
    assert faster_engine("embedded") == f"A new run with --generator openvino {install} {writes}"


@pytest.mark.parametrize(
    "generator", ["openvino", "embedded:gemma-3-270m", "openai:some", "corpus:public.txt", "fonts"]
)
def test_others_have_none(generator: str) -> None:
    assert faster_engine(generator) == ""


@pytest.mark.parametrize(
    ("units", "lost"),
    [
        (10, "so a cell with all records is lost in it"),
        (1_000, "so cells with less than 6.5% of the records are lost in it"),
        (300_000, "so cells with less than 0.022% of the records are lost in it"),
    ],
)
def test_a_survey_says_how_large_a_cell_must_be(units: int, lost: str) -> None:
    plan = Plan(epsilon=1.0, delta=1e-6, rounds=0, samples=10, answers=(9, 4))
    assert lost in outlook(plan, units, WritingFigures()).remarks[0]
