"""One cell: a run of Private Evolution in memory, scored after every round by records that voted and that did not."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from gape.core.copies import words
from gape.core.errors import InputError
from gape.core.protocols import Embedder, Generator
from gape.core.types import Indices, Points, Samples, texts_of
from gape.evaluation.compare.grid import Cell, Method, Study
from gape.evolution.evolve import evolve
from gape.evolution.last_pass import LastPass
from gape.metrics import balls, mean_nearest_distance, sinkhorn1
from gape.metrics.foretelling import next_word_accuracy
from gape.metrics.repetition import Repetition, repetition
from gape.metrics.usefulness import classify
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.voting.electorate import LocalElectorate


@dataclass(frozen=True)
class Score:
    """How well samples stand for some records."""

    sinkhorn: float  # debiased Sinkhorn divergence with Euclidean costs, which comes near W1 as the blur goes to 0
    recall: float  # share of the records with a sample in their ball
    precision: float  # share of the samples in a ball
    distance: float  # from a record to the nearest sample, on average


@dataclass(frozen=True)
class ScoredRound:
    """The samples after a round; round 0 is the start."""

    round: int
    samples: int
    different: int
    held_out: Score
    voters: Score | None  # by as many records that voted; None for real records, which are such themselves
    repetition: Repetition | None = None  # of texts
    lineages: int | None = None  # samples of the start that have descendants; None for real records
    next_word: float | None = None  # accuracy of `next_word_accuracy` on records that did not vote, of texts
    label_accuracy: float | None = None  # of a classifier trained on samples, on records that did not vote


@dataclass(frozen=True)
class Result:
    """What is kept of a cell."""

    cell: Cell
    turns: tuple[ScoredRound, ...]
    units: int  # that voted
    scored: int  # records that scored, of each part
    sigma: float
    delta: float
    selector: str
    seconds: float
    processor_seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values."""
        return asdict(self)

    @classmethod
    def of_json(cls, values: dict[str, Any]) -> Result:
        """Read what `as_json` gave, whatever else is beside it; raise where it is something else."""
        if not values["turns"]:
            raise ValueError
        cell = Cell(str(values["cell"]["method"]), float(values["cell"]["epsilon"]), _whole(values["cell"]["seed"]))
        return cls(
            cell,
            turns=tuple(map(_turn_of_json, values["turns"])),
            units=_whole(values["units"]),
            scored=_whole(values["scored"]),
            sigma=float(values["sigma"]),
            delta=float(values["delta"]),
            selector=str(values["selector"]),
            seconds=float(values["seconds"]),
            processor_seconds=float(values["processor_seconds"]),
        )


def _turn_of_json(values: dict[str, Any]) -> ScoredRound:
    counts = {name: _whole(values[name]) for name in ("round", "samples", "different")}
    scores = {name: _score_of_json(values[name]) for name in ("held_out", "voters") if values[name] is not None}
    told, lineages = values.get("repetition"), values.get("lineages")
    return ScoredRound(
        **counts,
        held_out=scores["held_out"],
        voters=scores.get("voters"),
        repetition=None if told is None else Repetition(**{name: _number(value) for name, value in told.items()}),
        lineages=None if lineages is None else _whole(lineages),
        next_word=_number(values.get("next_word")),
        label_accuracy=_number(values.get("label_accuracy")),
    )


def _score_of_json(values: dict[str, Any]) -> Score:
    return Score(**{name: float(value) for name, value in values.items()})


def _number(value: Any) -> Any:
    return None if value is None else float(value)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of private records beside their points: (n,) each, None where nothing is. Its repr shows none."""

    units: Sequence[str] | None = field(default=None, repr=False)  # whose record it is; None: each is its own
    texts: Sequence[str] | None = field(default=None, repr=False)  # where records are texts
    labels: Sequence[str] | None = field(default=None, repr=False)  # where samples have labels
    marks: int = 0  # columns of the points that hold the label, the last ones

    def of(self, rows: Indices) -> Known:
        """Return what is known of some of the records."""
        units, texts, labels = (
            None if part is None else [part[row] for row in rows] for part in (self.units, self.texts, self.labels)
        )
        return Known(units, texts, labels, self.marks)


@dataclass(frozen=True, eq=False)
class Split:
    """The private records of a seed, divided: (n, d) in all. Its repr shows none of them."""

    voters: Points = field(repr=False)
    held_out: Points = field(repr=False)  # those that score
    again: Points = field(repr=False)  # voters that score too, as many
    known: Known = field(default_factory=Known)  # of each voter
    tested: Known = field(default_factory=Known)  # of those that score

    @classmethod
    def of(cls, private: Points, known: Known, study: Study, seed: int) -> Split:
        """Hold out a share of the privacy units, drawn by the seed; none of a unit's records is on both sides."""
        rng = np.random.default_rng([seed, *b"split"])
        if known.units is None:
            order = rng.permutation(len(private))
            out = round(study.held_out * len(order))
            held, voting = order[:out], order[out:]
        else:
            held, voting = _by_unit(np.array(known.units), study.held_out, rng)
        scored = min(study.scored, len(held), len(voting))
        if scored <= study.k:
            raise InputError(
                f"of {len(private)} private records {len(held)} are held out and {len(voting)} vote, and each part "
                f"must have more than {study.k} to score; give more records or another share"
            )
        scoring, again = private[held[:scored]], private[voting[:scored]]
        return cls(private[voting], scoring, again, known.of(voting), known.of(held[:scored]))


