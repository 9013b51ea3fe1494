"""The survey of texts: its answers, its share of the budget, and what is written after it."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from gape.core.errors import InputError
from gape.core.protocols import Generator, SurveyGenerator, TopicGenerator
from gape.core.types import Samples, as_samples
from gape.evolution.plan import Plan
from gape.generators.corpus import CorpusText
from gape.generators.labels import LabelledEmbedder, LabelledGenerator
from gape.generators.prompted import PromptedText
from gape.generators.prompts import Prompts, load
from gape.generators.resampled import ResampledText
from gape.generators.topic_survey import EVEN, NearestTopic, TopicSurvey, times_for, topic_shares
from gape.language.scripted import ScriptedModel
from gape.modalities.mixed import MixedEmbedder, MixedGenerator, MixedSchema
from gape.modalities.mixed.columns import Prose
from gape.modalities.rows.columns import Choices
from gape.modalities.rows.schema import Schema
from gape.modalities.text.rehearsal import Letters
from gape.privacy.accounting import delta_spent, noise_scale
from generators.writing import write

TOPICS = ("aaa", "bbb", "ccc", "ddd")
SHARES = np.array([0.7, 0.1, 0.2, 0.0])


def prompts() -> Prompts:
    return replace(load("generic"), words=20).with_topics(TOPICS)


def drawn_topics(generator: Generator, model: ScriptedModel, count: int = 400) -> Counter[str]:
    """Count the topics that the prompts of random samples name."""
    model.calls.clear()
    generator.random(count, np.random.default_rng(0))
    return Counter(topic for request in model.calls for topic in TOPICS if topic in request.prompt)


def test_replacing_a_record_moves_its_answers_alone() -> None:
    rng = np.random.default_rng(0)
    topics, records = rng.normal(size=(6, 3)).astype(np.float32), rng.normal(size=(40, 3)).astype(np.float32)
    questions = NearestTopic(topics, 5)
    counts = questions.tally(questions.encode(None, records))
    assert counts.shape == (questions.bins,) == (30,)
    assert counts.sum() == 5 * 40
    for record in range(40):
        other = records.copy()
        other[record] = topics[rng.integers(6)]
        moved = np.abs(counts - questions.tally(other))
        assert moved.max() <= 1
        assert moved.sum() in {0, 2 * questions.per_record}
    assert questions.digest != NearestTopic(topics, 4).digest != NearestTopic(topics[::-1], 4).digest


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
def test_survey_and_rounds_together_cost_epsilon_and_no_less(neighbours: str, epsilon: float) -> None:
    plan = Plan(epsilon, 1e-5, 6, 10, votes_per_unit=8, votes_per_record=8, answers=(5,), neighbours=neighbours)  # type: ignore[arg-type]
    assert plan.sigma == noise_scale(epsilon, 1e-5, 1, votes_per_unit=6 * 8 + 5, neighbours=plan.neighbours)
    assert [release.votes_per_unit for release in plan.releases] == [5, *[8] * 6]
    assert delta_spent(plan.releases, epsilon) <= 1e-5
    less = replace(plan, sigma=0.99 * plan.sigma)
    assert delta_spent(less.releases, epsilon) > 1e-5


@pytest.mark.parametrize("share", [0.05, 0.1, 0.5, 0.9])
def test_the_survey_has_its_share_of_the_budget(share: float) -> None:
    votes = 6 * 64
    times = times_for(share, votes)
    assert times / (times + votes) == pytest.approx(share, abs=0.01)
    assert times_for(share, 1) >= 1


def test_shares_follow_counts_as_far_as_the_noise_allows() -> None:
    counts = np.array([80.0, 20.0, 0.0, 0.0])
    np.testing.assert_allclose(topic_shares(counts, 0.0), (1 - EVEN) * counts / 100 + EVEN / 4)
    np.testing.assert_allclose(topic_shares(counts, 1e6), 0.25)
    np.testing.assert_allclose(topic_shares(-counts, 1.0), 0.25)
    np.testing.assert_allclose(topic_shares(np.full(4, 7.0), 1.0), 0.25)
    between = topic_shares(counts, 20.0)
    assert 0.25 < between[0] < topic_shares(counts, 0.0)[0]
    noisy = topic_shares(np.array([90.0, -40.0, 3.0]), 5.0)
    assert noisy.sum() == pytest.approx(1)
    assert noisy.min() == pytest.approx(EVEN / 3)


def test_shrunk_shares_are_nearer_than_noisy_ones() -> None:
    rng = np.random.default_rng(0)
    true = rng.dirichlet(np.full(100, 0.5))
    for noise in (10.0, 30.0, 100.0):
        noisy = 3_000 * true + noise * rng.normal(size=(50, 100))
        clipped = np.maximum(noisy, 0) / np.maximum(noisy, 0).sum(axis=1, keepdims=True)
        shrunk = np.array([topic_shares(counts, noise) for counts in noisy])
        assert np.abs(shrunk - true).sum(axis=1).mean() < np.abs(clipped - true).sum(axis=1).mean() + 0.1


def test_topics_are_drawn_by_their_shares() -> None:
    favoured = prompts().favouring(SHARES.tolist())
    rng = np.random.default_rng(0)
    drawn = Counter(topic for _ in range(500) for topic in TOPICS if topic in favoured.random_prompt(rng))
    assert drawn["ddd"] == 0
    assert drawn["aaa"] / 500 == pytest.approx(0.7, abs=0.07)
    assert "0.7" not in repr(favoured)  # a run is described before its survey
    with pytest.raises(InputError, match="4 topics need as many shares, got 3"):
        prompts().favouring([0.5, 0.25, 0.25])
    assert load("generic").bare().topics == ()


@pytest.mark.parametrize("kind", [ResampledText, PromptedText])
def test_a_writer_starts_with_the_topics_of_the_answers(kind: type[ResampledText | PromptedText]) -> None:
    model = ScriptedModel(write)
    survey = TopicSurvey(kind(model, prompts()), Letters())
    assert isinstance(survey, SurveyGenerator)
    assert not isinstance(survey, TopicGenerator)
    questions = survey.questions((), 3.0, 9)
    records = Letters().embed(as_samples(["aab"] * 60 + ["bba"] * 20))
    counts = questions.tally(questions.encode(None, records))
    np.testing.assert_array_equal(counts.reshape(9, 4), [[60, 20, 0, 0]] * 9)
    drawn = drawn_topics(survey.informed((counts,), 3.0), model)
    assert drawn["aaa"] > 2 * drawn["bbb"] > 4 * drawn["ccc"] > 0
    assert drawn_topics(survey, model)["ddd"] > 60


def test_a_question_is_known_by_its_topics() -> None:
    writer, names = ResampledText(ScriptedModel(write), prompts()), set()
    for kept in (writer, writer, replace(writer, prompts=prompts().with_topics(TOPICS[::-1]))):
        names |= {TopicSurvey(kept, Letters()).questions((), 1.0, most).digest for most in (1, 2)}
    assert len(names) == 4


def test_each_label_has_topics_of_its_own() -> None:
    model = ScriptedModel(write)
    writers = {
        label: replace(ResampledText(model, prompts()), prompts=replace(prompts(), random=(f"Write {label}.",)))
        for label in ("x", "y")
    }
    survey = TopicSurvey(LabelledGenerator(writers), LabelledEmbedder(Letters(), ("x", "y")))
    questions = survey.questions((), 0.0, 1)
    assert questions.bins == 8
    private = LabelledGenerator(writers).topics()[[0, 0, 0, 5, 5, 5]]  # x is about aaa, y about bbb
    counts = questions.tally(LabelledEmbedder(Letters(), ("x", "y")).embed(private))
    np.testing.assert_array_equal(counts, [3, 0, 0, 0, 0, 3, 0, 0])
    model.calls.clear()
    survey.informed((counts,), 0.0).random(200, np.random.default_rng(0))
    most = {
        label: Counter(
            topic
            for request in model.calls
            for topic in TOPICS
            if f"Write {label}." in request.prompt and topic in request.prompt
        ).most_common(1)[0][0]
        for label in ("x", "y")
    }
    assert most == {"x": "aaa", "y": "bbb"}


def test_rows_with_texts_are_asked_for_the_topic_of_their_texts() -> None:
    schema = MixedSchema(
        ("stars", "review"), Schema({"stars": Choices(("1", "2", "3"))}), {"review": Prose("reviews", words=20)}
    )
    model = ScriptedModel(write)
    writer = MixedGenerator(schema, ResampledText(model, prompts()), "It has {cells}")
    embedder = MixedEmbedder(schema, Letters())
    survey = TopicSurvey(writer, embedder)
    private = schema.join([{"stars": str(1 + i % 3)} for i in range(30)], {"review": ["ccd"] * 30})
    questions = survey.questions((), 0.0, 2)
    counts = questions.tally(embedder.embed(private))
    np.testing.assert_array_equal(counts, [0, 0, 30, 0] * 2)  # whatever their stars
    drawn = drawn_topics(survey.informed((counts,), 0.0), model, 100)
    assert drawn["ccc"] > 80


def words(seed: int, count: int, letters: str) -> list[str]:
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list(letters), 7)) for _ in range(count)]


def test_a_corpus_is_drawn_by_its_topics() -> None:
    corpus = CorpusText([*words(0, 200, "abcd"), *words(1, 200, "efgh")], Letters())
    survey = TopicSurvey(corpus, Letters())
    questions = survey.questions((), 0.0, 1)
    assert questions.bins == 39  # one in ten of the 399 different texts
    counts = questions.tally(Letters().embed(as_samples(words(2, 300, "abcd"))))
    before, after = (
        np.mean([text[0] in "abcd" for text in generator.random(100, np.random.default_rng(0))])
        for generator in (survey, survey.informed((counts,), 0.0))
    )
    assert before < 0.65
    assert after > 0.85
    whole: Samples = survey.informed((counts,), 0.0).random(len(set(corpus.texts)), np.random.default_rng(0))
    assert sorted(whole) == sorted(set(corpus.texts))  # without replacement


def test_without_an_embedder_nothing_is_asked() -> None:
    survey = TopicSurvey(ResampledText(ScriptedModel(write), prompts()))
    with pytest.raises(InputError, match="there is no embedder; give one"):
        survey.questions((), 1.0, 1)
