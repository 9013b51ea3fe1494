"""Asking a language model for texts: deterministic requests, answers read by rules, and retries."""

from collections.abc import Callable, Sequence
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

# Upper estimate of tokens per English word: a small vocabulary splits medical words into three.
MOST_TOKENS_PER_WORD = 1.7

# How often a request is sent, each time with a new seed, before it counts as failed.
TRIES = 3

# How often new prompts are drawn for random samples whose requests failed.
REDRAWS = 4

# A random text must have at least 1 / SHORTEST of the words of a typical text of its domain.
SHORTEST = 4

# A model that answers a smaller share of random prompts than this is not working.
LEAST_SHARE = 0.1

# With at least this many prompts, the first pass is enough to tell.
ENOUGH = 10


def new_seed(rng: np.random.Generator) -> int:
    """Draw the seed of a request."""
    return int(rng.integers(2**31))


def tokens_for(words: float) -> int:
    """Return a number of tokens that is enough for about this many words."""
    return max(8, round(MOST_TOKENS_PER_WORD * words))


def ask(model: LanguageModel, drafts: Sequence[Draft]) -> list[str | None]:
    """Return one text per draft, or None if `TRIES` answers were missing or rejected, also in a step that follows.

    The requests and their retries depend only on the drafts. So if answers are stored by request, a resumed run finds
    all of them again.
    """
    missing = list(range(len(drafts)))
    with Reading(drafts) as reading:
        for attempt in range(TRIES):
            if not missing:
                break
            requests = [_retried(drafts[draft].request, attempt) for draft in missing]
            for index, completion in model.complete(requests):
                reading.take(missing[index], completion)
            reading.settle()
            missing = [draft for draft in missing if reading.texts[draft] is None]
    texts = reading.texts
    steps = {
        index: draft.following(text)
        for index, (draft, text) in enumerate(zip(drafts, texts, strict=True))
        if draft.following is not None and text is not None
    }
    if steps:
        for index, text in zip(steps, ask(model, list(steps.values())), strict=True):
            texts[index] = text
    return texts


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
    """Draw `count` random texts (the paper's RandomAPI). With `distinct`, no two are near copies if possible.

    Texts that are still missing after all tries of `draw_each` are replaced by repeating others.
    """
    texts = draw_each(
        model, lambda _: random_draft(prompts, temperature, rng, opened=opened), count, prompts.name, distinct=distinct
    )
    return filled(texts, rng)


def filled(texts: Sequence[str | None], rng: np.random.Generator) -> Samples:
    """Return texts with missing ones replaced by repeating others."""
    usable = [text for text in texts if text is not None]
    return as_samples([usable[int(rng.integers(len(usable)))] if text is None else text for text in texts])


def draw_each(
    model: LanguageModel, draft: Callable[[int], Draft], count: int, prompts: str, *, distinct: bool = True
) -> list[str | None]:
    """Draw one random text for each index below `count`; None where the model did not deliver.

    If no answer is usable, `draft` is called again, up to `REDRAWS` times. After that, near copies are accepted. Raises
    ServiceError, with the name of the prompts, if less than `LEAST_SHARE` of them was answered.
    """
    texts: list[str | None] = [None] * count
    near_copies: dict[int, str] = {}
    missing = list(range(count))
    seen = Distinct()
    for _ in range(1 + REDRAWS):
        for index, text in zip(missing, ask(model, [draft(index) for index in missing]), strict=True):
            if text is not None and (not distinct or seen.take(text)):
                texts[index] = text
            elif text is not None:
                near_copies.setdefault(index, text)
        missing = [index for index in missing if texts[index] is None]
        unanswered = sum(index not in near_copies for index in missing)
        if not missing or (count >= ENOUGH and count - unanswered < LEAST_SHARE * count):
            break
    for index in missing:
        texts[index] = near_copies.get(index)
    usable = sum(text is not None for text in texts)
    if usable < LEAST_SHARE * count:
        raise ServiceError(
            f"{model.name} gave usable answers to {usable} of {count} prompts, which is less than "
            f"{LEAST_SHARE:.0%}; try the prompts {prompts!r} with it by hand, or use another model"
        )
    return texts


def random_draft(prompts: Prompts, temperature: float, rng: np.random.Generator, *, opened: bool) -> Draft:
    """Return a draft that asks for one text of the domain; with `opened`, its first words are given."""
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
    """Clean an answer, which must have at least `fewest` words."""
    return clean(
        request.opening + completion.text,
        Rules(
            prompt=request.prompt,
            instructions=prompts.instructions,
            cut=not completion.finished,
            fewest_words=fewest,
        ),
    )


def _retried(request: Request, attempt: int) -> Request:
    """Return the request of the given attempt: the same with a seed derived from (seed, attempt), and in plain text."""
    if attempt == 0:
        return request
    state = np.random.SeedSequence([request.seed, attempt]).generate_state(1)
    return replace(request, seed=int(state[0]) % 2**31, schema=None)
