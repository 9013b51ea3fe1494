"""Prompts for language models as data, by domain.

A set of prompts is a TOML file. `load` reads a shipped one (`SHIPPED`) by its name, or your own by its path:

    domain = "customer reviews of kitchen tools"         # what the texts are
    words = 80                                           # about how long they are
    random = ["Write one of {domain}."]                  # one is drawn for each random sample
    widen = "It is about: {topic}."                      # added to it, so that the initial samples are diverse
    openings = ["I", "We went to"]                       # first words, for models that can continue an opening
    rephrase = ["Please rephrase {tone}: {sample}"]      # one is drawn for each variation
    alike = "Write another one like this: {sample}"      # added for a new text like a sample; may be left out
    fill = ["Fill in the blanks {mask}: {sample}"]
    given = "It must fit: {cells}"                       # added if a text belongs to a record with other cells
    [rules]                                              # the options of each placeholder
    topic = "reviews"                                    # one of the lists in topics.toml
    tone = ["in a casual way", "briefly"]                # or your own list

Prompts contain only public text: candidates, never a private record.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

from gape._support.files import read_bounded
from gape.core.errors import InputError
from gape.generators.prompts.topics import topic_lists, topics_from_model

__all__ = [
    "SAMPLE_CHARACTERS",
    "SHIPPED",
    "Prompts",
    "delimited",
    "generic",
    "load",
    "topic_lists",
    "topics_from_model",
]

SHIPPED = ("forum", "generic", "pubmed", "reddit", "yelp")

# Maximum length of a candidate in a prompt: about 600 words, which fit twice into the context of a small model.
SAMPLE_CHARACTERS = 4000

# Placeholders that are not drawn: {sample} is the candidate, {words} a number of words, {mask} the sign for a blank.
# {cells} are the other cells of a record.
_GIVEN = frozenset({"sample", "domain", "words", "mask", "cells"})
_PLACEHOLDER = re.compile(r"\{([A-Za-z_]\w*)\}")
_QUOTES = re.compile('["\u201c\u201d\u201e\u201f\u00ab\u00bb\u2033\uff02]')
_ROLE_TOKEN = re.compile(r"<\|[^<>|]{0,40}\|>|\[/?INST\]|<</?SYS>>|<(?:start|end)_of_turn>|</?(?:s|bos|eos)>")


def delimited(sample: str) -> str:
    """Put a candidate, cut at `SAMPLE_CHARACTERS`, between double quotes that it cannot close.

    Double quotes inside become single ones, and the tokens by which chat models separate turns are removed.
    """
    quoted = _QUOTES.sub("'", sample)
    return f'"{shortened(quoted)}"'


def shortened(sample: str) -> str:
    """Cut a candidate at `SAMPLE_CHARACTERS`, and remove the tokens by which chat models separate turns."""
    inside = sample
    while (without := _ROLE_TOKEN.sub("", inside)) != inside:  # removing one may join the halves of another
        inside = without
    if len(inside) > SAMPLE_CHARACTERS:
        inside = inside[:SAMPLE_CHARACTERS].rsplit(maxsplit=1)[0]
    return inside.strip()


# The default request for another text like a sample.
_ALIKE = "Here is an example: {sample}\nWrite about the same thing, but in your own words."

# The default request for a text that agrees with the other cells of its record: a small model writes about an
# instruction that it is given, but not about a list of cells.
_FITTING = "{cells}"


@dataclass(frozen=True)
class Prompts:
    """The prompts of one domain. An unknown placeholder in a template raises InputError."""

    name: str
    domain: str
    random: tuple[str, ...]
    rephrase: tuple[str, ...]
    fill: tuple[str, ...] = ()
    alike: str = _ALIKE
    widen: str = ""
    openings: tuple[str, ...] = ()
    rules: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    words: int = 80
    mask: str = "_"
    # Not in the repr, which describes a run of texts; the generator of records names them itself.
    given: str = field(default=_FITTING, repr=False)
    cells: str = field(default="", repr=False)  # of the record that a text belongs to; public
    topic_shares: tuple[float, ...] = field(default=(), repr=False)  # of each topic; alike if empty

    def __post_init__(self) -> None:
        if self.words < 1:
            raise InputError(
                f"{self._label}: words must be at least 1, got {self.words}; give the usual length of a text"
            )
        if not self.random or not self.rephrase:
            raise InputError(f"{self._label}: random and rephrase need at least one template each; add one")
        for name, options in self.rules.items():
            if name in _GIVEN - {"words"}:
                raise InputError(f"{self._label}: the rule {name!r} has a reserved name; rename it")
            if not options:
                raise InputError(f"{self._label}: the rule {name!r} has no options; list at least one")
        for part in ("random", "rephrase", "fill", "alike", "widen", "given", "openings"):
            templates = (getattr(self, part),) if part in {"widen", "alike", "given"} else getattr(self, part)
            for template in templates:
                self._check(part, template)

    def random_prompt(self, rng: np.random.Generator, *, widened: bool = True) -> str:
        """Draw a prompt for a random sample, followed by the line that makes the initial samples diverse."""
        prompt = self._filled(self._draw(self.random, rng), rng, {})
        if widened and self.widen:
            prompt = f"{prompt}\n{self._filled(self.widen, rng, {})}"
        return self._fitting(prompt, rng)

    def opening(self, rng: np.random.Generator) -> str:
        """Draw the first words of a random sample, for models that can continue an opening."""
        return self._filled(self._draw(self.openings, rng), rng, {}) if self.openings else ""

    def rephrase_prompt(self, sample: str, rng: np.random.Generator) -> str:
        """Draw a prompt that asks for `sample` in other words."""
        return self._fitting(self._filled(self._draw(self.rephrase, rng), rng, self._of(sample)), rng)

    def alike_prompt(self, sample: str, rng: np.random.Generator) -> str:
        """Draw a prompt that asks for another text like `sample`."""
        asked = self._filled(self._draw(self.random, rng), rng, {})  # without a topic, which the sample has
        return self._fitting(f"{asked}\n{self._filled(self.alike, rng, self._of(sample))}", rng)

    def fill_prompt(self, masked: str, rng: np.random.Generator) -> str:
        """Draw a prompt that asks for the blanks of `masked` to be filled in."""
        if not self.fill:
            raise InputError(f"{self._label}: there is no template for filling in blanks; add one under fill")
        return self._filled(self._draw(self.fill, rng), rng, self._of(masked))

    def with_topics(self, topics: Sequence[str]) -> "Prompts":
        """Return these prompts with {topic} drawn from `topics`."""
        return replace(self, rules={**self.rules, "topic": tuple(topics)})

    def telling(self, cells: Mapping[str, str]) -> "Prompts":
        """Return these prompts with the cells of the record that a text belongs to, by column."""
        return replace(self, cells="\n".join(f"{name}: {value}" for name, value in cells.items()))

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that random samples are about; empty if prompts name none."""
        return self.rules.get("topic", ()) if "{topic}" in " ".join((self.widen, *self.random)) else ()

    def favouring(self, shares: Sequence[float]) -> "Prompts":
        """Return these prompts with each topic drawn with its own probability."""
        if len(shares) != len(self.topics):
            raise InputError(f"{self._label}: {len(self.topics)} topics need as many shares, got {len(shares)}")
        return replace(self, topic_shares=tuple(float(share) for share in shares))

    def bare(self) -> "BarePrompts":
        """Return these prompts without topics and openings, and with samples not in quotes.

        `pubmed` and `reddit` then are the paper's prompts, word for word.
        """
        templates = " ".join((*self.random, *self.rephrase, *self.fill, self.alike))
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        used = {name: options for name, options in self.rules.items() if f"{{{name}}}" in templates}
        return BarePrompts(**values | {"widen": "", "openings": (), "rules": used})

    @cached_property
    def instructions(self) -> tuple[str, ...]:
        """The fixed words of all prompts, which no text of the domain should repeat."""
        templates = (*self.random, *self.rephrase, *self.fill, self.alike, *([self.given] if self.cells else []))
        return tuple(words for template in templates for words in re.split(r"\{\w+\}", template) if words.strip())

    def _fitting(self, prompt: str, rng: np.random.Generator) -> str:
        """Add the cells that the text must agree with, if there are any."""
        return f"{prompt}\n{self._filled(self.given, rng, {})}" if self.cells else prompt

    @property
    def _label(self) -> str:
        return f"prompts {self.name!r}"

    @staticmethod
    def _of(sample: str) -> dict[str, str]:
        return {"sample": delimited(sample), "words": str(len(sample.split()))}

    @staticmethod
    def _draw(options: Sequence[str], rng: np.random.Generator) -> str:
        return options[int(rng.integers(len(options)))]

    def _option(self, name: str, rng: np.random.Generator) -> str:
        """Draw an option of a rule."""
        if name == "topic" and self.topic_shares:
            return self.topics[int(rng.choice(len(self.topics), p=self.topic_shares))]
        return self._draw(self.rules[name], rng)

    def _filled(self, template: str, rng: np.random.Generator, given: Mapping[str, str]) -> str:
        """Replace placeholders in one pass, so that braces inside a candidate stay unchanged."""
        known = {"domain": self.domain, "words": str(self.words), "mask": self.mask, "cells": self.cells}
        drawn = {name: self._option(name, rng) for name in _PLACEHOLDER.findall(template) if name in self.rules}
        values = {**known, **given, **drawn}
        return _PLACEHOLDER.sub(lambda match: values[match[1]], template)

    def _check(self, part: str, template: str) -> None:
        used = set(_PLACEHOLDER.findall(template))
        varies = part in {"rephrase", "fill", "alike"}
        known = set(self.rules) | (_GIVEN if varies else _GIVEN - {"sample", "mask"})
        known -= set() if part == "given" else {"cells"}
        if unknown := sorted(used - known):
            names = " ".join(", ".join(sorted(known)).split())[:200]  # a file may contain any name
            raise InputError(
                f"{self._label}: {part} uses {{{unknown[0]}}}, which is not one of {names}; add it under [rules] or "
                "remove it"
            )
        if part == "given" and "cells" not in used:
            raise InputError(
                f"{self._label}: given must contain {{cells}}, got {template!r:.100}; put it where the cells belong"
            )
        if varies and "sample" not in used:
            raise InputError(
                f"{self._label}: {part} must contain {{sample}}, got {template!r:.100}; put it where the text belongs"
            )


