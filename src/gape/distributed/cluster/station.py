"""A worker that holds private records and counts their votes."""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

from gape._support.fingerprint import text_digest
from gape.core.errors import RunError
from gape.core.protocols import Questions
from gape.core.types import Counts, Points
from gape.distributed.cluster.crew import Worker
from gape.distributed.cluster.shards import Block, Shard
from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import check_points

DIGEST = 32  # bytes


@dataclass(frozen=True)
class Holding:
    """What a worker reports of its records: numbers, and digests of its files under a secret salt."""

    records: int
    units: int
    dimension: int
    has_units: bool
    salted: bool  # as in `Block`
    files: tuple[bytes, ...]  # identify the files it has read, whatever part of them it takes


class Votes(NamedTuple):
    """How many votes are cast in a round, as in `LocalElectorate`."""

    votes_per_unit: int
    votes_per_record: int


class Station(Worker):
    """Reads its shard when it is first asked, and again after a restart.

    Only counts, digests, a `Holding`, and whether a public text is also private leave the worker.
    """

    def __init__(self, shard: Shard) -> None:
        """Hold the description of the shard; nothing is read yet."""
        self._shard = shard
        self._block: Block | None = None
        self._electorate: tuple[Votes, LocalElectorate] | None = None
        self._described: tuple[bytes, Holding] | None = None
        self._sorted: tuple[tuple[str, bytes], list[bytes]] = (("", b""), [])

    def describe(self, salt: bytes) -> Holding:
        """Read the shard and describe what it holds."""
        if self._described is not None and self._described[0] == salt:
            return self._described[1]
        block = self._read()
        holding = Holding(
            records=len(block.points),
            units=len(block.points) if block.units is None else len(set(block.units)),
            dimension=check_points(block.points, "private embeddings").shape[1],
            has_units=block.units is not None,
            salted=block.salted,
            files=tuple(_digest(file, salt) for file in block.files),
        )
        self._described = (salt, holding)
        return holding

    def vote(self, candidates: Points, turn: int, votes: Votes, salt: bytes, known: Holding) -> Counts:
        """Count the votes of the shard, if it is unchanged from `known`. Private: for the electorate only."""
        self._refuse_changes(salt, known)
        if self._electorate is None or self._electorate[0] != votes:
            block = self._read()
            self._electorate = votes, LocalElectorate(block.points, units=block.units, **votes._asdict())
        return self._electorate[1].count(candidates, turn)

    def respond(self, questions: Questions, turn: int, salt: bytes, known: Holding) -> Counts:
        """Count the answers of the shard to a survey, if it is unchanged. Private: for the electorate only."""
        self._refuse_changes(salt, known)
        block = self._read()
        return LocalElectorate(block.points, units=block.units).answer(questions, turn)

    def digests(self, kind: str, key: bytes, first: int, most: int, salt: bytes, known: Holding) -> bytes:
        """Return up to `most` of the sorted digests of all "records" or all "units", from index `first` on."""
        self._refuse_changes(salt, known)
        if self._sorted[0] != (kind, key):
            block = self._read()
            contents = block.contents() if kind == "records" else (name.encode() for name in set(block.units or ()))
            self._sorted = (kind, key), sorted(_digest(content, key) for content in contents)
        return b"".join(self._sorted[1][first : first + most])

    def holds_any(self, public: frozenset[bytes], salt: bytes, known: Holding) -> bool:
        """Return whether a text of the shard is among public ones, given by their digests."""
        self._refuse_changes(salt, known)
        return any(text_digest(text) in public for text in self._read().texts)

    def _read(self) -> Block:
        if self._block is None:
            self._block = self._shard.read()
        return self._block

    def _refuse_changes(self, salt: bytes, known: Holding) -> None:
        if self.describe(salt) != known:
            raise RunError("the files changed during the run; restore them, and resume")


def _digest(content: bytes, salt: bytes) -> bytes:
    """Hash like `gape._support.fingerprint`, or, with an empty salt, like `gape.voting.store`."""
    return hashlib.blake2b(content, key=salt, digest_size=DIGEST).digest()
