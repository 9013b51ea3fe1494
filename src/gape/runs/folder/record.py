"""The record of a run, read from its folder and checked against itself.

A folder may come from anybody, so every command reads it here. Plan, settings, parts, statement and lineage must agree:
a folder that contradicts itself is refused by all commands. Whether it is true can be checked with the ledger, which is
elsewhere (`gape audit`). Nothing in a record is private beyond its noisy votes, which are paid for.
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
from gape.privacy.accounting import Neighbours, delta_spent, spent
from gape.privacy.statement import PrivacyStatement
from gape.runs.folder.layout import Layout, RoundFiles
from gape.runs.folder.rounds import Begun, Versions, read_begun, read_rewritten, read_samples
from gape.runs.folder.sealed import SealedSettings, read_sealed
from gape.runs.settings import Settings

EPSILON_TOLERANCE = 1e-6  # relative: `spent` is computed to 1e-8

# The protected unit is a word or two, which appear in cards and reports.
_UNIT = re.compile(r"\w[\w -]{0,39}")
_ID = re.compile(r"([0-9a-f]{12})?")  # of a ledger; empty if none was kept

# How the parts of a run describe themselves, by their names in the settings.
_GENERATORS = {"corpus": "CorpusText("}
_BY_MODEL = ("ResampledText(", "PromptedText(")
_EMBEDDERS = {"minilm": "MiniLM(", "st": "SentenceTransformer(", "openai": "OpenAIEmbedder("}


class ContradictionError(RunError):
    """A run folder whose files contradict each other."""


@dataclass(frozen=True)
class Round:
    """A complete round: the noisy votes of its candidates, and the samples that survived."""

    samples: Samples  # S(t), (m, ...); in the last round after the last pass
    chosen: Indices  # (m,): the candidate that each sample is
    parents: Indices  # (v,): the member of S(t-1) that each candidate is, or varies
    scales: Floats  # (v,): 0 for an unchanged sample
    votes: NoisyVotes  # (v,)
    diagnostics: dict[str, Any]  # of the selection rule


@dataclass(frozen=True)
class RunRecord:
    """A run on disk that has written its first samples, whether it is finished or not."""

    path: Path
    begun: Begun
    settings: Settings | None  # None if the run was assembled in Python
    modality: Modality  # of its samples
    start: Samples  # S(0)
    rounds: tuple[Round, ...]  # the complete ones
    statement: PrivacyStatement | None  # None before the end of the run
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
        """The descriptions of generator, embedder and selector."""
        return self.begun.parts

    @property
    def versions(self) -> list[Versions]:
        """The versions that made it; empty if they were not recorded."""
        return self.begun.versions

    @property
    def sigma(self) -> float:
        """The scale of the noise on each vote; 0 without noise."""
        return self.plan.sigma

    @property
    def finished(self) -> bool:
        """Whether the run has published what its last round selected."""
        return self.statement is not None

    @property
    def last(self) -> int:
        """The last complete round; 0 is the start."""
        return len(self.rounds)

    @property
    def layout(self) -> Layout:
        """The paths of its files."""
        return Layout(self.path)

    def samples(self, turn: int) -> Samples:
        """Return S(turn)."""
        return self.rounds[turn - 1].samples if turn else self.start

    def answers(self) -> tuple[NoisyVotes, ...]:
        """Read the noisy answers to the survey, if there was one."""
        files = [self.layout.round(0).answers(number + 1) for number in range(len(self.plan.answers))]
        return tuple(read_numbers(file, read_table(file), "noisy_votes", np.int64) for file in files)

    def candidates(self, turn: int) -> Samples:
        """Read V(turn) again. It is the largest part of a run, so it is not kept in memory."""
        path = self.layout.round(turn).candidates
        candidates = read_samples(path, read_table(path), self.modality)
        if candidates.dtype != self.start.dtype or len(candidates) != len(self.rounds[turn - 1].votes):
            raise ContradictionError(f"{path} does not belong to its round; restore it from a copy")
        return candidates

    @cached_property
    def families(self) -> tuple[Indices, ...]:
        """For S(0), S(1) and so on: the number of samples in each surviving lineage, largest first.

        A lineage consists of the descendants of one member of S(0).
        """
        ancestors = np.arange(len(self.start))
        families = [np.ones(len(ancestors), dtype=np.int64)]
        for done in self.rounds:
            ancestors = ancestors[done.parents[done.chosen]]
            families.append(np.sort(np.unique(ancestors, return_counts=True)[1])[::-1])
        return tuple(families)

    @cached_property
    def ways(self) -> tuple[Indices, Indices]:
        """For each of the last samples, (m,): its ancestor in S(0), and how often it was varied since."""
        members = np.arange(len(self.samples(self.last)))
        varied = np.zeros(len(members), dtype=np.int64)
        for done in reversed(self.rounds):
            chosen = done.chosen[members]
            varied += done.scales[chosen] > 0
            members = done.parents[chosen]
        return members, varied


def read_run(path: str | Path, stored: SealedSettings | None = None) -> RunRecord:
    """Read a run, finished or not, and refuse a folder that contradicts itself.

    `stored` are its settings, if they have been read already.
    """
    record = read_begun_run(path, stored)
    if record is None:
        raise RunError(f"{path} holds a run that has written nothing yet; wait for its first texts, or resume it")
    return record


def read_finished(
    path: str | Path, stored: SealedSettings | None = None
) -> tuple[RunRecord, PrivacyStatement, pa.Table]:
    """Read a finished run with its statement and its published data."""
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
        raise RunError(f"{path} is not the folder of a run; name a folder that `gape run` wrote")
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
    """Return the recorded modality of a run, with its schema if the settings name one; None if there is no record."""
    if settings is not None:
        return settings.records
    return None if begun.modality is None else modality(begun.modality)


def read_statement(path: Path) -> PrivacyStatement:
    """Read a privacy statement, and refuse an impossible one."""
    values = read_json(path)
    if isinstance(values, dict) and values.get("unpaid"):
        raise ContradictionError(
            f"{path} is of an older version and NOT PRIVATE, because its run used private data without noise; do not "
            "publish its output, and start a new run in another folder"
        )
    try:
        numbers = {name: float(values[name]) for name in ("epsilon", "delta", "dataset_epsilon")}
        sigma = tuple(float(scale) for scale in values["sigma"])
        answers = tuple(values.get("answers", ()))
        plain = {field.name: values[field.name] for field in fields(PrivacyStatement) if field.name in values}
        statement = PrivacyStatement(**(plain | numbers | {"sigma": sigma, "answers": answers}))
        _check_statement(statement)
    except (LookupError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise ContradictionError(
            f"{path} is not a valid privacy statement ({type(error).__name__}); restore it from a copy"
        ) from error
    return statement


def _check_statement(statement: PrivacyStatement) -> None:
    """Refuse values that no run writes. They appear in cards and reports, and a claim of privacy must be sound."""
    plain = type(statement.private) is bool and type(statement.secure_noise) is bool
    numbers = (statement.epsilon, statement.delta, statement.dataset_epsilon, *statement.sigma)
    sound = all(number >= 0 for number in numbers) and 0 < statement.delta < 1 and type(statement.votes_per_unit) is int
    words = _UNIT.fullmatch(statement.unit) and _ID.fullmatch(statement.ledger)
    known = statement.neighbours in get_args(Neighbours) and all(type(count) is int for count in statement.answers)
    if not (plain and sound and words and known) or statement.votes_per_unit < 1:
        raise ValueError
    if statement.private and (not statement.secure_noise or not _holds(statement)):
        raise ValueError


def _holds(statement: PrivacyStatement) -> bool:
    """Whether the releases of a statement cost no more than it claims."""
    if math.isinf(statement.epsilon):
        return False
    return delta_spent(statement.releases, statement.epsilon * (1 + EPSILON_TOLERANCE)) <= statement.delta


def _unlike(settings: Settings, begun: Begun) -> Iterable[str]:
    """Name the settings that differ from those the run began with."""
    if begun.modality is not None and begun.modality != settings.modality:
        yield "modality"
    for name in (field.name for field in fields(Plan)):
        wanted = getattr(settings, name, None)
        if wanted is not None and wanted != getattr(begun.plan, name):
            yield name
    if not any(
        form in begun.parts["generator"] for form in _forms(settings.generator, settings, _GENERATORS, "generator")
    ):
        yield "generator"
    if not any(form in begun.parts["embedder"] for form in _forms(settings.embedder, settings, _EMBEDDERS, "embedder")):
        yield "embedder"


def _forms(spec: str, settings: Settings, known: dict[str, str], part: str) -> Sequence[str]:
    """Return the possible beginnings of the description of a part."""
    if spec == settings.modality and part == "generator" and settings.survey:
        return (f"{type(settings.records.survey_generator()).__name__}(",)
    if spec == settings.modality:
        return (f"{type(getattr(settings.records, part)()).__name__}(",)
    kind = spec.partition(":")[0]
    own = settings.kind.own_generators if part == "generator" else settings.kind.own_embedders
    if made := [f"{name}(" for form, name in own.items() if form.partition(":")[0] == kind]:
        return made
    return (known[kind],) if kind in known else _BY_MODEL if part == "generator" else ("",)


def _misstated(statement: PrivacyStatement, begun: Begun, settings: Settings | None) -> Iterable[str]:
    """Name the fields of a statement that differ from its run."""
    plan = begun.plan
    cost = spent(statement.releases, plan.delta)
    users = settings is not None and settings.user is not None
    agrees = {
        "sigma": set(statement.sigma) == {plan.sigma} and len(statement.sigma) <= len(plan.releases),
        "answers": statement.answers == plan.answers,
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
            f"{path / file} contradicts {other} in {wrong}, so the folder cannot be relied on; restore it from a copy"
        )


def _read_release(
    layout: Layout, begun: Begun, settings: Settings | None, kind: Modality, states: list[Samples]
) -> tuple[PrivacyStatement | None, pa.Table | None]:
    """Return statement and data of a finished run; None for one that is unfinished or being extended."""
    if not layout.statement.exists():
        return None, None
    statement = read_statement(layout.statement)
    _refuse(layout.path, "release/privacy.json", "the plan of its run", _misstated(statement, begun, settings))
    whole = len(statement.sigma) == len(begun.plan.releases) and begun.plan.rounds == len(states) - 1
    if not whole or not layout.words.exists() or not layout.published.exists():
        return None, None
    # PRIVACY.txt is written after the numbers, and the data last: older files are from before an extension.
    published = read_table(layout.published)
    same = statement.is_stored_as(_words(layout.words)) and published.equals(_columns(layout.path, states, kind))
    return (statement, published) if same else (None, None)


def _words(path: Path) -> str:
    try:
        return read_bounded(path)
    except (OSError, ValueError) as error:
        raise RunError(f"{path} cannot be read ({type(error).__name__}); restore it from a copy") from error


def _columns(path: Path, states: list[Samples], kind: Modality) -> pa.Table:
    """Return the last samples in their published form."""
    try:
        return pa.table(kind.publish(states[-1]))
    except (ValueError, LookupError, TypeError, RecursionError, AttributeError, pa.ArrowException) as error:
        raise ContradictionError(
            f"the samples of {path} are not of its modality ({type(error).__name__}); restore them from a copy"
        ) from error


def _read_rounds(layout: Layout, plan: Plan, kind: Modality | None) -> tuple[Samples, tuple[Round, ...]]:
    first = layout.round(0).synthetic
    table = read_table(first)
    start, before = read_samples(first, table, kind), table["sample"]
    rounds: list[Round] = []
    while layout.round(len(rounds) + 1).synthetic.exists():  # written last, so the round is complete
        if len(rounds) == plan.rounds:
            raise ContradictionError(
                f"{layout.path} has more than the {plan.rounds} rounds of its plan; restore it from a copy"
            )
        read, before = _round(layout.round(len(rounds) + 1), before, kind)
        rounds.append(read)
    if rounds and len(rounds) == plan.rounds:
        released = read_rewritten(layout.round(len(rounds)), rounds[-1].samples, kind)
        rounds[-1] = rounds[-1] if released is None else replace(rounds[-1], samples=released)
    return start, tuple(rounds)


def _round(files: RoundFiles, before: pa.ChunkedArray, kind: Modality | None) -> tuple[Round, pa.ChunkedArray]:
    """Read and check the round after the samples `before`; return it with its own samples."""
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
    read_samples(files.candidates, candidates, kind)  # rejects other content
    known = len(candidates) == len(read.votes)
    within = _within(read.chosen, len(read.votes)) and _within(read.parents, len(before))
    if not (known and within and _descends(read, survivors["sample"], candidates["sample"], before)):
        raise ContradictionError(f"the files of {files.path} do not belong together; restore them from a copy")
    return read, survivors["sample"]


def _descends(read: Round, after: pa.ChunkedArray, proposed: pa.ChunkedArray, before: pa.ChunkedArray) -> bool:
    """Whether survivors are the chosen candidates, and unchanged candidates the samples before."""
    kept = np.flatnonzero(read.scales == 0)
    of_one_kind = after.type == proposed.type == before.type
    return bool(
        of_one_kind
        and proposed.take(pa.array(read.chosen)).equals(after)
        and proposed.take(pa.array(kept)).equals(before.take(pa.array(read.parents[kept])))
    )


def _within(indices: Indices, size: int) -> bool:
    return len(indices) > 0 and int(indices.min()) >= 0 and int(indices.max()) < size
