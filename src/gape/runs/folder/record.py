"""The record of a run, read from its folder and checked against itself.

A folder may come from anybody, so every command reads it here. Plan, settings, parts, statement and lineage must tell
one story: a folder that contradicts itself is refused, whatever the command wanted of it. Whether the story is true is
for the ledger to say, which lies elsewhere (`gape audit`). Nothing in a record is private beyond what its noisy votes
have paid for.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pyarrow as pa

from gape._support.files import read_bounded, read_json, read_numbers, read_table, refuse_links
from gape.core.errors import RunError
from gape.core.types import Floats, Indices, NoisyVotes, Samples
from gape.evolution.plan import Plan
from gape.modalities import Modality, modality, modality_of
from gape.privacy.accounting import Neighbours, Release, delta_spent, spent
from gape.privacy.statement import PrivacyStatement
from gape.runs.folder.layout import Layout, RoundFiles
from gape.runs.folder.rounds import Begun, Versions, read_begun, read_rewritten, read_samples
from gape.runs.folder.sealed import SealedSettings, read_sealed
from gape.runs.settings import Settings

EPSILON_TOLERANCE = 1e-6  # relative: `spent` is computed to 1e-8

# What is protected is named by a word or two, which go into texts for others.
_UNIT = re.compile(r"\w[\w -]{0,39}")
_ID = re.compile(r"([0-9a-f]{12})?")  # of a ledger; none where none was kept

# How parts of a run describe themselves, by what the settings call them.
_GENERATORS = {"corpus": "CorpusText("}
_BY_MODEL = ("ResampledText(", "PromptedText(")
_EMBEDDERS = {"minilm": "MiniLM(", "st": "SentenceTransformer(", "openai": "OpenAIEmbedder("}


class ContradictionError(RunError):
    """A run folder whose files do not tell one story."""


@dataclass(frozen=True)
class Round:
    """One round that is done: its candidates by their noisy votes, and the samples that survived it."""

    samples: Samples  # S(t), (m, ...); of the last round as the last pass has left them
    chosen: Indices  # (m,): the candidate that each sample is
    parents: Indices  # (v,): the member of S(t-1) that each candidate is, or varies
    scales: Floats  # (v,): 0 for a sample that stayed what it was
    votes: NoisyVotes  # (v,)
    diagnostics: dict[str, Any]  # what the selection rule says of itself


@dataclass(frozen=True)
class RunRecord:
    """A run on disk that has written its first samples, finished or not."""

    path: Path
    begun: Begun
    settings: Settings | None  # none where the run was put together in Python
    modality: Modality  # what its samples are
    start: Samples  # S(0)
    rounds: tuple[Round, ...]  # those that are done
    statement: PrivacyStatement | None  # none before the end of the run
    published: pa.Table | None  # likewise
    stored: SealedSettings | None = None  # the file of the settings

    @property
    def own(self) -> bool:
        """Whether this user wrote the settings of the run on this machine."""
        return self.stored is not None and self.stored.own

    @property
    def plan(self) -> Plan:
        """The public parameters of the run."""
        return self.begun.plan

    @property
    def parts(self) -> dict[str, str]:
        """Generator, embedder and selector, as they describe themselves."""
        return self.begun.parts

    @property
    def versions(self) -> list[Versions]:
        """What made it; none where that was not kept."""
        return self.begun.versions

    @property
    def sigma(self) -> float:
        """The scale of the noise on every vote; 0 where there was none."""
        return self.plan.sigma

    @property
    def finished(self) -> bool:
        """Whether the run has published what its last round selected."""
        return self.statement is not None

    @property
    def last(self) -> int:
        """The last round that is done; 0 is the start."""
        return len(self.rounds)

    @property
    def layout(self) -> Layout:
        """Where its files are."""
        return Layout(self.path)

    def samples(self, turn: int) -> Samples:
        """Return S(turn)."""
        return self.rounds[turn - 1].samples if turn else self.start

    def candidates(self, turn: int) -> Samples:
        """Read V(turn) again; it is not held, being the largest thing there is."""
        path = self.layout.round(turn).candidates
        found = read_samples(path, read_table(path), self.modality)
        if found.dtype != self.start.dtype or len(found) != len(self.rounds[turn - 1].votes):
            raise ContradictionError(f"{path} does not belong to its round; restore it from a copy")
        return found

    @cached_property
    def families(self) -> tuple[Indices, ...]:
        """For S(0), S(1) and so on: how many samples each surviving lineage has, largest first.

        A lineage is what descends from one member of S(0).
        """
        ancestors = np.arange(len(self.start))
        families = [np.ones(len(ancestors), dtype=np.int64)]
        for each in self.rounds:
            ancestors = ancestors[each.parents[each.chosen]]
            families.append(np.sort(np.unique(ancestors, return_counts=True)[1])[::-1])
        return tuple(families)

    @cached_property
    def ways(self) -> tuple[Indices, Indices]:
        """For each of the last samples, (m,): the member of S(0) it descends from, and how often it was varied."""
        members = np.arange(len(self.samples(self.last)))
        varied = np.zeros(len(members), dtype=np.int64)
        for each in reversed(self.rounds):
            chosen = each.chosen[members]
            varied += each.scales[chosen] > 0
            members = each.parents[chosen]
        return members, varied


def read_run(path: str | Path, stored: SealedSettings | None = None) -> RunRecord:
    """Read a run as far as it has got, and refuse a folder that contradicts itself.

    `stored` are its settings, if they have been read already.
    """
    record = read_begun_run(path, stored)
    if record is None:
        raise RunError(f"{path} holds a run that has written nothing yet; wait for its first texts, or resume it")
    return record


def read_finished(
    path: str | Path, stored: SealedSettings | None = None
) -> tuple[RunRecord, PrivacyStatement, pa.Table]:
    """Read a run that has published what its last round selected, with its statement and what it published."""
    record = read_run(path, stored)
    if record.statement is None or record.published is None:
        raise RunError(
            f"{path} holds a run that has not finished its {record.plan.rounds} rounds, or whose PRIVACY.txt is not "
            "that of its statement; resume it by the call that started it, and export it then"
        )
    return record, record.statement, record.published


def read_begun_run(path: str | Path, stored: SealedSettings | None = None) -> RunRecord | None:
    """Read a run as `read_run` does; None if it has not written any samples yet."""
    path = Path(path)
    layout = Layout(path)
    if not layout.is_run and not layout.settings.exists():
        raise RunError(f"{path} is not the folder of a run; name the folder that the run was made in")
    refuse_links(path)
    stored = stored or read_sealed(path)
    settings = None if stored is None else stored.settings
    if not layout.is_run:
        return None
    begun = read_begun(path)
    _refuse(path, "internal/settings.toml", "internal/settings.json", _unlike(settings, begun) if settings else ())
    if not layout.round(0).synthetic.exists():
        return None
    kind = _kind(settings, begun)
    start, rounds = _read_rounds(layout, begun.plan, kind)
    known = modality_of(kind, begun.parts, start)
    statement, published = _read_release(
        layout, begun, settings, known, [start, *(round_.samples for round_ in rounds)]
    )
    return RunRecord(path, begun, settings, known, start, rounds, statement, published, stored)


def _kind(settings: Settings | None, begun: Begun) -> Modality | None:
    """Return the modality that a run has recorded, with its schema where the settings name one; None if it has none."""
    if settings is not None:
        return settings.records
    return None if begun.modality is None else modality(begun.modality)


def read_statement(path: Path) -> PrivacyStatement:
    """Read a privacy statement, and refuse one that cannot be."""
    values = read_json(path)
    if isinstance(values, dict) and values.get("unpaid"):
        raise ContradictionError(
            f"{path} is of an older version and NOT PRIVATE, because its run used private data without noise; do not "
            "publish its output, and start a new run in another folder"
        )
    try:
        numbers = {name: float(values[name]) for name in ("epsilon", "delta", "dataset_epsilon")}
        sigma = tuple(float(scale) for scale in values["sigma"])
        plain = {field.name: values[field.name] for field in fields(PrivacyStatement) if field.name in values}
        statement = PrivacyStatement(**(plain | numbers | {"sigma": sigma}))
        _check_statement(statement)
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ContradictionError(
            f"{path} is not a privacy statement that holds ({type(error).__name__}); restore it from a copy"
        ) from error
    return statement


def _check_statement(statement: PrivacyStatement) -> None:
    """Refuse what no run states: it goes into cards and pages, and what is said to be private must be a sound claim."""
    plain = type(statement.private) is bool and type(statement.secure_noise) is bool
    numbers = (statement.epsilon, statement.delta, statement.dataset_epsilon, *statement.sigma)
    sound = all(each >= 0 for each in numbers) and 0 < statement.delta < 1 and type(statement.votes_per_unit) is int
    words = _UNIT.fullmatch(statement.unit) and _ID.fullmatch(statement.ledger)
    known = statement.neighbours in get_args(Neighbours)
    if not (plain and sound and words and known) or statement.votes_per_unit < 1:
        raise ValueError
    if statement.private and (not statement.secure_noise or not _holds(statement)):
        raise ValueError


def _holds(statement: PrivacyStatement) -> bool:
    """Whether the releases that a statement tells of cost no more than it claims."""
    if math.isinf(statement.epsilon):
        return False
    releases = [Release(sigma, statement.neighbours, statement.votes_per_unit) for sigma in statement.sigma]
    return delta_spent(releases, statement.epsilon * (1 + EPSILON_TOLERANCE)) <= statement.delta


def _unlike(settings: Settings, begun: Begun) -> Iterable[str]:
    """Name the settings that are not those the run began with."""
    if begun.modality is not None and begun.modality != settings.modality:
        yield "modality"
    for each in fields(Plan):
        wanted = getattr(settings, each.name, None)
        if wanted is not None and wanted != getattr(begun.plan, each.name):
            yield each.name
    if not any(
        form in begun.parts["generator"] for form in _forms(settings.generator, settings, _GENERATORS, "generator")
    ):
        yield "generator"
    if not any(form in begun.parts["embedder"] for form in _forms(settings.embedder, settings, _EMBEDDERS, "embedder")):
        yield "embedder"


def _forms(spec: str, settings: Settings, known: dict[str, str], part: str) -> Sequence[str]:
    """Return how a part that settings name may describe itself."""
    if spec == settings.modality:
        return (f"{type(getattr(settings.records, part)()).__name__}(",)
    kind = spec.partition(":")[0]
    return (known[kind],) if kind in known else _BY_MODEL if part == "generator" else ("",)


def _misstated(statement: PrivacyStatement, begun: Begun, settings: Settings | None) -> Iterable[str]:
    """Name what a statement says otherwise than the run that it is about."""
    plan = begun.plan
    cost = spent([Release(sigma, plan.neighbours, plan.votes_per_unit) for sigma in statement.sigma], plan.delta)
    users = settings is not None and settings.user is not None
    agrees = {
        "sigma": set(statement.sigma) == {plan.sigma} and len(statement.sigma) <= plan.rounds,
        "delta": statement.delta == plan.delta,
        "neighbours": statement.neighbours == plan.neighbours,
        "votes_per_unit": statement.votes_per_unit == plan.votes_per_unit,
        "epsilon": statement.epsilon == cost or math.isclose(statement.epsilon, cost, rel_tol=EPSILON_TOLERANCE),
        "dataset_epsilon": statement.dataset_epsilon >= cost * (1 - EPSILON_TOLERANCE),
        "unit": settings is None or statement.unit == ("user" if users else "record"),
        "ledger": begun.ledger.startswith(statement.ledger),
    }
    return [name for name, right in agrees.items() if not right]


def _refuse(path: Path, file: str, other: str, names: Iterable[str]) -> None:
    if wrong := ", ".join(names):
        raise ContradictionError(
            f"{path / file} contradicts {other} in {wrong}, so that nothing it says can be relied on; restore the "
            "folder from a copy"
        )


def _read_release(
    layout: Layout, begun: Begun, settings: Settings | None, kind: Modality, states: list[Samples]
) -> tuple[PrivacyStatement | None, pa.Table | None]:
    """Return the statement and the data of a finished run; of one that has not ended, or is being extended, nothing."""
    if not layout.statement.exists():
        return None, None
    statement = read_statement(layout.statement)
    _refuse(layout.path, "release/privacy.json", "the plan of its run", _misstated(statement, begun, settings))
    whole = len(statement.sigma) == begun.plan.rounds == len(states) - 1
    if not whole or not layout.words.exists() or not layout.published.exists():
        return None, None
    # The words come after the numbers, and the data last: whatever is older than the statement is not of this run yet.
    published = read_table(layout.published)
    same = _words(layout.words) == f"{statement.text()}\n" and published.equals(_columns(layout.path, states, kind))
    return (statement, published) if same else (None, None)


def _words(path: Path) -> str:
    try:
        return read_bounded(path)
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({type(error).__name__}); restore it from a copy") from error


def _columns(path: Path, states: list[Samples], kind: Modality) -> pa.Table:
    """Return the last samples as they are published."""
    try:
        return pa.table(kind.publish(states[-1]))
    except (ValueError, LookupError, TypeError, RecursionError, AttributeError, pa.ArrowException) as error:
        raise ContradictionError(
            f"the samples of {path} are not what its embedder compares ({type(error).__name__}); restore them from a "
            "copy"
        ) from error


def _read_rounds(layout: Layout, plan: Plan, kind: Modality | None) -> tuple[Samples, tuple[Round, ...]]:
    first = layout.round(0).synthetic
    table = read_table(first)
    start, before = read_samples(first, table, kind), table["sample"]
    rounds: list[Round] = []
    while layout.round(len(rounds) + 1).synthetic.exists():  # written last, so the round is complete
        if len(rounds) == plan.rounds:
            raise ContradictionError(
                f"{layout.path} holds more than the {plan.rounds} rounds of its plan; restore it from a copy"
            )
        read, before = _round(layout.round(len(rounds) + 1), before, kind)
        rounds.append(read)
    if len(rounds) == plan.rounds:
        released = read_rewritten(layout.round(len(rounds)), rounds[-1].samples, kind)
        rounds[-1] = rounds[-1] if released is None else replace(rounds[-1], samples=released)
    return start, tuple(rounds)


def _round(files: RoundFiles, before: pa.ChunkedArray, kind: Modality | None) -> tuple[Round, pa.ChunkedArray]:
    """Read a round after the samples `before` it, and return it with its own samples; each must be what it claims."""
    survivors, candidates = read_table(files.synthetic), read_table(files.candidates)
    diagnostics = read_json(files.selection)
    read = Round(
        samples=read_samples(files.synthetic, survivors, kind),
        chosen=read_numbers(files.synthetic, survivors, "candidate", np.int64),
        parents=read_numbers(files.candidates, candidates, "parent", np.int64),
        scales=read_numbers(files.candidates, candidates, "scale", np.float64),
        votes=read_numbers(files.votes, read_table(files.votes), "noisy_votes", np.int64),
        diagnostics=diagnostics if isinstance(diagnostics, dict) else {},
    )
    read_samples(files.candidates, candidates, kind)  # rejects what are not samples
    known = len(candidates) == len(read.votes)
    within = _within(read.chosen, len(read.votes)) and _within(read.parents, len(before))
    if not (known and within and _descends(read, survivors["sample"], candidates["sample"], before)):
        raise ContradictionError(f"the files of {files.path} do not belong together; restore them from a copy")
    return read, survivors["sample"]


def _descends(found: Round, after: pa.ChunkedArray, proposed: pa.ChunkedArray, before: pa.ChunkedArray) -> bool:
    """Whether survivors are the candidates chosen, and candidates that were kept are the samples before."""
    kept = np.flatnonzero(found.scales == 0)
    of_one_kind = after.type == proposed.type == before.type
    return bool(
        of_one_kind
        and proposed.take(pa.array(found.chosen)).equals(after)
        and proposed.take(pa.array(kept)).equals(before.take(pa.array(found.parents[kept])))
    )


def _within(places: Indices, size: int) -> bool:
    return len(places) > 0 and int(places.min()) >= 0 and int(places.max()) < size
