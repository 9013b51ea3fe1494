"""What a run folder says of its rounds: who came from whom, at which scale, with which noisy votes; all public."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gape.errors import RunError
from gape.export import read_finished, read_settings
from gape.files import read_json, read_numbers, read_samples, read_table, refuse_links
from gape.privacy.statement import PrivacyStatement
from gape.run_folder import Versions, read_versions
from gape.settings import Settings
from gape.text_folder import TextFolder
from gape.types import Floats, Indices, NoisyVotes, Samples


@dataclass(frozen=True)
class Round:
    """One round that is done: its candidates by their noisy votes, and the samples that survived it."""

    samples: Samples  # S(t), (m, ...)
    chosen: Indices  # (m,): the candidate that each sample is
    parents: Indices  # (v,): the member of S(t-1) that each candidate is, or varies
    scales: Floats  # (v,): 0 for a sample that stayed what it was
    votes: NoisyVotes  # (v,)
    diagnostics: dict[str, Any]  # what the selection rule says of itself


@dataclass(frozen=True)
class Folder:
    """A run on disk, finished or not. Nothing in it is private beyond what its noisy votes have paid for."""

    path: Path
    plan: dict[str, Any]
    parts: dict[str, str]  # generator, embedder and selector, as they describe themselves
    statement: PrivacyStatement | None  # none before the end of the run
    settings: Settings | None  # of a text run; none where the run was put together in Python
    versions: list[Versions]  # that made it; none where they were not kept
    start: Samples  # S(0)
    rounds: tuple[Round, ...]  # those that are done

    @property
    def sigma(self) -> float:
        """The scale of the noise on every vote; 0 where there was none."""
        return float(self.plan["sigma"])

    @property
    def finished(self) -> bool:
        """Whether the run has published what its last round selected."""
        return self.statement is not None

    @property
    def last(self) -> int:
        """The last round that is done; 0 is the start."""
        return len(self.rounds)

    @property
    def is_text(self) -> bool:
        """Whether samples are texts, with or without labels, and not vectors."""
        return self.start.ndim == 1

    @property
    def noun(self) -> str:
        """What a sample is, in the plural."""
        if self.settings is not None and self.settings.schema is not None:
            return "rows"
        return "texts" if self.is_text else "points"

    def samples(self, turn: int) -> Samples:
        """Return S(turn)."""
        return self.rounds[turn - 1].samples if turn else self.start

    def candidates(self, turn: int) -> Samples:
        """Read V(turn) again; it is not held, being the largest thing there is."""
        path = _folder(self.path, turn) / "candidates.parquet"
        found = read_samples(path, read_table(path))
        if found.dtype != self.start.dtype or len(found) != len(self.rounds[turn - 1].votes):
            raise RunError(f"{path} does not belong to its round; restore it from a copy")
        return found

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


def read_folder(path: str | Path) -> Folder:
    """Read a run, as far as it has got."""
    path = Path(path)
    settings_file = path / "internal" / "settings.json"
    if not settings_file.exists() and (path / "internal" / "settings.toml").exists():
        raise RunError(f"{path} holds a run that has written nothing yet; wait for its first texts, or resume it")
    if not settings_file.exists():
        raise RunError(f"{path} is not the folder of a run; name the folder that the run was made in")
    if not (_folder(path, 0) / "synthetic.parquet").exists():
        raise RunError(f"{path} holds a run that has written nothing yet; wait for its first texts")
    refuse_links(path)
    stored = read_settings(settings_file)
    first = _folder(path, 0) / "synthetic.parquet"
    start = read_samples(first, read_table(first))
    rounds: list[Round] = []
    while (_folder(path, len(rounds) + 1) / "synthetic.parquet").exists():  # written last, so the round is whole
        rounds.append(_round(_folder(path, len(rounds) + 1), rounds[-1].samples if rounds else start))
    on_disk = TextFolder(path)
    try:
        statement = read_finished(path)[1]
    except RunError:
        statement = None
    return Folder(
        path=path,
        plan=stored["plan"],
        parts=stored["parts"],
        statement=statement,
        settings=on_disk.settings() if (path / "internal" / "settings.toml").exists() else None,
        versions=read_versions(settings_file),
        start=start,
        rounds=tuple(rounds),
    )


def _round(folder: Path, before: Samples) -> Round:
    after, proposed, voted = (folder / f"{name}.parquet" for name in ("synthetic", "candidates", "votes"))
    survivors, candidates = read_table(after), read_table(proposed)
    diagnostics = read_json(folder / "selection.json")
    found = Round(
        samples=read_samples(after, survivors),
        chosen=read_numbers(after, survivors, "candidate", np.int64),
        parents=read_numbers(proposed, candidates, "parent", np.int64),
        scales=read_numbers(proposed, candidates, "scale", np.float64),
        votes=read_numbers(voted, read_table(voted), "noisy_votes", np.int64),
        diagnostics=diagnostics if isinstance(diagnostics, dict) else {},
    )
    same_kind = found.samples.dtype == before.dtype and found.samples.shape[1:] == before.shape[1:]
    known = len(found.parents) == len(found.scales) == len(found.votes)
    if not (same_kind and known and _within(found.chosen, len(found.votes)) and _within(found.parents, len(before))):
        raise RunError(f"the files of {folder} do not belong together; restore them from a copy")
    return found


def _within(places: Indices, size: int) -> bool:
    return len(places) > 0 and int(places.min()) >= 0 and int(places.max()) < size


def _folder(run: Path, turn: int) -> Path:
    return run / "internal" / "rounds" / f"{turn:03d}"
