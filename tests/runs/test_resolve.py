import math
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from experiments.rules import with_centres

import gape
from gape.core.errors import InputError, PrivacyError, SpendingError
from gape.core.protocols import Generator, Selector
from gape.core.types import Points, Samples
from gape.embedders.openai import OpenAIEmbedder
from gape.generators.labels import LabelledEmbedder, LabelledGenerator, PerLabel
from gape.generators.prompts import Prompts
from gape.generators.resampled import ResampledText
from gape.language.request import Completion, Request
from gape.language.scripted import ScriptedModel
from gape.language.stored import Stored, stored_tokens
from gape.modalities import Records, load_texts
from gape.privacy.accounting import noise_scale
from gape.runs.electorate import TextElectorate, make_electorate, unit_of, units_of
from gape.runs.embedder import make_embedder
from gape.runs.generator import (
    OPTIONAL,
    Listener,
    make_generator,
    make_model,
    make_prompts,
    remembering,
    told_in_requests,
    whole_generator,
)
from gape.runs.labels import candidate_embedder
from gape.runs.resolve import make_plan, resolved
from gape.runs.run import describe
from gape.runs.selector import keeps_distinct, make_selector
from gape.runs.settings import Settings
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking
from gape.selection.regions import RegionalRanking
from gape.selection.remembering import Remembering
from gape.selection.subsampling import Subsampling
from generators.writing import write
from made_up import CANARIES, private_rows, write_corpus

QUESTIONS = Path(gape.__file__).parent / "cli" / "demos" / "questions.csv.gz"


def records(**columns: str) -> Records:
    return load_texts(private_rows(), "review", **columns)


def settings(**values: Any) -> Settings:
    return resolved(Settings.of({"epsilon": 2.0, "generator": "embedded", **values}), records())


class ByLength:
    """An embedder that works on this machine: two numbers of length 1 from the length of a text."""

    def embed(self, samples: Samples) -> Points:
        angles = np.array([len(text) for text in samples], dtype=np.float64)
        return np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


