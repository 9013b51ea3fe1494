"""One cell: a run of Private Evolution in memory, scored after every round by voters and by held-out records."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
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
from gape.metrics import balls, energy, mean_nearest_distance, sinkhorn1
from gape.metrics.next_word import next_word_accuracy
from gape.metrics.repetition import Repetition, repetition
from gape.metrics.usefulness import classify
from gape.modalities.base import Baseline
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.voting.electorate import LocalElectorate


@dataclass(frozen=True)
class Score:
    """How well samples represent records."""

    sinkhorn: float  # debiased Sinkhorn divergence with Euclidean costs, which tends to W1 as the blur goes to 0
    recall: float  # share of the records with a sample in their ball
    precision: float  # share of the samples in a ball
    distance: float  # mean distance from a record to the nearest sample
    energy: float | None = None  # energy distance; not of a single sample, nor in results from before it was measured


@dataclass(frozen=True)
class ScoredRound:
    """Scores of the samples after a round; round 0 is the start."""

    round: int
    samples: int
    different: int
    held_out: Score
    voters: Score | None  # by as many records that voted; None for real records, which are voters themselves
    repetition: Repetition | None = None  # texts only
    lineages: int | None = None  # number of samples of the start with descendants; None for real records
    next_word: float | None = None  # texts only: `next_word_accuracy` on records that did not vote
    label_accuracy: float | None = None  # on records that did not vote, of a classifier trained on the samples
    content: Mapping[str, float] = field(default_factory=dict)  # the scores of the modality, by their names


@dataclass(frozen=True)
class Result:
    """The stored result of a cell."""

    cell: Cell
    turns: tuple[ScoredRound, ...]  # one per round, the start first
    units: int  # privacy units that voted
    scored: int  # number of records, of each part, that the samples were scored by
    sigma: float
    delta: float
    selector: str
    seconds: float
    processor_seconds: float

    def as_json(self) -> dict[str, Any]:
        """Return the result as plain values."""
        return asdict(self)

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Result:
        """Restore a result from `as_json`, ignoring further keys; raise if the values are of another form."""
        if not values["turns"]:
            raise ValueError
        cell = Cell(str(values["cell"]["method"]), float(values["cell"]["epsilon"]), _whole(values["cell"]["seed"]))
        return cls(
            cell,
            turns=tuple(map(_turn_from_json, values["turns"])),
            units=_whole(values["units"]),
            scored=_whole(values["scored"]),
            sigma=float(values["sigma"]),
            delta=float(values["delta"]),
            selector=str(values["selector"]),
            seconds=float(values["seconds"]),
            processor_seconds=float(values["processor_seconds"]),
        )


def _turn_from_json(values: dict[str, Any]) -> ScoredRound:
    counts = {name: _whole(values[name]) for name in ("round", "samples", "different")}
    scores = {name: _score_from_json(values[name]) for name in ("held_out", "voters") if values[name] is not None}
    repeated, lineages = values.get("repetition"), values.get("lineages")
    return ScoredRound(
        **counts,
        held_out=scores["held_out"],
        voters=scores.get("voters"),
        repetition=None
        if repeated is None
        else Repetition(**{name: _number(value) for name, value in repeated.items()}),
        lineages=None if lineages is None else _whole(lineages),
        next_word=_number(values.get("next_word")),
        label_accuracy=_number(values.get("label_accuracy")),
        content={str(name): float(value) for name, value in values.get("content", {}).items()},
    )


def _score_from_json(values: dict[str, Any]) -> Score:
    return Score(**{name: _number(value) for name, value in values.items()})


def _number(value: Any) -> Any:
    return None if value is None else float(value)


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError
    return value


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of private records besides their points, (n,) each or None. The repr shows nothing of it."""

    units: Sequence[str] | None = field(default=None, repr=False)  # owner of each record; None: one record per unit
    texts: Sequence[str] | None = field(default=None, repr=False)  # if records are texts
    labels: Sequence[str] | None = field(default=None, repr=False)  # if samples have labels
    marks: int = 0  # number of columns, the last ones of the points, that encode the label
    wording: Callable[[Samples], list[str]] = field(default=texts_of, repr=False)  # the words of samples
    content: Samples | None = field(default=None, repr=False)  # if it is scored, or answers a survey
    score: Callable[[Samples, Samples], Mapping[str, float]] | None = field(default=None, repr=False)  # by real content

    def take(self, rows: Indices) -> Known:
        """Return what is known of these records."""
        units, texts, labels = (
            None if part is None else [part[row] for row in rows] for part in (self.units, self.texts, self.labels)
        )
        content = None if self.content is None else self.content[rows]
        return Known(units, texts, labels, self.marks, self.wording, content, self.score)


@dataclass(frozen=True, eq=False)
class Split:
    """The split of the private records, (n, d) in all, by a seed. The repr shows none of them."""

    voters: Points = field(repr=False)
    held_out: Points = field(repr=False)  # records that do not vote and score the samples
    scoring_voters: Points = field(repr=False)  # as many voters, which score the samples too
    known: Known = field(default_factory=Known)  # of each voter
    tested: Known = field(default_factory=Known)  # of each held-out record that scores
    withheld: Samples | None = field(default=None, repr=False)  # the content of all held-out records

    @classmethod
    def of(cls, private: Points, known: Known, study: Study, seed: int) -> Split:
        """Hold out a share of the privacy units, drawn by the seed; all records of a unit are on the same side."""
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
                f"must have more than {study.k} for scoring; use more records or another held-out share"
            )
        return cls(
            private[voting],
            private[held[:scored]],
            private[voting[:scored]],
            known.take(voting),
            known.take(held[:scored]),
            known.take(held).content,
        )


