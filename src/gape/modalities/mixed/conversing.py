"""Asking a language model for conversations.

A model that continues an opening writes one turn at a time, each after the turns before it and the role that speaks
next. A small model asked for a whole conversation forgets the roles. A chat service writes all turns in one answer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np

from gape.generators.asking import new_seed, tokens_for
from gape.generators.cleaning import Rules, clean, is_finished
from gape.generators.prompts import delimited
from gape.generators.reading import Draft
from gape.generators.resampled import ResampledText
from gape.language.request import Completion, Request
from gape.modalities.base import TextWriter
from gape.modalities.mixed.turns import Turns

_Turns: TypeAlias = Sequence[tuple[str, str]]  # of (role, content)

_SPREAD = (0.5, 1.5)  # a turn may end after so many times the usual words
_ROOM = 24  # extra words, so that the model can finish its sentence
_REWRITES = 0.5  # share of the small variations that rewrite one turn and keep those after it
_WIDEST = 0.5  # the largest scale of such variations


@dataclass(frozen=True)
class TurnsWriter:
    """Asks for conversations as `writer` asks for texts."""

    writer: TextWriter
    column: Turns

    def new(self, rng: np.random.Generator) -> Draft:
        """Ask for a random conversation."""
        return self._draft(self.writer.prompts.random_prompt(rng), [], rng)

    def alike(self, sample: str, rng: np.random.Generator) -> Draft:
        """Ask for another conversation like the sample."""
        return self._draft(self.writer.prompts.alike_prompt(sample, rng), [], rng)

    def varied(self, sample: str, scale: float, rng: np.random.Generator) -> Draft:
        """Ask for a share `scale` of the turns again.

        These are the last ones, so that the conversation takes another course, or it is continued or cut. A model that
        writes turn by turn rewrites one turn instead in half of the variations up to scale 1/2.
        """
        turns = self.column.turns_in(sample)
        prompt = self.writer.prompts.random_prompt(rng, widened=False)
        if self._opened and scale <= _WIDEST and rng.random() < _REWRITES:
            place = int(rng.integers(len(turns)))
            course = self._course(prompt, place + 1, rng)
            return course.turn(turns[:place], after=turns[place:])
        kept = turns[: int((1 - min(scale, 1.0)) * len(turns) + rng.random())][: self.column.most - 1]
        if not kept:
            return self.alike(sample, rng)
        if not self._opened:
            prompt = f"{prompt}\nIt begins like this: {delimited(self.column.joined(kept))}\nWrite all of it."
        return self._draft(prompt, kept, rng)

    @property
    def _opened(self) -> bool:
        return isinstance(self.writer, ResampledText)

    def _draft(self, prompt: str, kept: _Turns, rng: np.random.Generator) -> Draft:
        column = self.column
        wanted = int(rng.integers(max(column.least, len(kept) + 1), column.most + 1))
        if self._opened:
            return self._course(prompt, wanted, rng).turn(kept)
        roles = " or ".join(f'"{role}:"' for role in column.roles)
        request = Request(
            prompt=f"{prompt}\nWrite a conversation of {wanted} turns. Begin each turn on a new line with {roles}.",
            max_tokens=tokens_for((column.words + 4) * (wanted - len(kept)) * 2 + 16),
            temperature=self.writer.temperature,
            seed=new_seed(rng),
        )
        return Draft(request, partial(read_turns, column, list(kept), wanted))

    def _course(self, prompt: str, wanted: int, rng: np.random.Generator) -> "Course":
        words = float(rng.uniform(*_SPREAD)) * self.column.words
        first = self.writer.prompts.opening(rng)
        return Course(self.column, prompt, first, wanted, words, self.writer.temperature, new_seed(rng))


@dataclass(frozen=True)
class Course:
    """A conversation that is written one turn at a time, up to `wanted` turns of about `words` words."""

    column: Turns
    prompt: str
    first: str  # the first words of its first turn
    wanted: int
    words: float
    temperature: float
    seed: int

    def turn(self, before: _Turns, after: _Turns = ()) -> Draft:
        """Ask for the turn that follows `before`, and replaces the first of `after` if there are any."""
        roles = self.column.roles
        following = roles[(roles.index(before[-1][0]) + 1) % len(roles)] if before else roles[0]
        role = after[0][0] if after else following
        first = "" if before else self.first
        request = Request(
            prompt=self.prompt,
            opening="\n".join([f"{own}: {content}" for own, content in before] + [f"{role}: {first}".rstrip()]),
            max_tokens=tokens_for(self.words + _ROOM),
            temperature=self.temperature,
            seed=int(np.random.SeedSequence([self.seed, len(before)]).generate_state(1)[0]) % 2**31,
            enough=tokens_for(self.words),
        )
        last = bool(after) or len(before) + 1 >= self.wanted
        read = partial(read_turn, self.column, role, first, tuple(before), tuple(after))
        return Draft(request, read, None if last else self.following)

    def following(self, text: str) -> Draft:
        """Ask for the turn after those that have been written."""
        return self.turn(self.column.turns_in(text))


def read_turn(
    column: Turns, role: str, first: str, before: _Turns, after: _Turns, completion: Completion
) -> str | None:
    """Return the conversation with the turn of an answer, which ends with its line; None if it is not usable."""
    line, ended, _ = f"{first}{completion.text}".strip().partition("\n")
    cut = not ended and not completion.finished and not is_finished(line.rstrip())
    content = clean(line, Rules(cut=cut, fewest_words=1))
    if content is None or content.rstrip(".") == first or column.turns_in(content.removeprefix(first)):
        return None  # nothing new, or another role
    if content in [own for _, own in (*before, *after)]:
        return None
    return column.joined([*before, (role, content), *after[1:]])


def read_turns(column: Turns, kept: list[tuple[str, str]], wanted: int, completion: Completion) -> str | None:
    """Return the conversation of an answer with at most `wanted` turns; None if it has too few, or nothing new."""
    turns = column.turns_in(completion.text)
    if not completion.finished and len(turns) <= wanted:
        turns = turns[:-1]  # cut in the middle
    cleaned = [(role, clean(content, Rules(fewest_words=1))) for role, content in turns[:wanted]]
    usable = [(role, content) for role, content in cleaned if content is not None]
    if len(usable) < column.least or usable == kept or len({role for role, _ in usable}) < min(2, len(column.roles)):
        return None
    return column.joined(usable)