def run_cell(
    cell: Cell,
    method: Method | None,
    study: Study,
    split: Split,
    parts: tuple[Generator, Embedder],
    told: Callable[[int], None],
) -> Result:
    """Run a cell to its end and score it; `method` is None for real records, and `told` hears of every round.

    The loop is that of every run. The noise is seeded, so that the result can be repeated, and the ledger allows
    anything and is forgotten: no guarantee covers what comes out, and none is claimed.
    """
    began, processor = time.monotonic(), time.process_time()
    if method is None:
        rows = np.random.default_rng([cell.seed, *b"real"]).permutation(len(split.voters))[: study.plan.samples]
        others = replace(split, again=split.voters[:0])
        turns = [_turn(0, split.voters[rows], split.known.of(rows), others, study)]
        sigma, selector = 0.0, "real records, drawn at random from those that vote"
    else:
        turns, sigma, selector = _evolved(cell, method, study, split, parts, told)
    return Result(
        cell,
        tuple(turns),
        units=_units(split),
        scored=len(split.held_out),
        sigma=sigma,
        delta=study.plan.delta,
        selector=selector,
        seconds=time.monotonic() - began,
        processor_seconds=time.process_time() - processor,
    )


def _evolved(
    cell: Cell,
    method: Method,
    study: Study,
    split: Split,
    parts: tuple[Generator, Embedder],
    told: Callable[[int], None],
) -> tuple[list[ScoredRound], float, str]:
    plan = study.plan_of(cell, method, _units(split))
    generator, embedder = parts
    electorate = LocalElectorate(
        split.voters,
        units=split.known.units,
        votes_per_unit=plan.votes_per_unit,
        votes_per_record=plan.votes_per_record,
    )
    select = method.select(plan, _units(split))
    turns: list[ScoredRound] = []

    def score(turn: int, samples: Samples, lineages: int) -> ScoredRound:
        return _turn(turn, embedder.embed(samples), _known(samples, split.known), split, study, lineages=lineages)

    with closing(Ledger(":memory:", Budget(math.inf, plan.delta, plan.neighbours))) as ledger:
        account = Account(ledger, cell.name)
        noise = SeededNoise(cell.seed)
        ancestors = parents = np.arange(0)
        for state in evolve(plan, generator, embedder, electorate, select, account, noise=noise):
            if state.proposal is not None:
                parents = state.proposal.parents
                continue
            ancestors = (
                np.arange(len(state.synthetic))
                if state.selection is None
                else ancestors[parents[state.selection.indices]]
            )
            samples = state.synthetic
            if method.last_pass and state.round == plan.rounds:
                rng = np.random.default_rng([plan.seed, plan.rounds, *b"last pass"])
                samples = LastPass(generator, embedder, max(plan.scales))(samples, rng)
            turns.append(score(state.round, samples, len(set(ancestors.tolist()))))
            told(state.round)
    return turns, plan.sigma, repr(select)


def _known(samples: Samples, records: Known) -> Known:
    """Return what is known of samples, of that what is known of the records too."""
    return Known(
        texts=None if records.texts is None else texts_of(samples),
        labels=None if records.labels is None else samples["label"].tolist(),
        marks=records.marks,
    )


def _turn(
    turn: int, points: Points, known: Known, split: Split, study: Study, *, lineages: int | None = None
) -> ScoredRound:
    return ScoredRound(
        turn,
        samples=len(points),
        different=len(np.unique(points, axis=0)),
        held_out=_score(split.held_out, points, study),
        voters=_score(split.again, points, study) if len(split.again) else None,
        repetition=None if known.texts is None else repetition(known.texts),
        lineages=lineages,
        next_word=_next_word(known, split.tested),
        label_accuracy=_label_accuracy(points, known, split),
    )


def _next_word(known: Known, tested: Known) -> float | None:
    if known.texts is None or not any(len(words(text)) > 1 for text in tested.texts or ()):
        return None
    return float(next_word_accuracy(known.texts, tested.texts or []).mean())


def _label_accuracy(points: Points, known: Known, split: Split) -> float | None:
    """Train a classifier of labels on samples, and test it on records that did not vote."""
    if known.labels is None or split.tested.labels is None:
        return None
    without_marks = slice(None, points.shape[1] - known.marks)
    seen, tested = points[:, without_marks], split.held_out[:, without_marks]
    return classify(seen, known.labels, tested, split.tested.labels).accuracy


def _score(real: Points, points: Points, study: Study) -> Score:
    (inside,) = balls(real, points, study.k)
    return Score(
        sinkhorn=float(sinkhorn1(real, points, study.blur)),
        recall=inside.recall,
        precision=inside.precision,
        distance=mean_nearest_distance(real, points),
    )


def _by_unit(units: Any, share: float, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Divide rows so that all of a unit's are on one side, each side in random order."""
    names, unit = np.unique(units, return_inverse=True)
    out = np.zeros(len(names), dtype=bool)
    out[rng.permutation(len(names))[: round(share * len(names))]] = True
    order = rng.permutation(len(units))
    return order[out[unit[order]]], order[~out[unit[order]]]


def _units(split: Split) -> int:
    units = split.known.units
    return len(split.voters) if units is None else len(set(units))
