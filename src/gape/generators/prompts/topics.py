"""Topics that make the initial samples diverse: shipped lists, and topics that a model names for a domain.

The answers of a small model often are not topics, so they are checked. Topics must consist of real words: in the
vocabulary of the default embedder, or named in at least two answers, because nobody invents a word twice. They must not
be sentences, must differ in more than an article or a plural, and must be on topic: nearer to the domain than nine in
ten of the everyday topics. If a shipped list fits the kind of domain, such as reviews, its topics are candidates too.
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

# Several wordings of the question yield more topics than one wording with several seeds.
_QUESTIONS = (
    "List twenty different things that {domain} can be about. Write one per line, in a few words each.",
    "Name twenty specific topics of {domain}. Write one per line, in a few words each, without explanations.",
    "Think of {domain}. What are twenty subjects that they deal with? Write one per line, in a few words each.",
    "Give twenty unusual examples of what {domain} can be about. Write one per line, in a few words each.",
)
_MARKER = re.compile(r"^\s*(?:[-*\u2022\u2013]|\(?\d{1,3}[.):]|[A-Za-z][.)])\s*")
_ARTICLES = frozenset({"a", "an", "the"})
# Words that occur in sentences and not in topics.
_SAYING = frozenset(
    {"is", "are", "was", "were", "be", "been", "has", "have", "had", "do", "does", "did", "can", "will", "would"}
    | {"i", "you", "we", "they", "he", "she", "it"}
)
# Words that describe the domains of the shipped lists.
_KINDS = {
    "reviews": frozenset({"review", "reviews", "rating", "ratings"}),
    "support": frozenset({"support", "ticket", "tickets", "complaint", "complaints", "helpdesk", "chats"}),
    "medical": frozenset({"medical", "clinical", "patient", "patients", "biomedical", "health", "abstracts"}),
    "forum": frozenset({"forum", "forums", "post", "posts", "reddit", "thread", "threads"}),
}
_LONGEST = 6  # words; more words are a sentence, not a topic
_NEAR = 0.1  # quantile of the everyday topics' distances to the domain; others must be nearer
_FEWEST = 8  # topics; fewer narrow the initial samples more than the everyday list does


@cache
def topic_lists() -> Mapping[str, tuple[str, ...]]:
    """Return the shipped lists of public topics by name: medical, forum, reviews, support, everyday."""
    table = tomllib.loads(files("gape.generators.prompts").joinpath("topics.toml").read_text(encoding="utf-8"))
    return {name: tuple(" ".join(topic.split()) for topic in text.split(",")) for name, text in table.items()}


@cache
def _known_words() -> frozenset[str]:
    """Return the whole words in the vocabulary of the default embedder."""
    content = files("gape.embedders").joinpath("bert_vocab.txt.gz").read_bytes()
    return frozenset(gzip.decompress(content).decode().split())


def topics_from_model(
    model: LanguageModel, domain: str, count: int, rng: np.random.Generator, embedder: Embedder | None = None
) -> tuple[str, ...]:
    """Ask the model for up to `count` topics of a domain; return a shipped list if it names too few.

    All lists are requested at once, four times as many as should be needed, because models repeat themselves. Topics
    are checked as described above. Whether they are on topic is checked only with an `embedder`; without one a shipped
    list is used only if the model's topics are too few.
    """
    if count < 1:
        raise InputError(f"count of topics must be at least 1, got {count}; ask for one or more")
    asked = max(len(_QUESTIONS), -(-count // 5))
    opening = "1." if model.can_continue else ""  # makes the model continue a list
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
    """Return the name of the shipped list for a domain, by the words that describe it; otherwise "everyday"."""
    words = set(_parts(domain))
    return next((name for name, signs in _KINDS.items() if words & signs), "everyday")


def _of_real_words(lists: list[list[str]]) -> list[str]:
    """Remove topics with a word that is neither known nor named in two lists."""
    named = Counter(word for topics in lists for word in {word for topic in topics for word in _parts(topic)})
    return [
        topic
        for topics in lists
        for topic in topics
        if all(word in _known_words() or named[word] > 1 for word in _parts(topic))
    ]


def _distinct(topics: list[str]) -> list[str]:
    """Keep the first of topics that differ only in case, articles or a plural."""
    first: dict[tuple[str, ...], str] = {}
    for topic in topics:
        words = (word.removesuffix("s") for word in topic.casefold().split() if word not in _ARTICLES)
        first.setdefault(tuple(words), topic)
    return list(first.values())


def _on_topic(topics: list[str], domain: str, embedder: Embedder) -> list[str]:
    """Remove topics that are farther from the domain than the nearest tenth of the everyday topics."""
    everyday = topic_lists()["everyday"]
    points = embedder.embed(as_samples([domain, *topics, *everyday])).astype(np.float64)
    apart = np.linalg.norm(points[1:] - points[0], axis=1)
    farthest = np.quantile(apart[len(topics) :], _NEAR)
    return [topic for topic, distance in zip(topics, apart, strict=False) if distance < farthest]


def _parts(topic: str) -> list[str]:
    """List the words of a topic, without numbers; words with hyphens are split."""
    return re.findall(r"[^\W\d_]+", topic.casefold().replace("'s", ""))


def _topic(line: str) -> str | None:
    """Return the topic in a line of a list, without its marker and explanation; None if there is none."""
    if line.rstrip(" *").endswith(":"):
        return None  # "Sure, here are twenty topics:", or a heading
    named = _MARKER.sub("", line).replace("*", "")
    named = re.split(r"[:;]|\s[-\u2013\u2014]\s|[.!?](?:\s|$)", named)[0].strip(" \"'.,`_")
    named = re.sub(r"[\s,]+\d+$", "", named)
    words = named.split()
    readable = 1 <= len(words) <= _LONGEST and sum(letter.isalpha() for letter in named) > 2
    readable = readable and _SAYING.isdisjoint(named.casefold().split())
    return " ".join(words) if readable and not re.search(r"[<>{}\[\]|\"\x00-\x1f]", named) else None
