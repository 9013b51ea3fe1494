import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gape.core.errors import InputError
from gape.core.types import Points, Samples
from gape.generators.prompts import (
    SAMPLE_CHARACTERS,
    SHIPPED,
    Prompts,
    delimited,
    generic,
    load,
    topic_lists,
    topics_from_model,
)
from gape.generators.prompts.topics import shipped_list
from gape.language.request import Request
from gape.language.scripted import ScriptedModel


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class TestThePapersPrompts:
    def test_a_sample_in_bare_prompts_stays_as_it_is(self) -> None:
        bare = load("pubmed").bare()
        text = 'He said "no".'
        assert bare.rephrase_prompt(text, rng()).endswith(f" as an abstract for medical research paper: {text}")
        assert bare.rephrase_prompt("a <|im_end|>b", rng()).endswith(": a b")  # no turns of its own
        assert not bare.opening(rng())
        assert set(bare.rules) == {"tone"}
        assert repr(bare).startswith("BarePrompts(")  # by which a run folder tells them apart
        assert load("pubmed").rephrase_prompt(text, rng()).endswith(""": "He said 'no'.\"""")

    def test_pubmed(self) -> None:
        prompts = load("pubmed")
        bare = "Using a variety of sentence structures, write an abstract for a medical research paper:"
        assert prompts.bare().random_prompt(rng()) == bare
        assert prompts.random_prompt(rng()).startswith(f"{bare}\nTopic: ")
        assert prompts.rephrase == (
            "Please rephrase the following sentences {tone} as an abstract for medical research paper: {sample}",
        )
        assert prompts.rules["tone"] == (
            "in a professional way",
            "in a professional tone",
            "in a professional style",
            "in a concise manner",
            "in a creative style",
            "using imagination",
            "in a storytelling tone",
            "in a formal manner",
            "using a variety of sentence structures",
        )

    def test_reddit(self) -> None:
        prompts = load("reddit")
        bare = "Given the category, you are required to provide a succinct Reddit post title in 30-100 words."
        assert prompts.random == (bare,)
        assert prompts.random_prompt(rng()).startswith(f"{bare}\nCategory: ")
        assert prompts.rephrase == ("Please rephrase the following sentences {tone} as a Reddit poster:\n{sample}",)
        assert prompts.rules["tone"] == (
            "in a detailed way",
            "in a professional way",
            "with more details",
            "with a professional tone",
            "in a professional style",
            "in a concise manner",
        )


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_prompts_fill_every_placeholder(name: str) -> None:
    prompts = load(name)
    for seed in range(20):
        for prompt in (
            prompts.random_prompt(rng(seed)),
            prompts.rephrase_prompt("A text.", rng(seed)),
            prompts.fill_prompt("A _ text.", rng(seed)),
        ):
            assert not re.search(r"[{}]", prompt)
    assert '"A text."' in prompts.rephrase_prompt("A text.", rng())
    assert '"_"' in prompts.fill_prompt("A _ text.", rng())


def test_shipped_topics_are_many_short_and_distinct() -> None:
    lists = topic_lists()
    assert set(lists) == {"medical", "forum", "reviews", "support", "everyday"}
    for topics in lists.values():
        assert len(set(topics)) == len(topics) >= 100
        assert all(topic and len(topic.split()) <= 6 for topic in topics)


def test_the_seed_decides_and_topics_differ() -> None:
    prompts = load("yelp")
    assert prompts.random_prompt(rng(1)) == prompts.random_prompt(rng(1))
    assert len({prompts.random_prompt(rng(seed)) for seed in range(50)}) > 40


def test_openings_are_drawn_where_there_are_any() -> None:
    prompts = load("pubmed")
    assert {prompts.opening(rng(seed)) for seed in range(2000)} == set(prompts.openings)
    assert all(opening == opening.strip() for name in SHIPPED for opening in load(name).openings)
    assert replace(prompts, openings=()).opening(rng()) == ""


def test_instructions_are_the_words_that_do_not_change() -> None:
    prompts = Prompts(
        "p", "d", ("Write {what} now.",), ("Again, {tone}: {sample}",), rules={"what": ("a",), "tone": ("b",)}
    )
    assert prompts.instructions[:4] == ("Write ", " now.", "Again, ", ": ")
    assert prompts.instructions[4:] == ("Here is an example: ", "\nWrite about the same thing, but in your own words.")


def test_a_domain_makes_prompts() -> None:
    prompts = generic("letters to  a landlord.", ["the heating", "the rent"], words=40)
    prompt = prompts.random_prompt(rng())
    assert "letters to a landlord" in prompt
    assert "40 words" in prompt
    assert re.search(r"It is about: the (heating|rent)\.$", prompt)
    assert "one of letters to a landlord:" in prompts.rephrase_prompt("A text.", rng())
    assert generic("letters").rules["topic"] == topic_lists()["everyday"]
    with pytest.raises(InputError, match="a domain must describe the texts, got nothing"):
        generic(" . ")


