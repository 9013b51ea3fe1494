"""Topics that widen a random start: shipped lists, and what a model names from the description of a domain.

What a small model names is often not a topic, so topics are checked. They must be real words: in the vocabulary that
comes with the default embedder, or named in two answers at least, because nobody invents a word twice. They must not be
sentences, differ in more than an article or a plural, and be on topic: nearer to the domain than nine in ten of the
everyday topics are. Where a shipped list is of the domain's kind, such as reviews, its topics are candidates too.
"""

import gzip
import re
import tomllib
from collections import Counter
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

import numpy as np

from gape.core.errors import InputError
from gape.core.protocols import Embedder
from gape.core.types import as_samples
from gape.language.request import LanguageModel, Request

# The same question in several words draws more topics than one question under several seeds.
_QUESTIONS = (
    "List twenty different things that {domain} can be about. Write one per line, in a few words each.",
    "Name twenty specific topics of {domain}. Write one per line, in a few words each, without explanations.",
    "Think of {domain}. What are twenty subjects that they deal with? Write one per line, in a few words each.",
    "Give twenty unusual examples of what {domain} can be about. Write one per line, in a few words each.",
)
_MARKER = re.compile(r"^\s*(?:[-*\u2022\u2013]|\(?\d{1,3}[.):]|[A-Za-z][.)])\s*")
_ARTICLES = frozenset({"a", "an", "the"})
# Words of sentences, which topics are not.
_SAYING = frozenset(
    {"is", "are", "was", "were", "be", "been", "has", "have", "had", "do", "does", "did", "can", "will", "would"}
    | {"i", "you", "we", "they", "he", "she", "it"}
)
# What describes the domains that there are shipped lists for.
_KINDS = {
    "reviews": frozenset({"review", "reviews", "rating", "ratings"}),
    "support": frozenset({"support", "ticket", "tickets", "complaint", "complaints", "helpdesk", "chats"}),
    "medical": frozenset({"medical", "clinical", "patient", "patients", "biomedical", "health", "abstracts"}),
    "forum": frozenset({"forum", "forums", "post", "posts", "reddit", "thread", "threads"}),
}
_LONGEST = 6  # words: more is a sentence, not a topic
_NEAR = 0.1  # of the everyday topics: how near to the domain the others must be
_FEWEST = 8  # topics: fewer narrow the start more than the everyday list does


@cache
def topic_lists() -> Mapping[str, tuple[str, ...]]:
    """Return the shipped lists of public topics by name: medical, forum, reviews, support, everyday."""
    table = tomllib.loads(files("gape.generators.prompts").joinpath("topics.toml").read_text(encoding="utf-8"))
    return {name: tuple(" ".join(topic.split()) for topic in text.split(",")) for name, text in table.items()}


@cache
def _known_words() -> frozenset[str]:
    """Return the whole words of the vocabulary that comes with the default embedder."""
    content = files("gape.embedders").joinpath("bert_vocab.txt.gz").read_bytes()
    return frozenset(gzip.decompress(content).decode().split())


def topics_from_model(
    model: LanguageModel, domain: str, count: int, rng: np.random.Generator, embedder: Embedder | None = None
) -> tuple[str, ...]:
    """Ask the model for up to `count` topics of a domain; a shipped list where it names too few to be of use.

    Lists are asked for all at once, four times as many as should be needed: models repeat themselves. Topics are
    checked as said above; whether they are on topic, only with an `embedder`, and without one a shipped list serves
    only where the model's topics are too few.
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
    lists: list[list[str]] = []
    for _, completion in sorted(answers.items()):
        lines = (opening + completion.text).splitlines()
        named = map(_topic, lines if completion.finished else lines[:-1])
        lists.append([topic for topic in named if topic])
    shipped = topic_lists()[shipped_list(domain)]
    topics = _distinct(_of_real_words(lists))
    if embedder is not None:
        topics = _on_topic(_distinct([*topics, *shipped]), domain, embedder)
    if len(topics) < min(count, _FEWEST):
        topics = list(shipped)
    order = rng.permutation(len(topics))[:count]
    return tuple(topics[i] for i in sorted(order))


def shipped_list(domain: str) -> str:
    """Name the shipped list of topics for a domain's kind, by the words that describe it; everyday for any other."""
    words = set(_parts(domain))
    return next((name for name, signs in _KINDS.items() if words & signs), "everyday")


def _of_real_words(lists: list[list[str]]) -> list[str]:
    """Leave out topics with a word that is neither known nor named in two lists."""
    named = Counter(word for topics in lists for word in {word for topic in topics for word in _parts(topic)})
    return [
        topic
        for topics in lists
        for topic in topics
        if all(word in _known_words() or named[word] > 1 for word in _parts(topic))
    ]


def _distinct(topics: list[str]) -> list[str]:
    """Keep the first of topics that differ in case, articles or a plural alone."""
    found: dict[tuple[str, ...], str] = {}
    for topic in topics:
        words = (word.removesuffix("s") for word in topic.casefold().split() if word not in _ARTICLES)
        found.setdefault(tuple(words), topic)
    return list(found.values())


def _on_topic(topics: list[str], domain: str, embedder: Embedder) -> list[str]:
    """Leave out topics that are farther from the domain than the nearest tenth of the everyday topics."""
    everyday = topic_lists()["everyday"]
    points = embedder.embed(as_samples([domain, *topics, *everyday])).astype(np.float64)
    apart = np.linalg.norm(points[1:] - points[0], axis=1)
    farthest = np.quantile(apart[len(topics) :], _NEAR)
    return [topic for topic, distance in zip(topics, apart, strict=False) if distance < farthest]


def _parts(topic: str) -> list[str]:
    """List the words of a topic, those with hyphens in their parts, and no numbers."""
    return re.findall(r"[^\W\d_]+", topic.casefold().replace("'s", ""))


def _topic(line: str) -> str | None:
    """Return what a line of a list names, without its marker and explanation."""
    if line.rstrip(" *").endswith(":"):
        return None  # "Sure, here are twenty topics:", or a heading
    named = _MARKER.sub("", line).replace("*", "")
    named = re.split(r"[:;]|\s[-\u2013\u2014]\s|[.!?](?:\s|$)", named)[0].strip(" \"'.,`_")
    named = re.sub(r"[\s,]+\d+$", "", named)
    words = named.split()
    readable = 1 <= len(words) <= _LONGEST and sum(letter.isalpha() for letter in named) > 2
    readable = readable and _SAYING.isdisjoint(named.casefold().split())
    return " ".join(words) if readable and not re.search(r"[<>{}\[\]|\"\x00-\x1f]", named) else None
