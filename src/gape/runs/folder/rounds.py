"""The rounds of a run on disk: written as they are made, and read back to resume (see `layout` for the files)."""

from __future__ import annotations

import math
import re
import secrets
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, fields, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa

from gape._support.files import (
    locked,
    read_bounded,
    read_json,
    read_numbers,
    read_table,
    write_atomically,
    write_json,
    write_table,
)
from gape._support.values import brief
from gape.core.errors import RunError
from gape.core.types import Floats, Indices, Samples
from gape.evolution.plan import Plan
from gape.evolution.state import Proposal, State
from gape.evolution.writers import Judged
from gape.modalities import Modality, modality_of
from gape.modalities.arrow import samples_from_arrow
from gape.privacy.accounting import Neighbours
from gape.privacy.statement import PrivacyStatement
from gape.runs.folder.layout import Layout, RoundFiles

_FORMAT = 1
# An extended run has more rounds and a larger epsilon at the same noise.
_MAY_GROW = {"rounds", "epsilon"}

# Packages whose version affects the result: always, and if the process has loaded them.
_DECISIVE = ("numpy", "scipy", "numba", "opendp")
_WHERE_LOADED = (
    *("onnxruntime", "tokenizers", "xllamacpp", "openvino_genai"),
    *("torch", "transformers", "sentence_transformers"),
)
_WORD = re.compile(r"[\w.+!-]{1,60}")  # a name or a version; both appear in reports
_LARGEST_NUMBER = 2**53  # of rounds, samples and seeds
_AS_COLUMNS = frozenset({"indices", "believed", "label_votes"})  # parts of a selection


class VersionWarning(UserWarning):
    """A run is resumed with other versions than those that made it so far."""


@dataclass(frozen=True)
class Versions:
    """The versions that made a run from some round on: of this package, and of those that affect the result."""

    since: int  # the first round that they made; 0 is the start
    packages: dict[str, str]

    def changed(self, now: dict[str, str]) -> list[str]:
        """Name the packages that have another version now."""
        return [name for name, old in self.packages.items() if now.get(name, old) != old]


@dataclass(frozen=True)
class Begun:
    """What a run recorded when it began: its name in the ledger, the id of that ledger, its plan and its parts."""

    run: str
    ledger: str
    plan: Plan
    parts: dict[str, str]  # descriptions of generator, embedder and selector
    modality: str | None  # None if the run was assembled in Python, or by an earlier version
    versions: list[Versions]  # that made it so far; empty if they were not recorded


