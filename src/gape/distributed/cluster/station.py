"""A worker that holds private records and counts their votes."""

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

from gape._support.fingerprint import text_digest
from gape.core.errors import RunError
from gape.core.types import Counts, Points
from gape.distributed.cluster.crew import Worker
from gape.distributed.cluster.shards import Block, Shard
from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import check_points

DIGEST = 32  # bytes


@dataclass(frozen=True)
class Holding:
    """What a worker says of its records: numbers, and digests of its files under a secret salt."""

    records: int
    units: int
    dimension: int
    has_units: bool
    salted: bool  # as in `Block`
    files: tuple[bytes, ...]  # which files it has read, whatever part of them it takes


class Votes(NamedTuple):
    """How many votes are cast in a round, as `LocalElectorate` takes it."""

    votes_per_unit: int
    votes_per_record: int


class Station(Worker):
    """Reads its shard when it is first asked, and again after it was started again.

    Out go counts, digests, the numbers of a `Holding`, and whether a public text is private too.
    """

    def __init__(self, shard: Shard) -> None:
        """Remember where the records are."""
        self._shard = shard
        self._block: Block | None = None
        self._electorate: tuple[Votes, LocalElectorate] | None = None
        self._said: tuple[bytes, Holding] | None = None
        self._sorted: tuple[tuple[str, bytes], list[bytes]] = (("", b""), [])

    def describe(self, salt: bytes) -> Holding:
        """Read the shard and say what it holds."""
        if self._said is not None and self._said[0] == salt:
            return self._said[1]
        block = self._read()
        holding = Holding(
            records=len(block.points),
            units=len(block.points) if block.units is None else len(set(block.units)),
            dimension=check_points(block.points, "private embeddings").shape[1],
            has_units=block.units is not None,
            salted=block.salted,
            files=tuple(_digest(file, salt) for file in block.files),
        )
        self._said = (salt, holding)
        return holding

    def vote(self, candidates: Points, turn: int, votes: Votes, salt: bytes, known: Holding) -> Counts:
        """Count the votes of the shard, if it is still the one that is `known`. Private: for the electorate only."""
        self._same(salt, known)
        if self._electorate is None or self._electorate[0] != votes:
            block = self._read()
            self._electorate = votes, LocalElectorate(block.points, units=block.units, **votes._asdict())
        return self._electorate[1].count(candidates, turn)

    def digests(self, of: str, under: bytes, first: int, most: int, salt: bytes, known: Holding) -> bytes:
        """Return some of the digests of all "records", or of all "units", in order: `most` from the `first` on."""
        self._same(salt, known)
        if self._sorted[0] != (of, under):
            block = self._read()
            named = block.contents() if of == "records" else (name.encode() for name in set(block.units or ()))
            self._sorted = (of, under), sorted(_digest(name, under) for name in named)
        return b"".join(self._sorted[1][first : first + most])

    def holds_any(self, public: frozenset[bytes], salt: bytes, known: Holding) -> bool:
        """Say whether a text of the shard is among public ones, given by their digests."""
        self._same(salt, known)
        return any(text_digest(text) in public for text in self._read().texts)

    def _read(self) -> Block:
        if self._block is None:
            self._block = self._shard.read()
        return self._block

    def _same(self, salt: bytes, known: Holding) -> None:
        if self.describe(salt) != known:
            raise RunError("the files changed while the run was under way; put them back as they were, and resume")


def _digest(content: bytes, salt: bytes) -> bytes:
    """Hash as `gape._support.fingerprint` does, or, under an empty salt, as `gape.voting.store` does."""
    return hashlib.blake2b(content, key=salt, digest_size=DIGEST).digest()