class TestResolved:
    def test_defaults_follow_from_the_data_and_the_guarantee(self) -> None:
        chosen = settings()
        assert chosen.delta == pytest.approx(1 / (90 * math.log(90)))
        assert chosen.variation == "resample"
        assert len(chosen.scales or ()) * (chosen.copies or 0) == 7
        assert chosen.initial == 8 * (chosen.samples or 0)
        assert chosen.vary_start is False
        plan = make_plan(chosen)
        assert plan.sigma == noise_scale(2.0, plan.delta, 6)

    def test_the_start_is_varied_where_texts_need_not_be_distinct(self) -> None:
        paper = {"selector": "gape-paper", "separation": 3.0}
        for values in ({"distinct": False}, {"selector": "ranking"}, paper, {"vary_start": True}):
            chosen = settings(**values)
            assert chosen.vary_start is True
            assert chosen.initial == chosen.samples
            assert keeps_distinct(chosen) is bool(values.get("vary_start"))
        wide = settings(initial=33)
        assert (wide.initial, wide.vary_start) == (33, False)
        augpe = settings(preset="augpe", samples=10)
        assert (augpe.initial, augpe.vary_start, augpe.distinct) == (20, True, False)

    def test_with_a_corpus_the_noise_decides_on_the_votes_unless_the_settings_do(self) -> None:
        corpus = {"generator": f"corpus:{QUESTIONS}", "corpus_text": "text", "samples": 50}
        assert settings(**corpus).votes_per_record == 400 // 60
        assert settings(**corpus, epsilon=math.inf).votes_per_record == 2
        assert settings(**corpus, selector="ranking").votes_per_record == 1
        before = resolved(settings(**corpus, votes_per_record=1), records())  # as an earlier version stored it
        assert (before.votes_per_record, before.votes_per_unit) == (1, 1)

    def test_n_is_the_number_of_users_where_these_are_protected(self) -> None:
        data = records(user="who")
        assert (unit_of(data), units_of(data)) == ("user", 40)
        chosen = resolved(Settings.of({"epsilon": 1, "user": "who"}), data)
        assert chosen.delta == pytest.approx(1 / (40 * math.log(40)))

    @pytest.mark.parametrize(
        ("preset", "selector"), [("augpe", Ranking), ("subsamplepe", Subsampling), ("gape-paper", Gape)]
    )
    def test_published_methods_are_as_their_authors_run_them(self, preset: str, selector: type) -> None:
        keep = preset != "subsamplepe"
        chosen = settings(preset=preset, separation=3.0)
        plan = make_plan(chosen)
        assert (plan.samples, plan.rounds, plan.initial, plan.keep) == (2000, 10, 4000, keep)
        assert (plan.scales, plan.copies, chosen.variation) == ((1.0,), 7, "rephrase")
        assert isinstance(make_selector(chosen, plan), selector)
        assert (plan.votes_per_record, plan.vary_start, chosen.distinct) == (1, True, False)
        assert chosen.bare_prompts is (preset == "gape-paper")
        assert make_plan(settings(preset=preset, samples=50, separation=3.0)).initial == 100

    def test_a_chat_service_rephrases_and_a_corpus_has_its_own_scales(self) -> None:
        assert settings(generator="openai:m").variation == "rephrase"
        assert settings(generator=f"corpus:{QUESTIONS}", corpus_text="text").scales == (
            0.2,
            0.3,
            0.4,
            0.5,
            0.6,
            0.7,
            0.8,
        )
        assert settings(scales=[0.5]).copies == 1

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (
                {"generator": "gpt"},
                "generator must be one of embedded, embedded:MODEL, openvino, openvino:MODEL, openai:MODEL",
            ),
            ({"generator": "openai"}, "generator must be one of"),
            ({"generator": "embedded:x"}, "there is no embedded model 'x'; use one of"),
            ({"embedder": "words"}, "embedder must be one of minilm"),
            ({"generator": "openai:m", "variation": "resample"}, "a chat service cannot"),
            ({"generator": "corpus:none.txt"}, "there is no corpus none.txt"),
            ({"prompts": "none"}, "prompts 'none' are not known"),
        ],
    )
    def test_what_is_not_there_is_said(self, values: dict[str, Any], message: str) -> None:
        with pytest.raises(InputError, match=message):
            settings(**values)

    def test_parts_that_this_version_lacks_are_said(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(OPTIONAL, "hf", ("gape.language.none", "None"))
        monkeypatch.setitem(OPTIONAL, "st", ("gape.embedders.none", "None"))
        with pytest.raises(InputError, match="this version has no generator hf:gpt2 yet; use embedded"):
            settings(generator="hf:gpt2")
        with pytest.raises(InputError, match="this version has no embedder st:all-mpnet yet; use minilm"):
            settings(embedder="st:all-mpnet")

    def test_epsilon_must_be_given(self) -> None:
        with pytest.raises(InputError, match="epsilon must be given"):
            resolved(Settings.of(), records())

    def test_labels_are_private_unless_said_otherwise(self) -> None:
        data = records(label="stars")
        with pytest.raises(InputError, match="which labels occur is private"):
            resolved(Settings.of({"epsilon": 1, "label": "stars"}), data)
        public = resolved(Settings.of({"epsilon": 1, "label": "stars", "labels_are_public": True}), data)
        assert public.labels == ("low", "mid")
        given = resolved(Settings.of({"epsilon": 1, "label": "stars", "labels": ["mid", "low"]}), data)
        assert given.labels == ("mid", "low")


class TestSelectors:
    @pytest.mark.parametrize(
        ("name", "kind", "survivors"),
        [
            ("gape", Remembering, 2),
            ("ranking", Ranking, 2),
            ("subsampling", Subsampling, 2),
            ("gape-paper", Gape, 1),  # no candidate is above the paper's threshold
        ],
    )
    def test_by_name(self, name: str, kind: type, survivors: int) -> None:
        chosen = settings(selector=name, separation=3.0)
        rule = make_selector(chosen, make_plan(chosen))
        assert isinstance(rule, kind)
        votes = np.array([9, 8, 1, 0], dtype=np.int64)
        points = np.eye(4, dtype=np.float32)
        assert len(rule(votes, points, 2, np.random.default_rng(0)).indices) == survivors

    def test_thresholds(self) -> None:
        def rule(**values: Any) -> Selector:
            chosen = settings(**values)
            return make_selector(chosen, make_plan(chosen))

        plan = make_plan(settings())
        sigma = plan.sigma
        usual = RegionalRanking()
        assert rule() == Remembering(replace(usual, distinct=True), sigma)
        assert rule(distinct=False) == Remembering(usual, sigma)
        corpus = rule(generator=f"corpus:{QUESTIONS}", corpus_text="text")
        assert corpus == Gape.for_corpus(sigma)
        assert rule(separation=1.5) == Remembering(replace(usual, separation=1.5, distinct=True), sigma)
        tau = sigma * math.sqrt(2 * math.log(6 * plan.rounds * plan.candidates / 0.05))
        paper = rule(selector="gape-paper", separation=1.5, votes_per_record=1, votes_per_unit=1)
        assert paper == Gape(1.5, tau, certify=True, signed=True)

    def test_labels_have_their_own(self) -> None:
        chosen = settings(label="stars", labels=["low", "mid"])
        plan = make_plan(chosen)
        rule = Remembering(RegionalRanking(distinct=True), plan.sigma)
        assert make_selector(chosen, plan) == PerLabel(rule, ("low", "mid"))

    @pytest.mark.parametrize("labels", [None, ["low", "mid"]])
    def test_a_run_that_an_earlier_version_began_keeps_its_rule(self, labels: list[str] | None) -> None:
        chosen = settings() if labels is None else settings(label="stars", labels=labels)
        plan = make_plan(chosen)
        halved: Selector = replace(Gape.without_memory(plan.sigma), distinct=True)
        centred: Selector = with_centres(plan.samples, distinct=True)
        ranked: Selector = RegionalRanking(distinct=True)
        if labels is not None:
            halved, centred, ranked = (PerLabel(rule, tuple(labels)) for rule in (halved, centred, ranked))
        for earlier in (halved, Remembering(centred, plan.sigma), Remembering(ranked, plan.sigma)):
            assert make_selector(chosen, plan, repr(earlier)) == earlier
        usual = make_selector(chosen, plan)
        assert make_selector(chosen, plan, repr(usual)) == usual
        assert make_selector(chosen, plan, "something else") == usual


class TestPrivateSide:
    def test_private_text_goes_nowhere_unless_its_owner_agrees(self) -> None:
        chosen = settings(embedder="openai:e", base_url="http://127.0.0.1:9/v1")
        embedder = make_embedder(chosen)
        assert isinstance(embedder, OpenAIEmbedder)
        with pytest.raises(PrivacyError, match="would send the private text to another machine"):
            make_electorate(chosen, records(), embedder)
        assert embedder.usage.requests == 0
        assert make_embedder(chosen.with_values(private_text_may_leave=True)).private_text_may_leave  # type: ignore[attr-defined]

    def test_the_ledger_knows_the_texts_whatever_they_are_compared_by(self) -> None:
        plain = make_electorate(settings(), records(), ByLength())
        labels = settings(label="stars", labels=["low", "mid"])
        marked = make_electorate(labels, records(label="stars"), ByLength())
        assert plain.dimension + 2 == marked.dimension
        assert plain.fingerprint(b"salt") == marked.fingerprint(b"salt")
        assert plain.fingerprint(b"salt") != plain.fingerprint(b"other")
        fewer = load_texts(private_rows(89), "review")
        assert plain.fingerprint(b"salt") != make_electorate(settings(), fewer, ByLength()).fingerprint(b"salt")
        by_user = make_electorate(settings(user="who"), records(user="who"), ByLength())
        assert by_user.unit == "user"
        assert plain.fingerprint(b"salt") != by_user.fingerprint(b"salt")

    def test_users_vote_together(self) -> None:
        chosen = settings(user="who", votes_per_unit=2)
        electorate = make_electorate(chosen, records(user="who"), ByLength())
        assert isinstance(electorate, TextElectorate)
        assert electorate.votes_per_unit == make_plan(chosen).votes_per_unit == 2

    def test_a_label_outside_the_set_is_not_named(self) -> None:
        rows = [*private_rows(), {"review": "One more.", "stars": CANARIES[0], "who": "x"}]
        data = load_texts(rows, "review", "stars")
        with pytest.raises(InputError) as caught:
            make_electorate(settings(label="stars", labels=["low", "mid"]), data, ByLength())
        assert CANARIES[0] not in str(caught.value)

    def test_the_cache_is_inside_the_labels(self) -> None:
        embedder = candidate_embedder(settings(label="stars", labels=["low"]), ByLength())
        assert isinstance(embedder, LabelledEmbedder)
        assert isinstance(embedder.embedder, ByLength)


class TestWriters:
    def test_a_corpus_is_described_in_few_words(self, tmp_path: Path) -> None:
        chosen = settings(generator=f"corpus:{write_corpus(tmp_path / 'c.txt')}")
        assert make_model(chosen, tmp_path / "answers") is None
        generator = make_generator(chosen, None, make_prompts(chosen, None), ByLength())
        assert "160 texts" in repr(generator)
        assert len(repr(generator)) < 300

    def test_every_label_is_asked_for(self) -> None:
        chosen = settings(label="stars", labels=["low", "high"])
        model = ScriptedModel(lambda _: "The bread was warm and the people were kind to everyone there today.")
        generator = make_generator(chosen, model, make_prompts(chosen.with_values(words=12), model), None)
        assert isinstance(generator, LabelledGenerator)
        assert len(generator.random(4, np.random.default_rng(0))) == 4
        asked = [request.prompt for request in model.calls]
        for label in ("low", "high"):
            assert any(prompt.endswith(f"\nstars: {label}") for prompt in asked)

    def test_a_run_that_an_earlier_version_began_is_told_labels_as_it_was(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        chosen, model = settings(label="stars", labels=["low", "high"]), ScriptedModel(write)
        prompts = make_prompts(chosen.with_values(words=12, topics=("soup",)), model)
        earlier = LabelledGenerator(
            {
                label: ResampledText(
                    model, replace(prompts, random=tuple(f"{asked}\nstars: {label}" for asked in prompts.random))
                )
                for label in ("low", "high")
            }
        )
        chosen = chosen.with_values(variation="resample")

        def opened(recorded: str | None, **more: Any) -> AbstractContextManager[Generator]:
            listener = Listener(lambda _: None, lambda _: None)
            return whole_generator(
                chosen.with_values(**more), model, tmp_path / "answers", listener, prompts, None, recorded
            )

        with opened(describe(earlier)) as resumed:
            assert describe(resumed) == describe(earlier)
            start, other = (generator.random(6, np.random.default_rng(0)) for generator in (resumed, earlier))
            assert start.tolist() == other.tolist()
        with opened(None) as now:
            assert describe(now) != describe(earlier)
        with opened(describe(now)) as resumed:
            assert describe(resumed) == describe(now)

        also = (f"hf:{Path(__file__).parents[1] / 'data' / 'stories260K'}",)
        with monkeypatch.context() as patch, opened(None, also=also) as now:
            patch.setattr(Prompts, "telling", told_in_requests)  # as in the earlier version
            with opened(None, also=also) as both:
                recorded = describe(both)
        assert recorded.startswith("SeveralWriters(")
        assert recorded != describe(now)
        with opened(recorded, also=also) as resumed:
            assert describe(resumed) == recorded

    def test_a_domain_gets_topics_of_its_own_unless_they_are_given(self) -> None:
        lines = "\n".join(f"{i}. garden tool {'abcdefghijklmnop'[i]}" for i in range(16))
        model = ScriptedModel(lambda _: lines)
        asked = make_prompts(settings(domain="reviews of garden tools"), model)
        assert "garden tool c" in asked.rules["topic"]
        given = make_prompts(settings(domain="reviews", topics=["rakes"]), model)
        assert given.rules["topic"] == ("rakes",)
        assert make_prompts(settings(prompts="yelp", words=33), model).words == 33

    def test_caps_hold_for_the_run_and_not_for_one_process(self, tmp_path: Path) -> None:
        answers = tmp_path / "answers.sqlite"
        first = Stored(ScriptedModel(lambda _: "five words and a dot."), answers)
        list(first.complete([Request("one two three", seed=i) for i in range(10)]))
        first.close()
        assert stored_tokens(answers)[0] == 10
        chosen = settings(generator="openai:m", max_tokens_total=100, base_url="http://127.0.0.1:9/v1")
        inside: Any = make_model(chosen, answers)
        assert inside.purse.max_tokens_total == 100 - 10 * 8
        with pytest.raises(SpendingError, match="has used its max_tokens_total of 50; raise it"):
            make_model(chosen.with_values(max_tokens_total=50), answers)

    def test_watching_counts_what_is_asked_and_what_is_answered(self, tmp_path: Path) -> None:
        asked: list[Completion] = []
        answered: list[Completion] = []
        bare = ScriptedModel(lambda request: request.prompt, name="it")
        with remembering(bare, tmp_path / "a", Listener(answered.append, asked.append)) as model:
            assert model is not None
            for _ in range(2):
                assert len(list(model.complete([Request("a"), Request("b")]))) == 2
            assert (len(asked), len(answered), repr(model), model.can_continue) == (2, 4, "it", True)
