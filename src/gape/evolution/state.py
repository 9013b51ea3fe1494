"""The state of a run after a step. All of it is public."""

from dataclasses import dataclass

from gape.core.protocols import Selection
from gape.core.types import Floats, Indices, NoisyVotes, Samples
from gape.evolution.writers import Judged


@dataclass(frozen=True)
class Proposal:
    """The candidates V(t) of a round, and the sample that each one varies."""

    samples: Samples  # (v, ...)
    parents: Indices  # (v,): the member of S(t-1) that it varies
    scales: Floats  # (v,): s^2; 0 marks the sample itself
    authors: Indices | None = None  # (v,): who wrote it, if there are several writers


@dataclass(frozen=True)
class State:
    """After round t: the survivors S(t), how they were chosen, and, once written, the candidates of round t + 1."""

    round: int
    synthetic: Samples  # S(t)
    proposal: Proposal | None = None  # V(t+1)
    votes: NoisyVotes | None = None  # of round t; None before the first round
    selection: Selection | None = None  # of round t, into V(t)
    answers: tuple[NoisyVotes, ...] = ()  # noisy, to each release of the survey; with the first state only
    believed: Floats | None = None  # votes that each member of S(t) is believed to have, if the selector remembers them
    label_votes: Floats | None = None  # noisy votes of each member's label so far, if the selector knows labels
    authors: Indices | None = None  # who wrote each member of S(t), if there are several writers
    judged: Judged | None = None  # V(t) with its writers and votes, likewise
