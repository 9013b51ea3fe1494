"""What a run will be like, before anything is spent: noise against votes, calls, tokens, time, and what would suit.

Functions of public numbers alone. Estimates are called that; the noise is exact.

The rule for the number of samples: a candidate gets n / (number of candidates) votes on average, and selection follows
them only as far as noise of sigma lets it. Measured with 18,000 abstracts at epsilon 1, where sigma is 13.4 and a
sample has 8 candidates: with 2,000 samples, 0.09 sigma, three rounds raised recall 1.4-fold, with 100 samples, 1.7
sigma, 2.4-fold; but few samples cover little, and the most recall at an honest precision came in between. So m is the
largest for which a typical candidate gets a third of sigma, 500 there, and more texts come by expanding the result,
which costs no privacy and reached the recall of 2,000 samples. Recall was still rising in the sixth round, at every
epsilon, so rounds are not saved on.
"""

import math
from dataclasses import dataclass

from gape.errors import InputError
from gape.plan import Plan
from gape.privacy.accounting import Neighbours, noise_scale

LEAST_SIGNAL = 1 / 3  # typical votes over sigma
FEWEST_SAMPLES, MOST_SAMPLES = 10, 2000
FEWEST_UNITS = 100

TOKENS_PER_WORD = 1.35  # of English, on average
PROMPT_WORDS = 40  # of instructions

# Measured on two cores beside other work; a quiet machine is faster.
TOKENS_PER_SECOND_PER_CORE = 55.0  # SmolLM2-135M, embedded
TEXTS_EMBEDDED_PER_SECOND_PER_CORE = 19.0  # MiniLM, reviews of 100 words
SECONDS_PER_REQUEST = 3.0  # of a hosted service; they differ


@dataclass(frozen=True)
class Writer:
    """How a generator works, in the numbers that its cost follows from."""

    words: int = 80  # of a text
    rewritten: float = 1.0  # the share of a text that a variation writes anew
    reads_sample: bool = False  # whether a variation's prompt holds the whole sample, or only what is kept of it
    model: bool = True  # False where no language model is asked
    tokens_per_second: float | None = None  # of a model on this machine
    concurrency: int | None = None  # of a service
    prompt_price: float = 0.0  # for a million tokens
    completion_price: float = 0.0


@dataclass(frozen=True)
class Outlook:
    """What is to be expected of a plan."""

    units: int  # records or users
    sigma: float
    votes_per_candidate: float  # on average
    signal: float  # that over sigma; infinite without noise
    calls: int  # of the generator
    prompt_tokens: int
    completion_tokens: int
    cost: float
    seconds: float | None  # None where it cannot be known
    suggested_samples: int
    remarks: tuple[str, ...]


def usual_delta(units: int) -> float:
    """Return 1 / (n ln n), the paper's delta; n is taken as public."""
    if units < 3:
        raise InputError(f"delta follows from the number of records, and {units} are too few; give delta")
    return 1 / (units * math.log(units))


