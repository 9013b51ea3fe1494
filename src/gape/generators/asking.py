"""Asking a language model for texts: deterministic requests, answers read by rules, another try where none came."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from gape.core.copies import Distinct
from gape.core.errors import ServiceError
from gape.core.types import Samples, as_samples
from gape.generators.cleaning import Rules, clean
from gape.generators.prompts import Prompts
from gape.generators.reading import Draft, Reading
from gape.language.request import Completion, LanguageModel, Request

# Tokens per word of English, generously: a small vocabulary cuts medical words into three.
TOKENS_PER_WORD = 1.7

# How often a request is sent, each time under a new seed, before it is given up.
TRIES = 3

# How often prompts are drawn anew for random samples that were given up.
REDRAWS = 4

# A random text must have one in so many of the words that a text of its domain has.
SHORTEST = 4

# A model that answers a smaller share of random prompts than this is not working.
LEAST_SHARE = 0.1

# From so many prompts on, a first pass is enough to tell.
ENOUGH = 10


def new_seed(rng: np.random.Generator) -> int:
    """Draw the seed of a request."""
    return int(rng.integers(2**31))


def tokens_for(words: float) -> int:
    """Return how many tokens hold about this many words."""
    return max(8, round(TOKENS_PER_WORD * words))


def ask(model: LanguageModel, drafts: Sequence[Draft]) -> list[str | None]:
    """Return one text per draft; None where `TRIES` answers were missing or rejected.

    The requests depend on the drafts alone, and so do those of further tries: where answers are kept by request, a
    run that is resumed finds all of them again.
    """
    missing = list(range(len(drafts)))
    with Reading(drafts) as reading:
        for attempt in range(TRIES):
            if not missing:
                break
            requests = [_again(drafts[place].request, attempt) for place in missing]
            for index, completion in model.complete(requests):
                reading.take(missing[index], completion)
            reading.settle()
            missing = [place for place in missing if reading.texts[place] is None]
    return reading.texts


def draw(
    model: LanguageModel,
    prompts: Prompts,
    count: int,
    temperature: float,
    rng: np.random.Generator,
    *,
    opened: bool = False,
    distinct: bool = True,
) -> Samples:
    """Draw `count` random texts (the paper's RandomAPI); `distinct`: no two of them near copies, if the model can.

    Where no answer will do, another prompt is drawn, `REDRAWS` times over; then near copies are taken, and what is
    still missing repeats a text that is there. Raises ServiceError if not even `LEAST_SHARE` of the prompts was
    answered.
    """
    texts: list[str | None] = [None] * count
    near_copies: dict[int, str] = {}
    missing = list(range(count))
    seen = Distinct()
    for _ in range(1 + REDRAWS):
        drafts = [random_draft(prompts, temperature, rng, opened=opened) for _ in missing]
        for place, text in zip(missing, ask(model, drafts), strict=True):
            if text is not None and (not distinct or seen.take(text)):
                texts[place] = text
            elif text is not None:
                near_copies.setdefault(place, text)
        missing = [place for place in missing if texts[place] is None]
        unanswered = sum(place not in near_copies for place in missing)
        if not missing or (count >= ENOUGH and count - unanswered < LEAST_SHARE * count):
            break
    for place in missing:
        texts[place] = near_copies.get(place)
    found = [text for text in texts if text is not None]
    if len(found) < LEAST_SHARE * count:
        raise ServiceError(
            f"{model.name} gave a usable answer to {len(found)} of {count} prompts, which is less than "
            f"{LEAST_SHARE:.0%}; try the prompts {prompts.name!r} on it by hand, or use another model"
        )
    return as_samples([found[int(rng.integers(len(found)))] if text is None else text for text in texts])


def random_draft(prompts: Prompts, temperature: float, rng: np.random.Generator, *, opened: bool) -> Draft:
    """Ask for one text of the domain; `opened`: with its first words given."""
    request = Request(
        prompt=prompts.random_prompt(rng),
        opening=prompts.opening(rng) if opened else "",
        max_tokens=tokens_for(prompts.words),
        temperature=temperature,
        seed=new_seed(rng),
    )
    fewest = max(1, prompts.words // SHORTEST)
    return Draft(request, partial(read_answer, prompts, request, fewest))


def read_answer(prompts: Prompts, request: Request, fewest: int, completion: Completion) -> str | None:
    """Clean a whole answer of at least `fewest` words."""
    return clean(
        request.opening + completion.text,
        Rules(
            prompt=request.prompt,
            instructions=prompts.instructions,
            cut=not completion.finished,
            fewest_words=fewest,
        ),
    )


def _again(request: Request, attempt: int) -> Request:
    """Return the request of the given try: the same under a seed that follows from (seed, attempt)."""
    if attempt == 0:
        return request
    state = np.random.SeedSequence([request.seed, attempt]).generate_state(1)
    return replace(request, seed=int(state[0]) % 2**31)
