"""Topics that widen a random start: shipped lists, and what a model names from the description of a domain."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import numpy as np

from gape.errors import InputError
from gape.language.request import LanguageModel, Request

# The same question in several words draws more topics than one question under several seeds.
_QUESTIONS = (
    "List twenty different things that {domain} can be about. Write one per line, in a few words each.",
    "Name twenty specific topics of {domain}. Write one per line, in a few words each, without explanations.",
    "Think of {domain}. What are twenty subjects that they deal with? Write one per line, in a few words each.",
    "Give twenty unusual examples of what {domain} can be about. Write one per line, in a few words each.",
)
_MARKER = re.compile(r"^\s*(?:[-*\u2022\u2013]|\(?\d{1,3}[.):]|[A-Za-z][.)])\s*")
_LONGEST = 6  # words: more is a sentence, not a topic
_FEWEST = 8  # topics: fewer narrow the start more than the everyday list does


@cache
def topic_lists() -> Mapping[str, tuple[str, ...]]:
    """Return the shipped lists of public topics by name: medical, forum, reviews, support, everyday."""
    table = tomllib.loads(files("gape.prompts").joinpath("topics.toml").read_text(encoding="utf-8"))
    return {name: tuple(" ".join(topic.split()) for topic in text.split(",")) for name, text in table.items()}


def topics_from_model(model: LanguageModel, domain: str, count: int, rng: np.random.Generator) -> tuple[str, ...]:
    """Ask the model for up to `count` topics of a domain; the everyday list where it names too few to be of use.

    Lists are asked for all at once, four times as many as should be needed: models repeat themselves.
    """
    if count < 1:
        raise InputError(f"count of topics must be at least 1, got {count}; ask for some")
    asked = max(len(_QUESTIONS), -(-count // 5))
    opening = "1." if model.can_continue else ""  # a list that has begun goes on
    requests = [
        Request(
            prompt=_QUESTIONS[i % len(_QUESTIONS)].format(domain=domain),
            opening=opening,
            max_tokens=160,
            seed=int(rng.integers(2**31)),
        )
        for i in range(asked)
    ]
    answers = dict(model.complete(requests))
    found: dict[str, str] = {}
    for _, completion in sorted(answers.items()):
        lines = (opening + completion.text).splitlines()
        for line in lines if completion.finished else lines[:-1]:
            if topic := _topic(line):
                found.setdefault(topic.casefold(), topic)
    topics = tuple(found.values())
    if len(topics) < min(count, _FEWEST):
        topics = topic_lists()["everyday"]
    order = rng.permutation(len(topics))[:count]
    return tuple(topics[i] for i in sorted(order))


def _topic(line: str) -> str | None:
    """Return what a line of a list names, without its marker and explanation."""
    if line.rstrip(" *").endswith(":"):
        return None  # "Sure, here are twenty topics:", or a heading
    named = _MARKER.sub("", line).replace("*", "")
    named = re.split(r"[:;]|\s[-\u2013\u2014]\s|[.!?](?:\s|$)", named)[0].strip(" \"'.,`_")
    words = named.split()
    readable = 1 <= len(words) <= _LONGEST and sum(letter.isalpha() for letter in named) > 2
    return " ".join(words) if readable and not re.search(r"[<>{}\[\]|\"\x00-\x1f]", named) else None