def run_cell(
    cell: Cell,
    method: Method | None,
    study: Study,
    split: Split,
    parts: tuple[Generator, Embedder],
    on_round: Callable[[int], None],
) -> Result:
    """Run a cell to its end and score it; `method` is None for real records, `on_round` is called after each round.

    The loop is that of every run. The noise is seeded, so that the result is reproducible, and the ledger has no limit
    and is discarded: there is no privacy guarantee.
    """
    began, processor = time.monotonic(), time.process_time()
    if method is None:
        rows = np.random.default_rng([cell.seed, *b"real"]).permutation(len(split.voters))[: study.plan.samples]
        without_voters = replace(split, scoring_voters=split.voters[:0])
        turns = [_score_round(0, split.voters[rows], split.known.take(rows), without_voters, study)]
        sigma, selector = 0.0, "real records, drawn at random from those that vote"
    elif method.baseline is not None:
        samples = _by_baseline(cell, method.baseline, study, split)
        known = _known_of_samples(samples, split.known)
        turns, sigma, selector = (
            [_score_round(0, parts[1].embed(samples), known, split, study)],
            0.0,
            repr(method.baseline),
        )
    else:
        turns, sigma, selector = _evolve(cell, method, study, split, parts, on_round)
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


def _by_baseline(cell: Cell, baseline: Baseline, study: Study, split: Split) -> Samples:
    """Make samples by the method of another library, from the content of the voters."""
    if split.known.content is None:
        raise InputError(f"{cell.method} needs the content of the records, and here are only points; leave it out")
    plan = study.plan
    return baseline(split.known.content, plan.samples, cell.epsilon, plan.delta, plan.neighbours, cell.seed)


def _evolve(
    cell: Cell,
    method: Method,
    study: Study,
    split: Split,
    parts: tuple[Generator, Embedder],
    on_round: Callable[[int], None],
) -> tuple[list[ScoredRound], float, str]:
    plan = study.plan_of(cell, method, _units(split))
    generator, embedder = parts
    electorate = LocalElectorate(
        split.voters,
        units=split.known.units,
        votes_per_unit=plan.votes_per_unit,
        votes_per_record=plan.votes_per_record,
        content=split.known.content,
    )
    if method.select is None:
        raise InputError(f"the method {cell.method} has neither a selector nor a baseline; give it one")
    select = method.select(plan, _units(split))
    turns: list[ScoredRound] = []

    def score(turn: int, samples: Samples, lineages: int) -> ScoredRound:
        return _score_round(
            turn, embedder.embed(samples), _known_of_samples(samples, split.known), split, study, lineages=lineages
        )

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
                samples = LastPass(generator, embedder, max(plan.scales), wording=split.known.wording)(samples, rng)
            turns.append(score(state.round, samples, len(set(ancestors.tolist()))))
            on_round(state.round)
    return turns, plan.sigma, repr(select)


def _known_of_samples(samples: Samples, records: Known) -> Known:
    """Return what is known of samples, limited to what is known of the records."""
    return Known(
        texts=None if records.texts is None else records.wording(samples),
        labels=None if records.labels is None else samples["label"].tolist(),
        marks=records.marks,
        content=None if records.content is None else samples,
        score=records.score,
    )


def _score_round(
    turn: int, points: Points, known: Known, split: Split, study: Study, *, lineages: int | None = None
) -> ScoredRound:
    return ScoredRound(
        turn,
        samples=len(points),
        different=len(np.unique(points, axis=0)),
        held_out=_score(split.held_out, points, study),
        voters=_score(split.scoring_voters, points, study) if len(split.scoring_voters) else None,
        repetition=None if known.texts is None else repetition(known.texts),
        lineages=lineages,
        next_word=_next_word(known, split.tested),
        label_accuracy=_label_accuracy(points, known, split),
        content=_content(known, split),
    )


def _content(known: Known, split: Split) -> Mapping[str, float]:
    """Score the content of samples by all records that did not vote."""
    if known.score is None or known.content is None or split.withheld is None:
        return {}
    return known.score(split.withheld, known.content)


def _next_word(known: Known, tested: Known) -> float | None:
    if known.texts is None or not any(len(words(text)) > 1 for text in tested.texts or ()):
        return None
    return float(next_word_accuracy(known.texts, tested.texts or []).mean())


def _label_accuracy(points: Points, known: Known, split: Split) -> float | None:
    """Train a classifier of labels on the samples, and test it on records that did not vote."""
    if known.labels is None or split.tested.labels is None:
        return None
    without_marks = slice(None, points.shape[1] - known.marks)
    train, test = points[:, without_marks], split.held_out[:, without_marks]
    return classify(train, known.labels, test, split.tested.labels).accuracy


def _score(real: Points, points: Points, study: Study) -> Score:
    (inside,) = balls(real, points, study.k)
    some = np.random.default_rng([study.scored, *b"points"]).permutation(len(points))[: study.scored]
    return Score(
        sinkhorn=float(sinkhorn1(real, points[np.sort(some)], study.blur)),
        recall=inside.recall,
        precision=inside.precision,
        distance=mean_nearest_distance(real, points),
        energy=energy(real, points) if min(len(real), len(points)) > 1 else None,
    )


def _by_unit(units: Any, share: float, rng: np.random.Generator) -> tuple[Indices, Indices]:
    """Split rows so that all rows of a unit are on the same side; each side is in random order."""
    names, unit = np.unique(units, return_inverse=True)
    out = np.zeros(len(names), dtype=bool)
    out[rng.permutation(len(names))[: round(share * len(names))]] = True
    order = rng.permutation(len(units))
    return order[out[unit[order]]], order[~out[unit[order]]]


def _units(split: Split) -> int:
    units = split.known.units
    return len(split.voters) if units is None else len(set(units))