@dataclass(frozen=True)
class BarePrompts(Prompts):
    """Prompts that contain a sample as it is."""

    @staticmethod
    def _of(sample: str) -> dict[str, str]:
        return {"sample": shortened(sample), "words": str(len(sample.split()))}


def load(name: str | Path) -> Prompts:
    """Read the shipped prompts of this name (`SHIPPED`), or those in a TOML file at this path."""
    if name in SHIPPED:
        return _parse(str(name), files(__name__).joinpath(f"{name}.toml").read_text(encoding="utf-8"))
    path = Path(name)
    if path.suffix != ".toml":
        raise InputError(
            f"prompts {str(name)!r} are not known; use one of {', '.join(SHIPPED)}, or a path to a .toml file"
        )
    try:
        text = read_bounded(path)
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"prompts {str(path)!r} cannot be read ({error}); check the path") from error
    return _parse(path.stem, text)


def generic(domain: str, topics: Sequence[str] = (), words: int | None = None) -> Prompts:
    """Make prompts for a domain described in a few words, such as "customer reviews of kitchen tools"."""
    if not (domain := " ".join(domain.split()).rstrip(".:")):
        raise InputError("a domain must describe the texts, got nothing; use for example 'customer reviews'")
    prompts = replace(load("generic"), domain=domain)
    prompts = prompts.with_topics(topics) if topics else prompts
    return replace(prompts, words=words) if words is not None else prompts