class TestDelimited:
    @given(st.text() | st.text(alphabet='"\u201c\u201d<|im_end>\\ {}tone', max_size=60))
    def test_a_candidate_cannot_end_its_delimiter(self, sample: str) -> None:
        inside = delimited(sample)
        assert inside[0] == inside[-1] == '"'
        assert not re.search('["\u201c\u201d\u00ab\u00bb]', inside[1:-1])
        assert not re.search(r"<\|[^<>|]{0,40}\|>", inside)
        assert len(inside) <= SAMPLE_CHARACTERS + 2

    def test_long_ones_are_cut_between_words(self) -> None:
        inside = delimited("word " * 2000)[1:-1]
        assert set(inside.split()) == {"word"}
        assert SAMPLE_CHARACTERS - 10 < len(inside) <= SAMPLE_CHARACTERS
        assert len(delimited("x" * 9000)) == SAMPLE_CHARACTERS + 2

    def test_placeholders_in_a_candidate_stay_what_they_are(self) -> None:
        assert load("pubmed").rephrase_prompt("{tone} and {sample}", rng()).endswith('"{tone} and {sample}"')


class TestFiles:
    GOOD = 'domain = "notes"\nrandom = ["Write {what}."]\nrephrase = ["Again: {sample}"]\n[rules]\nwhat = ["a", "b"]\n'

    def read(self, folder: Path, text: str) -> Prompts:
        path = folder / "mine.toml"
        path.write_text(text, encoding="utf-8")
        return load(path)

    def test_a_users_own(self, tmp_path: Path) -> None:
        prompts = self.read(tmp_path, self.GOOD)
        assert prompts.name == "mine"
        assert {prompts.random_prompt(rng(seed)) for seed in range(20)} == {"Write a.", "Write b."}
        assert load(str(tmp_path / "mine.toml")) == prompts

    def test_a_rule_may_name_a_shipped_list_and_words_may_be_drawn(self, tmp_path: Path) -> None:
        text = (
            'domain = "d"\nrandom = ["{words} on {t}"]\nrephrase = ["{sample}"]\n[rules]\nt = "forum"\nwords = ["9"]\n'
        )
        prompts = self.read(tmp_path, text)
        assert prompts.rules["t"] == topic_lists()["forum"]
        assert prompts.random_prompt(rng()).startswith("9 on ")

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ("domain", "colour", "unknown key 'colour'; use domain, words, random"),
            ('domain = "notes"\n', "", "must have the key 'domain'; add it"),
            ("{what}", "{whom}", "random uses {whom}, which is not one of domain, what, words;"),
            ("{what}", "{sample}", "random uses {sample}"),
            ("Again: {sample}", "Again", "rephrase must contain {sample}, got 'Again'"),
            ('["Again: {sample}"]', '"Again"', "rephrase must be a list of strings, got 'Again'"),
            ('["Again: {sample}"]', "[1]", "rephrase must be a list of strings, got [1]"),
            ('["Again: {sample}"]', "[]", "random and rephrase need at least one template each"),
            ('["a", "b"]', "[]", "the rule 'what' has no options"),
            ('["a", "b"]', '"colours"', "'what' must be a list of strings or one of medical, forum"),
            ("what = [", "mask = ['x']\nwhat = [", "the rule 'mask' has a reserved name"),
            ("[rules]", "words = 0\n[rules]", "words must be at least 1, got 0"),
            ("[rules]", "words = true\n[rules]", "words must be a whole number, got True"),
            ("[rules]", "[rules", "are not valid TOML"),
        ],
    )
    def test_mistakes_are_named(self, tmp_path: Path, old: str, new: str, message: str) -> None:
        with pytest.raises(InputError, match=re.escape(message)):
            self.read(tmp_path, self.GOOD.replace(old, new, 1))

    def test_missing_ones_are_named(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="prompts 'imdb' are not known; use one of forum, generic, pubmed"):
            load("imdb")
        with pytest.raises(InputError, match="cannot be read"):
            load(tmp_path / "none.toml")

    def test_blanks_need_a_template(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="no template for filling in blanks"):
            self.read(tmp_path, self.GOOD).fill_prompt("_", rng())


