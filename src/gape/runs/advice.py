"""What to expect of a run before anything is spent: signal and noise, calls, tokens, cost, time, and better values.

Everything here is a function of public numbers. The noise is exact; the rest are estimates.

The rule for the number of samples: a candidate gets n / (number of candidates) votes on average, and selection can
follow the votes only as far as the noise allows. Measured with 18,000 abstracts at epsilon 1 (sigma 13.4, 8 candidates
per sample, three rounds):

    samples    votes of a typical candidate    recall
    2,000      0.09 sigma                      1.4-fold
    100        1.7 sigma                       2.4-fold

But few samples cover little, and the best recall at an honest precision was in between. So m is the largest number for
which a typical candidate gets a third of sigma, 500 in this example. More texts are made by expanding the result, which
costs no privacy and reached the recall of 2,000 samples. A weaker signal is still worth something: 10,000 samples of
14,790 posts had 0.09 sigma with 64 votes per post, and ten rounds of GAPE raised recall from .63 to .83. With one vote
per post they had 0.01 sigma, and ten rounds of ranking ended at .65 (experiments/paper_text). Recall was still rising
in the sixth round at every epsilon, so the default does not save on rounds.
"""

import math
from dataclasses import dataclass
from importlib.util import find_spec

from gape.core.errors import InputError
from gape.evolution.plan import Plan
from gape.evolution.theory import cluster_limits
from gape.privacy.accounting import Neighbours, noise_scale

LEAST_SIGNAL = 1 / 3  # votes of a typical candidate over sigma
NO_SIGNAL = 0.03  # between 0.09, which selection could follow, and 0.01, which it could not
FEWEST_SAMPLES, MOST_SAMPLES = 10, 2000
FEWEST_UNITS = 100
LARGEST_EPSILON = 20.0  # above it, one record may make an outcome half a billion times as likely
LARGEST_CELL = 0.25  # share of the records at three times the noise of a survey

# Number of candidates that a record votes for: see votes_against.
VOTES_PER_NOISE, FEWEST_VOTES, MOST_VOTES = 4.0, 2, 64
ESTIMATED_PER_NOISE, MOST_ESTIMATED = 1.0, 8  # if votes are estimated from all of them: with a corpus
LOCAL = 60

TOKENS_PER_WORD = 1.35  # average of English
PROMPT_WORDS = 40  # of the instructions

# Measured on two cores of a busy machine; a quiet one is faster.
# SmolLM2-135M. OpenVINO wrote 3.46 times as many tokens per CPU second.
TOKENS_PER_SECOND_PER_CORE = {"embedded": 55.0, "openvino": 190.0}
TEXTS_EMBEDDED_PER_SECOND_PER_CORE = 19.0  # MiniLM, reviews of 100 words
LONG = 600.0  # seconds from which a run is worth another engine
SECONDS_PER_REQUEST = 3.0  # of a hosted service; services differ


@dataclass(frozen=True)
class WritingFigures:
    """The numbers that determine the cost of a generator."""

    words: int = 80  # of a text
    rewritten: float = 1.0  # share of a text that a variation rewrites
    reads_sample: bool = False  # whether the prompt of a variation contains the whole sample or only the kept part
    model: bool = True  # whether a language model writes
    samples_per_second: float | None = None  # written, compared and selected; None if models limit the speed
    tokens_per_second: float | None = None  # of a model on this machine
    concurrency: int | None = None  # of a service
    prompt_price: float = 0.0  # per million tokens
    completion_price: float = 0.0
    embedding_price: float = 0.0
    embedding_service: bool = False
    draws: bool = False  # whether a service draws images
    image_price: float = 0.0


@dataclass(frozen=True)
class Outlook:
    """What to expect of a plan."""

    units: int  # records or users
    sigma: float
    votes_per_candidate: float  # on average
    signal: float  # votes per candidate over sigma; infinite without noise
    calls: int  # of the generator
    prompt_tokens: int
    completion_tokens: int
    embedded_tokens: int  # of a paid embedding service
    images: int  # of a paid service
    cost: float
    seconds: float | None  # None if it cannot be estimated
    suggested_samples: int
    remarks: tuple[str, ...]


def usual_delta(units: int) -> float:
    """Return 1 / (n ln n), the usual choice with AugPE; the paper names no delta. n is treated as public."""
    if units < 3:
        raise InputError(f"delta follows from the number of records, and {units} are too few; give delta")
    return 1 / (units * math.log(units))