_KEYS: Mapping[str, type] = {
    "domain": str,
    "words": int,
    "random": list,
    "widen": str,
    "rephrase": list,
    "fill": list,
    "alike": str,
    "given": str,
    "openings": list,
    "mask": str,
    "rules": dict,
}
_NAMES = {str: "a string", int: "a whole number", list: "a list of strings", dict: "a table"}


def _parse(name: str, text: str) -> Prompts:
    try:
        table = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"prompts {name!r} are not valid TOML ({str(error)[:200]}); fix the file") from error
    if unknown := sorted(set(table) - set(_KEYS)):
        raise InputError(f"prompts {name!r} have an unknown key {unknown[0]!r:.100}; use {', '.join(_KEYS)}")
    if missing := [key for key in ("domain", "random", "rephrase") if key not in table]:
        raise InputError(f"prompts {name!r} must have the key {missing[0]!r}; add it")
    values: dict[str, Any] = {}
    for key, value in table.items():
        right = type(value) is _KEYS[key] and (_KEYS[key] is not list or _strings(value))
        if not right:
            raise InputError(f"prompts {name!r}: {key} must be {_NAMES[_KEYS[key]]}, got {value!r:.100}; change it")
        values[key] = tuple(value) if isinstance(value, list) else value
    values["rules"] = {rule: _options(name, rule, value) for rule, value in table.get("rules", {}).items()}
    return Prompts(name=name, **values)


def _options(name: str, rule: str, value: Any) -> tuple[str, ...]:
    lists = topic_lists()
    if isinstance(value, str) and value in lists:
        return lists[value]
    if not _strings(value):
        raise InputError(
            f"prompts {name!r}: the rule {rule!r:.100} must be a list of strings or one of {', '.join(lists)}, got "
            f"{value!r:.100}; change it"
        )
    return tuple(value)


def _strings(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(option, str) for option in value)