def suggested_samples(units: int, sigma: float, per_sample: int) -> int:
    """Return the largest m whose candidates, `per_sample` each, get a third of sigma in votes; within 10 and 2,000."""
    if sigma <= 0:
        return min(MOST_SAMPLES, max(FEWEST_SAMPLES, units // per_sample))
    return max(FEWEST_SAMPLES, min(MOST_SAMPLES, int(units / (LEAST_SIGNAL * sigma * per_sample))))


def samples_for(
    units: int,
    epsilon: float,
    delta: float,
    rounds: int,
    per_sample: int,
    *,
    neighbours: Neighbours = "replace",
    votes_per_unit: int = 1,
) -> int:
    """Return how many samples suit this many units under a guarantee, by the rule above."""
    sigma = noise_scale(epsilon, delta, rounds, neighbours=neighbours, votes_per_unit=votes_per_unit)
    return suggested_samples(units * votes_per_unit, sigma, per_sample)


def calls_of(plan: Plan) -> tuple[int, ...]:
    """Return how many texts the generator writes at the start, and before each round."""
    variations = len(plan.scales) * plan.copies
    return (plan.initial, plan.initial * variations, *[plan.samples * variations] * (plan.rounds - 1))


def outlook(plan: Plan, units: int, writer: Writer, *, cores: int = 1) -> Outlook:
    """Say what to expect of a plan for `units` records or users."""
    per_sample = len(plan.scales) * plan.copies + int(plan.keep)
    votes = units * plan.votes_per_unit / (plan.samples * per_sample)
    signal = votes / plan.sigma if plan.sigma > 0 else math.inf
    first, *rounds = calls_of(plan)
    calls = (first + sum(rounds)) if writer.model else 0
    prompt, completion = _tokens(first, sum(rounds), writer) if writer.model else (0, 0)
    cost = (prompt * writer.prompt_price + completion * writer.completion_price) / 1e6
    suggested = suggested_samples(units * plan.votes_per_unit, plan.sigma, per_sample)
    texts = units + first * per_sample + plan.samples * (per_sample - int(plan.keep)) * (plan.rounds - 1)
    embedding = texts / (TEXTS_EMBEDDED_PER_SECOND_PER_CORE * cores)
    writing = _writing(calls, prompt, completion, writer) if writer.model else 0.0
    return Outlook(
        units=units,
        sigma=plan.sigma,
        votes_per_candidate=votes,
        signal=signal,
        calls=calls,
        prompt_tokens=prompt,
        completion_tokens=completion,
        cost=cost,
        seconds=None if writing is None else embedding + writing,
        suggested_samples=suggested,
        remarks=tuple(_remarks(plan, units, votes, signal, suggested)),
    )


def _writing(calls: int, prompt: int, completion: int, writer: Writer) -> float | None:
    """How long the model takes, in seconds; None for one of which nothing is known."""
    if writer.tokens_per_second is not None:
        return (completion + prompt / 10) / writer.tokens_per_second  # reading is about ten times as fast
    return None if writer.concurrency is None else calls * SECONDS_PER_REQUEST / writer.concurrency


def _tokens(first: int, varied: int, writer: Writer) -> tuple[int, int]:
    text = writer.words * TOKENS_PER_WORD
    instructions = PROMPT_WORDS * TOKENS_PER_WORD
    read = text if writer.reads_sample else text * (1 - writer.rewritten)
    prompt = first * instructions + varied * (instructions + read)
    return round(prompt), round(first * text + varied * text * writer.rewritten)


def _remarks(plan: Plan, units: int, votes: float, signal: float, suggested: int) -> list[str]:
    """Say in plain words what is wrong with a plan, and what would be better."""
    if plan.sigma == 0:
        return ["There is no noise: the result is NOT PRIVATE and must not be published."]
    said = [
        f"A typical candidate gets {votes:.2g} votes under noise of {plan.sigma:.3g}: a signal of {signal:.2g} sigma."
    ]
    if signal < 0.9 * LEAST_SIGNAL:
        fewer = f"fewer samples ({suggested} would suit)" if suggested < plan.samples else "more records"
        said.append(
            f"That is little: selection will hardly follow the data. Use {fewer}, fewer variations, or more epsilon."
        )
    elif suggested >= 2 * plan.samples:
        said.append(f"The votes could tell more texts apart: up to about {suggested} samples.")
    if plan.rounds > 1 and signal < 0.9 * LEAST_SIGNAL:
        gain = math.sqrt(plan.rounds / max(1, plan.rounds // 2))
        said.append(f"Half the rounds would lower the noise {gain:.2g}-fold; recall rises with rounds all the same.")
    if plan.delta > 1 / units:
        said.append(f"delta {plan.delta:.2g} is above 1/n: it allows publishing a record outright. Use a smaller one.")
    if units < FEWEST_UNITS:
        said.append(f"{units} is few: under a meaningful epsilon they can hardly be heard.")
    return said
