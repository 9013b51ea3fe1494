"""What a run folder says of its rounds: who came from whom, at which scale, with which noisy votes; all public."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from gape.errors import RunError
from gape.export import read_finished
from gape.files import read_json, read_table, samples_from_arrow
from gape.privacy.statement import PrivacyStatement
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
        return "texts" if self.is_text else "points"

    def samples(self, turn: int) -> Samples:
        """Return S(turn)."""
        return self.rounds[turn - 1].samples if turn else self.start

    def candidates(self, turn: int) -> Samples:
        """Read V(turn) again; it is not held, being the largest thing there is."""
        return samples_from_arrow(read_table(_folder(self.path, turn) / "candidates.parquet")["sample"])

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
    if not settings_file.exists():
        raise RunError(f"{path} is not the folder of a run; name the folder that the run was made in")
    if not (_folder(path, 0) / "synthetic.parquet").exists():
        raise RunError(f"{path} holds a run that has written nothing yet; wait for its first texts")
    stored = read_json(settings_file)
    rounds: list[Round] = []
    while (_folder(path, len(rounds) + 1) / "synthetic.parquet").exists():  # written last, so the round is whole
        rounds.append(_round(_folder(path, len(rounds) + 1)))
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
        start=samples_from_arrow(read_table(_folder(path, 0) / "synthetic.parquet")["sample"]),
        rounds=tuple(rounds),
    )


def _round(folder: Path) -> Round:
    survivors, proposed = read_table(folder / "synthetic.parquet"), read_table(folder / "candidates.parquet")
    return Round(
        samples=samples_from_arrow(survivors["sample"]),
        chosen=survivors["candidate"].to_numpy().astype(np.int64),
        parents=proposed["parent"].to_numpy().astype(np.int64),
        scales=proposed["scale"].to_numpy().astype(np.float64),
        votes=read_table(folder / "votes.parquet")["noisy_votes"].to_numpy().astype(np.int64),
        diagnostics=read_json(folder / "selection.json"),
    )


def _folder(run: Path, turn: int) -> Path:
    return run / "internal" / "rounds" / f"{turn:03d}"
