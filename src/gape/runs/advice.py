"""What a run will be like, before anything is spent: noise against votes, calls, tokens, time, and what would suit.

Functions of public numbers alone. Estimates are called that; the noise is exact.

The rule for the number of samples: a candidate gets n / (number of candidates) votes on average, and selection follows
them only as far as noise of sigma lets it. Measured with 18,000 abstracts at epsilon 1, where sigma is 13.4 and a
sample has 8 candidates: with 2,000 samples, 0.09 sigma, three rounds raised recall 1.4-fold, with 100 samples, 1.7
sigma, 2.4-fold; but few samples cover little, and the most recall at an honest precision came in between. So m is the
largest for which a typical candidate gets a third of sigma, 500 there, and more texts come by expanding the result,
which costs no privacy and reached the recall of 2,000 samples. Less than that is not in vain while it is heard at all:
10,000 samples of 14,790 posts had 0.09 sigma with 64 votes for each post, and ten rounds of GAPE raised recall from .63
to .83; with one vote for each they had 0.01 sigma, and ten rounds of ranking left it at .65
(experiments/paper_text). Recall was still rising in the sixth round, at every epsilon, so rounds are not saved on.
"""

import math
from dataclasses import dataclass

from gape.core.errors import InputError
from gape.evolution.plan import Plan
from gape.evolution.theory import cluster_limits
from gape.privacy.accounting import Neighbours, noise_scale

LEAST_SIGNAL = 1 / 3  # typical votes over sigma
NO_SIGNAL = 0.03  # between the 0.09 that were followed and the 0.01 that were not
FEWEST_SAMPLES, MOST_SAMPLES = 10, 2000
FEWEST_UNITS = 100

# For how many candidates a record votes: see suitable_votes.
VOTES_PER_NOISE, FEWEST_VOTES, MOST_VOTES = 4.0, 2, 64
LOCAL = 60

TOKENS_PER_WORD = 1.35  # of English, on average
PROMPT_WORDS = 40  # of instructions

# Measured on two cores beside other work; a quiet machine is faster.
TOKENS_PER_SECOND_PER_CORE = 55.0  # SmolLM2-135M, embedded
TEXTS_EMBEDDED_PER_SECOND_PER_CORE = 19.0  # MiniLM, reviews of 100 words
SECONDS_PER_REQUEST = 3.0  # of a hosted service; they differ


@dataclass(frozen=True)
class WritingFigures:
    """How a generator works, in the numbers that its cost follows from."""

    words: int = 80  # of a text
    rewritten: float = 1.0  # the share of a text that a variation writes anew
    reads_sample: bool = False  # whether a variation's prompt holds the whole sample, or only what is kept of it
    model: bool = True  # False where no language model is asked
    samples_per_second: float | None = None  # written, compared and selected; None where models set the pace
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
    """Return 1 / (n ln n), the usual choice with AugPE; the paper names no delta. n is taken as public."""
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


def suitable_votes(plan: Plan, units: int, *, kinds: int = 1) -> int:
    """Return for how many of its nearest candidates a record should vote under a plan, see `votes_against`."""
    alone = plan.casting(1)
    candidates = plan.samples * (len(plan.scales) * plan.copies + int(plan.keep))
    return votes_against(alone.sigma, units * alone.votes_per_unit, candidates, kinds=kinds)


def votes_against(noise: float, votes: int, candidates: int, *, kinds: int = 1) -> int:
    """Return how many nearest candidates to vote for, given the noise of single votes and how many of these there are.

    Of k votes each the noise grows by sqrt(k) and a candidate's votes by k, at the price of telling neighbours apart.
    So four votes for each time that the noise of single votes outweighs what a candidate has of them, from 2 to 64
    (experiments/ahead). But no more than one in `LOCAL` candidates, of each of `kinds` labels: whoever votes for all of
    them says nothing.
    """
    wanted = math.ceil(VOTES_PER_NOISE * noise / (votes / candidates))
    return max(1, min(max(FEWEST_VOTES, wanted), MOST_VOTES, candidates // (LOCAL * kinds)))


def calls_of(plan: Plan) -> tuple[int, ...]:
    """Return how many texts the generator writes at the start, and before each round."""
    variations = len(plan.scales) * plan.copies
    first = plan.initial * variations if plan.vary_start else 0
    return (plan.initial, first, *[plan.samples * variations] * (plan.rounds - 1))


def outlook(plan: Plan, units: int, writer: WritingFigures, *, cores: int = 1, embedded: bool = False) -> Outlook:
    """Say what to expect of a plan for `units` records or users; `embedded`: whether theirs is done already."""
    per_sample = len(plan.scales) * plan.copies + int(plan.keep)
    cast = units * min(plan.votes_per_unit, plan.samples * per_sample)  # one for a candidate, at the most
    votes = cast / (plan.samples * per_sample)
    signal = votes / plan.sigma if plan.sigma > 0 else math.inf
    first, *rounds = calls_of(plan)
    calls = (first + sum(rounds)) if writer.model else 0
    prompt, completion = _tokens(first, sum(rounds), writer) if writer.model else (0, 0)
    cost = (prompt * writer.prompt_price + completion * writer.completion_price) / 1e6
    suggested = suggested_samples(cast, plan.sigma, per_sample)
    written = first + sum(rounds)
    texts = written if embedded else units + written
    embedding = texts / (writer.samples_per_second or TEXTS_EMBEDDED_PER_SECOND_PER_CORE * cores)
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


def _writing(calls: int, prompt: int, completion: int, writer: WritingFigures) -> float | None:
    """How long the model takes, in seconds; None for one of which nothing is known."""
    if writer.tokens_per_second is not None:
        return (completion + prompt / 10) / writer.tokens_per_second  # reading is about ten times as fast
    return None if writer.concurrency is None else calls * SECONDS_PER_REQUEST / writer.concurrency


def _tokens(first: int, varied: int, writer: WritingFigures) -> tuple[int, int]:
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
        follows = "hardly follow the data" if signal < NO_SIGNAL else "follow the data, but slowly"
        said.append(f"That is little: selection will {follows}. Use {fewer}, fewer variations, or more epsilon.")
    elif suggested >= 2 * plan.samples:
        said.append(f"The votes could tell more texts apart: up to about {suggested} samples.")
    if plan.rounds > 1 and signal < 0.9 * LEAST_SIGNAL:
        gain = math.sqrt(plan.rounds / max(1, plan.rounds // 2))
        said.append(f"Half the rounds would lower the noise {gain:.2g}-fold; recall rises with rounds all the same.")
    if plan.delta > 1 / units:
        said.append(f"delta {plan.delta:.2g} is above 1/n: it allows publishing a record outright. Use a smaller one.")
    if units < FEWEST_UNITS:
        said.append(f"{units} is few: under a meaningful epsilon they can hardly be heard.")
    per_sample = len(plan.scales) * plan.copies + int(plan.keep)
    limits = cluster_limits(
        units, plan.epsilon, plan.delta, plan.rounds, per_sample=per_sample, neighbours=plan.neighbours
    )
    return [*said, *limits.sentences]
