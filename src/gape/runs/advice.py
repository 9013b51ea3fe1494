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
from collections.abc import Mapping
from dataclasses import dataclass

from gape.core.errors import InputError
from gape.evolution.plan import Plan
from gape.privacy.accounting import Neighbours, noise_scale
from gape.voting.streamed import BLOCK

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


# What a round takes, by what counts its votes; measured where it says so, assumed elsewhere.
FLOPS_PER_CORE = 75e9  # measured: float32 votes for 2,000 candidates of 384, on a core of a busy server
GPU_FLOPS = 4.1e14  # measured on an H200: 5 million x 80,000 x 768 in 1.5 s
GPU_MEMORY = 120e9  # bytes of an H200, less what else must be there
HOST_TO_GPU = 25e9  # bytes a second, assumed: half of what PCIe 5 can do
DISK = 1e9  # bytes a second, assumed: one solid-state disk, read from front to back
NETWORK = 1.25e9  # bytes a second, assumed: 10 Gbit/s, of whoever runs the round
DEVICE_DOWN, DEVICE_UP = 2.5e6, 0.6e6  # bytes a second, assumed: 20 and 5 Mbit/s
_FLOAT, _COUNT, _WORD = 4, 8, 4  # bytes of a coordinate, of a count, of a masked count
_KEYS_DOWN, _KEYS_UP = 180, 115  # bytes for every peer: its keys and sealed shares; shares for it and openings

ENGINES: Mapping[str, str] = {
    "memory": "all vectors in this machine's memory",
    "disk": "a folder of `gape embed`, read once a round at 1 GB/s, the next block while the last one is counted",
    "cuda": "one H200; vectors that do not fit its memory are loaded every round at 25 GB/s",
    "ray": "8 workers with as many cores as this machine; candidates go to each over one link of 10 Gbit/s",
    "federated": "a record on every device, 20 Mbit/s down and 5 up, masked with 100 others; candidates, which are "
    "public, come from elsewhere, and ballots arrive over one link of 10 Gbit/s",
}


@dataclass(frozen=True)
class RoundCost:
    """What the votes of one round take and move, in bytes and seconds."""

    engine: str
    units: int
    parties: int  # machines, workers or devices
    resident: int  # private vectors in the memory of each
    read: int  # from the disk of each
    down: int  # to each
    up: int  # from each
    seconds: float
    limit: str  # what takes that long

    @property
    def moved(self) -> int:
        """Bytes to and from all parties together."""
        return self.parties * (self.down + self.up)


@dataclass(frozen=True)
class Writer:
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


def outlook(plan: Plan, units: int, writer: Writer, *, cores: int = 1, embedded: bool = False) -> Outlook:
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


def round_cost(
    engine: str,
    units: int,
    candidates: int,
    width: int,
    *,
    cores: int = 2,
    workers: int = 8,
    peers: int = 100,
) -> RoundCost:
    """Say what counting the votes of one round takes and moves, one vote for each of `units`, by one of `ENGINES`.

    `cores` are those of this machine, or of each of the `workers` of a cluster; a device masks with `peers` others.
    Estimates, from the constants above: times within a factor of two or so, bytes but for what carries them.
    """
    if engine not in ENGINES:
        raise InputError(f"engine must be one of {', '.join(ENGINES)}, got {engine!r}")
    vectors, sheet = _FLOAT * units * width, _FLOAT * candidates * width
    work = 2.0 * units * candidates * width
    computing = work / (cores * FLOPS_PER_CORE)
    if engine == "memory":
        return RoundCost(engine, units, 1, vectors, 0, 0, 0, computing, "computing")
    if engine == "disk":
        took = _longest(computing=computing, reading=vectors / DISK)
        return RoundCost(engine, units, 1, min(vectors, 2 * BLOCK), vectors, 0, 0, *took)
    if engine == "cuda":
        loaded = 0 if vectors <= GPU_MEMORY else vectors
        took = _longest(computing=work / GPU_FLOPS, loading=loaded / HOST_TO_GPU)
        return RoundCost(engine, units, 1, vectors, 0, sheet + loaded, _COUNT * candidates, *took)
    if engine == "ray":
        took = _longest(computing=computing / workers, sending=workers * sheet / NETWORK)
        return RoundCost(engine, units, workers, vectors // workers, 0, sheet, _COUNT * candidates, *took)
    down, up = sheet + _KEYS_DOWN * peers, _WORD * candidates + _KEYS_UP * peers
    took = _longest(device=down / DEVICE_DOWN + up / DEVICE_UP, receiving=units * up / NETWORK)
    return RoundCost(engine, units, units, _FLOAT * width, 0, down, up, *took)


def _longest(**seconds: float) -> tuple[float, str]:
    """Return the longest of steps that go on side by side, and which it is."""
    step = max(seconds, key=lambda name: seconds[name])
    return seconds[step], step


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
    return said
