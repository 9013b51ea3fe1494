"""A worker that holds private records and counts their votes."""

import hashlib
from dataclasses import dataclass

from gape.cluster.crew import Worker
from gape.cluster.shards import Block, Shard
from gape.errors import RunError
from gape.types import Counts, Points
from gape.voting.electorate import LocalElectorate

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


class Station(Worker):
    """Reads its shard when it is first asked, and again after it was started again.

    Out go counts, digests, and the numbers of a `Holding`.
    """

    def __init__(self, shard: Shard, votes_per_unit: int) -> None:
        """Remember where the records are."""
        self._shard, self._votes_per_unit = shard, votes_per_unit
        self._block: Block | None = None
        self._electorate: LocalElectorate | None = None
        self._said: tuple[bytes, Holding] | None = None
        self._sorted: tuple[tuple[str, bytes], list[bytes]] = (("", b""), [])

    def describe(self, salt: bytes) -> Holding:
        """Read the shard and say what it holds."""
        if self._said is not None and self._said[0] == salt:
            return self._said[1]
        block, electorate = self._read()
        holding = Holding(
            records=len(block.points),
            units=len(block.points) if block.units is None else len(set(block.units)),
            dimension=electorate.dimension,
            has_units=block.units is not None,
            salted=block.salted,
            files=tuple(_digest(file, salt) for file in block.files),
        )
        self._said = (salt, holding)
        return holding

    def vote(self, candidates: Points, turn: int, salt: bytes, known: Holding) -> Counts:
        """Count the votes of the shard, if it is still the one that is `known`. Private: for the electorate only."""
        self._same(salt, known)
        return self._read()[1].count(candidates, turn)

    def digests(self, of: str, under: bytes, first: int, most: int, salt: bytes, known: Holding) -> bytes:
        """Return some of the digests of all "records", or of all "units", in order: `most` from the `first` on."""
        self._same(salt, known)
        if self._sorted[0] != (of, under):
            block, _ = self._read()
            named = block.contents() if of == "records" else (name.encode() for name in set(block.units or ()))
            self._sorted = (of, under), sorted(_digest(name, under) for name in named)
        return b"".join(self._sorted[1][first : first + most])

    def _read(self) -> tuple[Block, LocalElectorate]:
        if self._block is None or self._electorate is None:
            block = self._shard.read()
            counting = LocalElectorate(block.points, units=block.units, votes_per_unit=self._votes_per_unit)
            self._block, self._electorate = block, counting
        return self._block, self._electorate

    def _same(self, salt: bytes, known: Holding) -> None:
        if self.describe(salt) != known:
            raise RunError("the files changed while the run was under way; put them back as they were, and resume")


def _digest(content: bytes, salt: bytes) -> bytes:
    """Hash as `gape.fingerprint` does, or, under an empty salt, as `gape.voting.store` does."""
    return hashlib.blake2b(content, key=salt, digest_size=DIGEST).digest()