def suggested_samples(units: int, sigma: float, per_sample: int) -> int:
    """Return the largest m between 10 and 2,000 whose candidates, `per_sample` each, get a third of sigma in votes."""
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
    """Return the number of samples that suits this many units under a guarantee, by the rule above."""
    sigma = noise_scale(epsilon, delta, rounds, neighbours=neighbours, votes_per_unit=votes_per_unit)
    return suggested_samples(units * votes_per_unit, sigma, per_sample)


def suitable_votes(plan: Plan, units: int, *, kinds: int = 1, estimated: bool = False) -> int:
    """Return the number of nearest candidates that a record should vote for under a plan (see `votes_against`)."""
    alone = plan.casting(1)
    candidates = plan.samples * (len(plan.scales) * plan.copies + int(plan.keep))
    votes = units * alone.votes_per_unit
    return votes_against(alone.sigma, votes, candidates, kinds=kinds, estimated=estimated)


def votes_against(noise: float, votes: int, candidates: int, *, kinds: int = 1, estimated: bool = False) -> int:
    """Return the number of nearest candidates to vote for, from the noise and the number of single `votes`.

    With k votes per record, the noise grows by sqrt(k) and the votes of a candidate by k, but neighbours are harder to
    tell apart. So k is four times the ratio of the noise to a typical candidate's share of the single votes, between 2
    and 64 (experiments/ahead). Where votes are `estimated`, neighbours already tell about each other, so k is the ratio
    itself, between 2 and 8. It is at most one in `LOCAL` candidates of each of `kinds`
    labels, because a vote for all candidates says nothing.
    """
    per_noise, most = (ESTIMATED_PER_NOISE, MOST_ESTIMATED) if estimated else (VOTES_PER_NOISE, MOST_VOTES)
    wanted = math.ceil(per_noise * noise / (votes / candidates))
    return max(1, min(max(FEWEST_VOTES, wanted), most, candidates // (LOCAL * kinds)))


def calls_of(plan: Plan) -> tuple[int, ...]:
    """Return the number of texts that the generator writes at the start and before each round."""
    if not plan.rounds:
        return (plan.initial,)
    variations = len(plan.scales) * plan.copies
    first = plan.initial * variations if plan.vary_start else 0
    return (plan.initial, first, *[plan.samples * variations] * (plan.rounds - 1))


def outlook(plan: Plan, units: int, writer: WritingFigures, *, cores: int = 1, embedded: bool = False) -> Outlook:
    """Estimate what to expect of a plan for `units` records or users; `embedded` if they are embedded already."""
    per_sample = len(plan.scales) * plan.copies + int(plan.keep)
    cast = units * min(plan.votes_per_unit, plan.samples * per_sample)  # at most one per candidate
    votes = cast / (plan.samples * per_sample)
    signal = votes / plan.sigma if plan.sigma > 0 else math.inf
    first, *rounds = calls_of(plan)
    written = first + sum(rounds)
    calls, images = written * writer.model, written * writer.draws
    prompt, completion = _tokens(first, sum(rounds), writer) if writer.model else (0, 0)
    alone = plan.casting(1) if plan.votes_per_record > 1 else plan  # the default m is chosen by single votes
    suggested = suggested_samples(units * min(alone.votes_per_unit, plan.samples * per_sample), alone.sigma, per_sample)
    texts = written if embedded else units + written
    read = round(texts * writer.words * TOKENS_PER_WORD) if writer.embedding_service else 0
    cost = prompt * writer.prompt_price + completion * writer.completion_price + read * writer.embedding_price
    embedding = texts / (writer.samples_per_second or TEXTS_EMBEDDED_PER_SECOND_PER_CORE * cores)
    cost += images * writer.image_price * 1e6
    writing = _writing(calls + images, prompt, completion, writer) if calls + images else 0.0
    return Outlook(
        units=units,
        sigma=plan.sigma,
        votes_per_candidate=votes,
        signal=signal,
        calls=calls,
        prompt_tokens=prompt,
        completion_tokens=completion,
        embedded_tokens=read,
        images=images,
        cost=cost / 1e6,
        seconds=None if writing is None else embedding + writing,
        suggested_samples=suggested,
        remarks=tuple(_remarks(plan, units, votes, signal, suggested)),
    )


def faster_engine(generator: str) -> str:
    """Say how the model of a generator writes faster on the same machine, or nothing if no other engine is known."""
    if generator != "embedded":
        return ""
    times = TOKENS_PER_SECOND_PER_CORE["openvino"] / TOKENS_PER_SECOND_PER_CORE["embedded"]
    install = "" if find_spec("openvino_genai") else " (first `pip install 'gape[openvino]'`)"
    return f"A new run with --generator openvino{install} writes about {times:.1f} times as fast with the same model."


def _writing(calls: int, prompt: int, completion: int, writer: WritingFigures) -> float | None:
    """Return the seconds that the model takes; None if its speed is not known."""
    if writer.tokens_per_second is not None:
        return (completion + prompt / 10) / writer.tokens_per_second  # reading is about ten times as fast
    return None if writer.concurrency is None else calls * SECONDS_PER_REQUEST / writer.concurrency


def _tokens(first: int, varied: int, writer: WritingFigures) -> tuple[int, int]:
    text = writer.words * TOKENS_PER_WORD
    instructions = PROMPT_WORDS * TOKENS_PER_WORD
    read = text if writer.reads_sample else text * (1 - writer.rewritten)
    prompt = first * instructions + varied * (instructions + read)
    return round(prompt), round(first * text + varied * text * writer.rewritten)


def _survey_remarks(plan: Plan, units: int) -> list[str]:
    """Say how fine a survey without rounds can be."""
    share = 3 * plan.sigma / units
    lost = f"cells with less than {100 * share:.2g}% of the records are" if share < 1 else "a cell with all records is"
    remarks = [
        f"A count that is asked for once has noise of {plan.sigma:.3g}, so {lost} lost in it.",
        "Columns, and pairs of columns that depend on each other, are asked for many times.",
    ]
    if share > LARGEST_CELL:
        remarks.append(
            "The noise is strong: the rows will hardly follow the data. Use a larger epsilon, or fewer columns."
        )
    if plan.delta > 1 / units:
        remarks.append(f"delta {plan.delta:.2g} is above 1/n, which allows publishing a record. Use a smaller one.")
    return remarks


def _remarks(plan: Plan, units: int, votes: float, signal: float, suggested: int) -> list[str]:
    """Say what is wrong with a plan and what would be better."""
    if plan.sigma == 0:
        return ["There is no noise: the result is NOT PRIVATE and must not be published."]
    if not plan.rounds:
        return _survey_remarks(plan, units)
    measured = f"{votes:.2g} votes under noise of {plan.sigma:.3g}: a signal of {signal:.2g} sigma"
    remarks = [f"A typical candidate gets {measured}. Above 1 is good, below 0.3 is too little."]
    if signal < 0.9 * LEAST_SIGNAL:
        fewer = f"fewer samples ({suggested} would suit)" if suggested < plan.samples else "more records"
        follows = "hardly follow the data" if signal < NO_SIGNAL else "follow the data, but slowly"
        remarks.append(
            f"The signal is weak: selection will {follows}. Use {fewer}, fewer variations, or a larger epsilon."
        )
    elif suggested >= 2 * plan.samples:
        remarks.append(f"More samples are possible: the votes can tell about {suggested} apart.")
    if plan.rounds > 1 and signal < 0.9 * LEAST_SIGNAL:
        gain = math.sqrt(plan.rounds / max(1, plan.rounds // 2))
        remarks.append(f"Half the rounds would lower the noise {gain:.2g}-fold, but recall rises with rounds.")
    if plan.delta > 1 / units:
        remarks.append(f"delta {plan.delta:.2g} is above 1/n, which allows publishing a record. Use a smaller one.")
    if plan.epsilon > LARGEST_EPSILON:
        remarks.append(
            f"Epsilon {plan.epsilon:g} hardly limits what the result tells about a record. 8 is weak already."
        )
    if units < FEWEST_UNITS:
        remarks.append(f"With only {units} records or users, votes stand out from the noise only at a large epsilon.")
    per_sample = len(plan.scales) * plan.copies + int(plan.keep)
    limits = cluster_limits(
        units, plan.epsilon, plan.delta, plan.rounds, per_sample=per_sample, neighbours=plan.neighbours
    )
    return [*remarks, *limits.sentences]