class RunFolder:
    """The folder of one run; `run` is its name in the ledger."""

    def __init__(
        self,
        path: Path,
        run: str,
        plan: Plan,
        settings: dict[str, Any],
        modality: Modality | None,
        change: Literal["new", "extended", ""] = "",
    ) -> None:
        """Use `find`."""
        self.path = path
        self._layout = Layout(path)
        self._modality = modality
        self.run = run
        self.plan = plan
        self._settings = settings
        self._change = change  # for `prepare` to record
        self._made = False

    @classmethod
    def find(
        cls, path: str | Path, plan: Plan, parts: dict[str, str], ledger: str, modality: Modality | None = None
    ) -> RunFolder:
        """Find the folder of a new run, or of the same run, possibly with fewer rounds. Writes nothing yet."""
        path = Path(path)
        settings: dict[str, Any] = {"format": _FORMAT, "ledger": ledger, "parts": parts}
        if modality is not None:
            settings["modality"] = modality.name
        if not Layout(path).is_run:
            if path.exists() and any(entry != Layout(path).internal for entry in path.iterdir()):
                raise RunError(f"{path} exists and is not a run folder; name a new folder")
            run = secrets.token_hex(8)
            return cls(path, run, plan, settings | {"run": run, "plan": asdict(plan)}, modality, "new")
        begun = read_begun(path)
        _refuse_other_run(path, begun, plan, parts, ledger)
        settings |= {"run": begun.run, "versions": [asdict(versions) for versions in begun.versions]}
        if plan.rounds > begun.plan.rounds:
            return cls(path, begun.run, plan, settings | {"plan": asdict(plan)}, modality, "extended")
        return cls(path, begun.run, begun.plan, settings | {"plan": asdict(begun.plan)}, modality)

    @property
    def lock(self) -> Path:
        """The file that a working process locks."""
        return self._layout.lock

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Create the folder if necessary, and keep other processes out of it."""
        self._make()
        with locked(self.lock, self.path):
            yield

    def prepare(self) -> None:
        """Record new settings and the current versions; warn if other versions began the run."""
        self._make()
        file = self._layout.begun
        if self._change == "new" and file.exists():
            raise RunError(f"another process has begun a run in {self.path}; wait for it to end, and resume that one")
        before = _versions_in(self._settings)
        versions = self._versions_from(before)
        if self._change or versions != before:
            write_json(file, self._settings | {"versions": [asdict(recorded) for recorded in versions]})

    def _make(self) -> None:
        if not self._made:
            internal = self._layout.internal
            internal.mkdir(mode=0o700, parents=True, exist_ok=True)
            internal.chmod(0o700)
            self._layout.rounds.mkdir(exist_ok=True)
            self._made = True

    def _versions_from(self, before: Sequence[Versions]) -> list[Versions]:
        """Add the current versions to those that made the run so far, if they differ and the run is unfinished."""
        since = len(self._layout.complete())
        now = _versions_now()
        changed = before[-1].changed(now) if before else []
        if since > self.plan.rounds or (before and not changed):
            return list(before)
        if changed:
            old, new = (
                ", ".join(f"{name} {packages[name]}" for name in changed) for packages in (before[-1].packages, now)
            )
            warnings.warn(
                f"{self.path} was made with {old} so far and is resumed with {new}; complete rounds stay unchanged, "
                "and later ones may differ from what they would have been",
                VersionWarning,
                stacklevel=4,
            )
        return [*before, Versions(since, now)]

    def save(self, state: State) -> None:
        """Store what a state adds to the one before it."""
        if state.proposal is not None:
            proposal = state.proposal
            columns = {
                "sample": self._kind(proposal.samples).to_arrow(proposal.samples),
                "parent": proposal.parents,
                "scale": proposal.scales,
                **_writers(proposal.authors),
            }
            write_table(self._make_round(state.round + 1).candidates, columns)
            return
        files = self._make_round(state.round)
        for number, answers in enumerate(state.answers, start=1):
            write_table(files.answers(number), {"noisy_votes": answers})
        columns = {"sample": self._kind(state.synthetic).to_arrow(state.synthetic)}
        if state.votes is not None and state.selection is not None:
            write_table(files.votes, {"noisy_votes": state.votes})
            write_json(files.selection, _diagnostics(state))
            columns["candidate"] = state.selection.indices
        remembered = {"believed_votes": state.believed, "label_votes": state.label_votes}
        columns |= {name: values for name, values in remembered.items() if values is not None}
        write_table(files.synthetic, columns | _writers(state.authors))

    def load(self) -> State | None:
        """Return the last stored state, if there is one."""
        complete = self._layout.complete()
        if not complete:
            return None
        last = complete[-1]
        authors = read_writers(self._layout.round(last).synthetic)
        judged = self._judged(last) if last and authors is not None else None
        believed, counts = (self._remembered(last, name) for name in ("believed_votes", "label_votes"))
        state = State(last, self.synthetic(last), believed=believed, label_votes=counts, authors=authors, judged=judged)
        following = self._layout.round(last + 1).candidates
        if not following.exists():
            return state
        table = read_table(following)
        proposal = Proposal(
            samples=read_samples(following, table, self._kind(state.synthetic)),
            parents=read_numbers(following, table, "parent", np.int64),
            scales=read_numbers(following, table, "scale", np.float64),
            authors=read_writers(following),
        )
        return replace(state, proposal=proposal)

    def synthetic(self, turn: int) -> Samples:
        """Return S(t)."""
        path = self._layout.round(turn).synthetic
        return read_samples(path, read_table(path), self._modality)

    def _remembered(self, turn: int, column: str) -> Floats | None:
        """Return what the selector remembers of the members of S(t), from a column; None if it remembers nothing."""
        path = self._layout.round(turn).synthetic
        table = read_table(path)
        return read_numbers(path, table, column, np.float64) if column in table.column_names else None

    def _judged(self, turn: int) -> Judged:
        """Return the candidates of a round that has voted, with their writers and votes."""
        files = self._layout.round(turn)
        candidates, votes = read_table(files.candidates), read_table(files.votes)
        return Judged(
            read_numbers(files.candidates, candidates, "writer", np.int64),
            read_numbers(files.candidates, candidates, "scale", np.float64),
            read_numbers(files.votes, votes, "noisy_votes", np.int64),
        )

    def save_rewritten(self, turn: int, before: Samples, after: Samples) -> None:
        """Store the texts of S(turn) that the last pass rewrote."""
        changed = np.flatnonzero(before != after)
        columns = {"place": changed, "sample": self._kind(after).to_arrow(after[changed])}
        write_table(self._make_round(turn).rewritten, columns)

    def rewritten(self, turn: int) -> Samples | None:
        """Return S(turn) after the last pass; None if there was no last pass."""
        return read_rewritten(self._layout.round(turn), self.synthetic(turn), self._modality)

    def publish(self, samples: Samples, statement: PrivacyStatement) -> None:
        """Write `release/`. The statement comes first: if writing stops there, it claims too little."""
        columns, layout = self._kind(samples).publish(samples), self._layout
        layout.release.mkdir(exist_ok=True)
        if layout.words.exists() and not statement.is_stored_as(read_bounded(layout.words)):
            layout.release_report.unlink(missing_ok=True)  # older than the extension, so it claims too much
        write_json(layout.statement, asdict(statement))
        write_atomically(layout.words, (statement.text() + "\n").encode())
        write_table(layout.published, columns)

    def _kind(self, samples: Samples) -> Modality:
        return modality_of(self._modality, self._settings["parts"], samples)

    def _make_round(self, turn: int) -> RoundFiles:
        files = self._layout.round(turn)
        files.path.mkdir(exist_ok=True)
        return files


def read_samples(path: Path, table: pa.Table, modality: Modality | None = None) -> Samples:
    """Return the samples of the table that was read from `path`."""
    if table.column_names.count("sample") == 1:
        with suppress(RunError):
            return samples_from_arrow(table["sample"]) if modality is None else modality.from_arrow(table["sample"])
    raise RunError(f"{path} has no column 'sample' of vectors or texts; restore it from a copy")


def read_writers(path: Path) -> Indices | None:
    """Return who wrote each sample of a file, as an index; None if there is one writer."""
    table = read_table(path)
    return read_numbers(path, table, "writer", np.int64) if "writer" in table.column_names else None


def _writers(authors: Indices | None) -> dict[str, Indices]:
    return {} if authors is None else {"writer": authors}


def read_rewritten(files: RoundFiles, samples: Samples, modality: Modality | None) -> Samples | None:
    """Return the samples of a round after the last pass; None if there was no last pass."""
    path = files.rewritten
    if not path.exists():
        return None
    table = read_table(path)
    changed, indices = read_samples(path, table, modality), read_numbers(path, table, "place", np.int64)
    belongs = changed.dtype == samples.dtype and changed.ndim == samples.ndim == 1
    once = len(set(indices.tolist())) == len(indices)
    if not belongs or not once or not set(indices.tolist()) <= set(range(len(samples))):
        raise RunError(f"{path} does not belong to its round; restore it from a copy")
    if changed.dtype.names and (changed["label"] != samples["label"][indices]).any():
        raise RunError(f"{path} has other labels than its round; restore it from a copy")
    rewritten = samples.copy()
    rewritten[indices] = changed
    return rewritten


def read_begun(path: str | Path) -> Begun:
    """Read what a run recorded when it began, and refuse what no run writes."""
    file = Layout(Path(path)).begun
    settings = read_json(file)
    if isinstance(settings, dict) and settings.get("format") != _FORMAT:
        raise RunError(
            f"{path} was written in format {brief(settings.get('format'))}, not {_FORMAT}; name a new folder"
        )
    try:
        known = {name: settings["parts"][name] for name in ("generator", "embedder", "selector")}
        words = (settings["run"], settings["ledger"], *known.values())
        if len(settings["parts"]) != len(known) or not all(isinstance(word, str) for word in words):
            raise TypeError
        modality = settings.get("modality")
        if modality is not None and not _WORD.fullmatch(modality):
            raise ValueError
        plan = _plan_in(settings["plan"])
        return Begun(settings["run"], settings["ledger"], plan, known, modality, _versions_in(settings))
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise RunError(f"{file} was not written by a run ({type(error).__name__}); restore it from a copy") from error


def versions_in_words(versions: Sequence[Versions]) -> str:
    """List the versions that made a run, and the rounds from which on they changed."""
    parts = []
    for index, current in enumerate(versions):
        names = versions[index - 1].changed(current.packages) if index else list(current.packages)
        since = f"from round {current.since} on " if current.since else ""
        parts.append(since + ", ".join(f"{name} {current.packages[name]}" for name in names))
    return "; ".join(parts)


def _versions_now() -> dict[str, str]:
    from gape import __version__  # noqa: PLC0415  (the package imports this module)

    versions = {"gape": __version__}
    for name in (*_DECISIVE, *(name for name in _WHERE_LOADED if name in sys.modules)):
        with suppress(PackageNotFoundError):
            versions[name] = version(name)
    return versions


def _versions_in(settings: dict[str, Any]) -> list[Versions]:
    recorded = settings.get("versions", [])
    versions = [Versions(int(entry["since"]), dict(entry["packages"])) for entry in recorded]
    words = (word for entry in versions for pair in entry.packages.items() for word in pair)
    if not all(_WORD.fullmatch(word) for word in words) or not all(entry.packages for entry in versions):
        raise ValueError("versions")
    return versions


def _diagnostics(state: State) -> dict[str, Any]:
    """Return the diagnostics of a selection without the indices and believed votes, which are stored as columns."""
    result = state.selection
    if result is None:
        return {}
    named = {field.name: getattr(result, field.name) for field in fields(result) if field.name not in _AS_COLUMNS}
    return {"rule": type(result).__name__, **named}


def _plan_in(values: dict[str, Any]) -> Plan:
    """Read the plan of a run folder. Each number must have the right type, because it appears in reports."""
    numbers = {name: float(values[name]) for name in ("epsilon", "delta", "sigma")}
    whole = [values[name] for name in ("rounds", "samples", "copies", "votes_per_unit", "initial", "seed")]
    flags = (values["keep"], values.get("vary_start", True))
    if not all(type(value) is int and value < _LARGEST_NUMBER for value in whole) or {*map(type, flags)} != {bool}:
        raise TypeError
    if values["neighbours"] not in get_args(Neighbours) or not 0 <= numbers["sigma"] < math.inf:
        raise ValueError
    answers = tuple(values.get("answers", ()))
    if not all(type(value) is int and 0 < value < _LARGEST_NUMBER for value in answers):
        raise TypeError
    return Plan(**(values | numbers | {"scales": tuple(values["scales"]), "answers": answers}))


def _refuse_other_run(path: Path, begun: Begun, plan: Plan, parts: dict[str, str], ledger: str) -> None:
    """Refuse to resume another run than the one that the folder began."""
    if begun.ledger != ledger:
        raise RunError(f"{path} is charged to another ledger; give the one it was started with")
    stored = begun.plan
    old, new = asdict(stored) | begun.parts, asdict(plan) | parts
    for name in new:
        grown = name in _MAY_GROW and plan.sigma == stored.sigma and plan.rounds >= stored.rounds
        if old.get(name) != new[name] and not grown:
            raise RunError(
                f"{path} was started with {name} {old.get(name)!s:.200}, not {new[name]!s:.200}; "
                "use the same settings to resume it, or name a new folder"
            )