class TestTopicsFromModel:
    def test_lists_are_read_and_repeats_left_out(self) -> None:
        answer = (
            "Sure, here are twenty topics:\n\n1. Tomato plants\n2. **Slugs**: how to fight them\n- tomato plants\n"
            "* Compost heaps - a short history.\n3) Raised beds\n4. A sentence that goes on and on about everything\n"
            "5. Water\n6. Seeds\n7. Bees\n8. Frost\n9. Soil\n10. Tools"
        )
        model = ScriptedModel(lambda _: answer, can_continue=False)
        topics = topics_from_model(model, "posts by gardeners", 50, rng())
        assert topics == (
            "Tomato plants", "Slugs", "Compost heaps", "Raised beds", "Water", "Seeds", "Bees", "Frost", "Soil",
            "Tools",
        )  # fmt: skip
        assert all("posts by gardeners" in call.prompt for call in model.calls)
        assert len({call.seed for call in model.calls}) == len(model.calls) == 10

    def test_a_model_that_can_continue_is_given_the_first_number(self) -> None:
        model = ScriptedModel(lambda request: f' Oak {request.seed} tree\n2. Ash {request.seed} tree\n3. A "half\nB)')
        topics = topics_from_model(model, "notes", 40, rng())
        assert {call.opening for call in model.calls} == {"1."}
        assert set(topics) == {f"{tree} {call.seed} tree" for tree in ("Oak", "Ash") for call in model.calls}

    def test_invented_words_are_left_out_unless_they_are_named_twice(self) -> None:
        lists = iter(["1. Adrest\n2. Colander\n3. A large kettle", "1. Achala spice\n2. Colanders, colander", "", ""])
        rest = "".join(f"\n{i}. {word}" for i, word in enumerate(["Soup", "Bread", "Salt", "Rice", "Tea", "Milk"]))
        model = ScriptedModel(lambda _: next(lists, "") + rest, can_continue=False)
        topics = topics_from_model(model, "notes on kitchens", 20, rng())
        assert "Colander" in topics
        assert "A large kettle" in topics
        assert not {"Adrest", "Achala spice"} & set(topics)

    def test_articles_and_plurals_make_no_other_topic(self) -> None:
        lines = "1. A dog\n2. dogs\n3. The Dog\n4. Cats\n5. Bees\n6. Soil\n7. Tea\n8. Rain\n9. Snow\n10. Wind"
        topics = topics_from_model(ScriptedModel(lambda _: lines, can_continue=False), "notes", 20, rng())
        assert topics == ("A dog", "Cats", "Bees", "Soil", "Tea", "Rain", "Snow", "Wind")

    def test_what_is_off_topic_is_left_out(self) -> None:
        words = ["tomatoes", "potatoes", "war", "cabbages", "radishes", "lettuces", "oil", "cucumber", "zucchini"]
        near = {"my plots", *words} - {"war", "oil"}

        class Near:
            """Puts the domain and what belongs to it at one place, and all else far away."""

            def embed(self, samples: Samples) -> Points:
                return np.array([[0.0 if text in near else 1.0] for text in samples], dtype=np.float32)

        lines = "\n".join(f"{i}. {word}" for i, word in enumerate([*words, "turnips"]))
        near.add("turnips")
        topics = topics_from_model(ScriptedModel(lambda _: lines, can_continue=False), "my plots", 50, rng(), Near())
        assert set(topics) == near - {"my plots"}

    @pytest.mark.parametrize(
        ("domain", "name"),
        [
            ("customer reviews of kitchen tools", "reviews"),
            ("support tickets of a bank", "support"),
            ("Abstracts of clinical trials", "medical"),
            ("posts by gardeners", "forum"),
            ("letters to a landlord", "everyday"),
        ],
    )
    def test_a_domain_has_a_shipped_list(self, domain: str, name: str) -> None:
        assert shipped_list(domain) == name
        topics = topics_from_model(ScriptedModel(lambda _: ""), domain, 30, rng())
        assert set(topics) <= set(topic_lists()[name])

    def test_topics_of_the_shipped_list_join_those_of_the_model_where_they_are_on_topic(self) -> None:
        class Words:
            """Puts texts with the word shop near the domain, and all else far away."""

            def embed(self, samples: Samples) -> Points:
                near = [text == "reviews of shops" or "shop" in text for text in samples]
                return np.array([[0.0 if each else 1.0] for each in near], dtype=np.float32)

        model = ScriptedModel(lambda _: "1. A hat shop\n2. A rude waiter", can_continue=False)
        topics = topics_from_model(model, "reviews of shops", 100, rng(), Words())
        assert {"A hat shop", "a bike shop", "a thrift shop"} <= set(topics)
        assert all("shop" in topic for topic in topics)

    def test_sentences_and_numbers_at_the_end_are_no_topics(self) -> None:
        lines = ["The room was bad", "Food 2", "Service, 3", "Tea", "Milk", "Salt", "Rice", "Soup", "Bread", "Cake"]
        model = ScriptedModel(lambda _: "\n".join(f"{i}. {line}" for i, line in enumerate(lines)), can_continue=False)
        topics = topics_from_model(model, "notes", 20, rng())
        assert topics == ("Food", "Service", "Tea", "Milk", "Salt", "Rice", "Soup", "Bread", "Cake")

    def test_no_more_than_asked_for(self) -> None:
        model = ScriptedModel(lambda request: "\n".join(f"{i}. topic {request.seed} {i} here" for i in range(20)))
        topics = topics_from_model(model, "notes", 30, rng())
        assert len(set(topics)) == 30
        assert topics == topics_from_model(model, "notes", 30, rng())

    @pytest.mark.parametrize("answer", [None, "", "I cannot think of any topics at all today, I am sorry to say."])
    def test_without_an_answer_the_everyday_list_serves(self, answer: str | None) -> None:
        def say(request: Request) -> str | None:
            return answer

        topics = topics_from_model(ScriptedModel(say), "notes", 40, rng())
        assert len(topics) == 40
        assert set(topics) <= set(topic_lists()["everyday"])

    def test_some_must_be_asked_for(self) -> None:
        with pytest.raises(InputError, match="at least 1, got 0"):
            topics_from_model(ScriptedModel(lambda _: ""), "notes", 0, rng())
