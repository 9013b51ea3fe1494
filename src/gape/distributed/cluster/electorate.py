"""The electorate whose private records lie with the workers of a cluster."""

import hashlib
import heapq
import itertools
import math
import secrets
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Self

import numpy as np

from gape.core.errors import InputError, PrivacyError
from gape.core.types import Counts, Points
from gape.distributed.cluster.crew import PATIENCE, Crew
from gape.distributed.cluster.session import connected_ray
from gape.distributed.cluster.shards import Shard
from gape.distributed.cluster.station import DIGEST, Holding, Station, Votes
from gape.voting.electorate import records_speaking
from gape.voting.nearest import check_points
from gape.voting.store import dataset_digest, salted

# Ray sends a result below 100 KiB inside the reply. A larger one it would put into the object store, which other
# processes share and which is written to disk when it is full.
_BYTES_AT_ONCE = 96_000


class RayElectorate:
    """Private records that vote where they lie: each worker reads, embeds and counts its own shard.

    Its counts, its unit and its fingerprint are those of a `LocalElectorate` of all records, whatever the number of
    workers: counts are integers, and every record's nearest candidate is exact. A worker that dies is started again,
    reads its shard again and votes for the same candidates; if it cannot be, the round raises and nothing is released.
    No unit may be in two shards, and no file twice: it would have more votes than it is noised for, and is refused.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        *,
        votes_per_unit: int = 1,
        votes_per_record: int = 1,
        unit: str | None = None,
        cores: int = 1,
        gpus: float = 0,
        patience: float = PATIENCE,
    ) -> None:
        """Start a worker of `cores` cores and `gpus` GPUs for each shard, and have all of them read and embed it.

        It needs a cluster, as by `with ray_cluster():`, and waits `patience` seconds for a worker to start.
        """
        if not shards:
            raise InputError("an electorate needs at least one shard")
        self._ray = connected_ray()
        self._shards = list(shards)
        self._salt = secrets.token_bytes(32)
        arguments = [(shard,) for shard in shards]
        # Those who vote and those who write take turns, so only the writers' cores are counted as taken.
        nodes = [shard.node for shard in shards]
        self._crew = Crew(Station, arguments, cores=cores, gpus=gpus, reserve=False, nodes=nodes, patience=patience)
        try:
            described = self._crew.each("describe", dict.fromkeys(range(len(shards)), (self._salt,)))
            self._held: list[Holding] = [described[number][0] for number in range(len(shards))]
            self._refuse_unlike()
            self._refuse_files_twice()
            self._refuse_divided_units()
            self.cast(votes_per_unit, votes_per_record)
        except BaseException:
            self.close()
            raise
        self._unit = unit or ("user" if self._held[0].has_units else "record")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def dimension(self) -> int:
        """Width d of the embeddings."""
        return self._held[0].dimension

    @property
    def votes_per_unit(self) -> int:
        """The most votes one unit casts in a round."""
        return self._votes.votes_per_unit

    @property
    def unit(self) -> str:
        """What one privacy unit is."""
        return self._unit

    @property
    def source(self) -> str:
        """Where the records come from, in words."""
        return f"the data of {len(self._shards)} workers"

    @property
    def units(self) -> int:
        """How many privacy units there are, which is taken as public."""
        return sum(held.units for held in self._held)

    @property
    def replaced(self) -> int:
        """How many workers were lost and started again."""
        return self._crew.replaced

    @property
    def pids(self) -> list[int]:
        """The workers' processes, each on its own machine."""
        return [self._crew.pids[number] for number in range(len(self._shards))]

    def fingerprint(self, salt: bytes) -> str:
        """Identify the dataset: all records of all shards, in any order.

        Each worker sends the digests of its records, for only in their common order can they be hashed to what the
        electorate of one process says; of vectors under the salt, of texts without it, as folders of embedded texts
        have it. Whoever has them can confirm a guess of a record. This process forgets them here, and gets the exact
        counts too; like those they go inside replies, not into the object store.
        """
        if not self._held[0].salted:
            return salted(dataset_digest(digest for digest, _ in self._digests("records", b"")), salt)
        combined = hashlib.blake2b(key=salt, digest_size=DIGEST)
        for digest, _ in self._digests("records", salt):
            combined.update(digest)
        return combined.hexdigest()

    def count(self, candidates: Points, turn: int) -> Counts:
        """Count the votes of round `turn` on all workers. Private: for `release_votes` only."""
        candidates = check_points(candidates, "candidate embeddings")
        public = self._ray.put(candidates)  # once for all workers of a machine
        pieces = math.ceil(candidates.shape[0] * np.dtype(np.int64).itemsize / _BYTES_AT_ONCE)
        questions = {number: (public, turn, self._votes, *self._known(number)) for number in range(len(self._shards))}
        votes = self._crew.each("vote", questions, pieces)
        total = np.zeros(len(candidates), dtype=np.int64)
        for counted in votes.values():
            total += np.concatenate(counted)
        return total

    def holds_any(self, public: frozenset[bytes]) -> bool:
        """Whether a text of any worker is among public ones, given by `text_digest`."""
        given = self._ray.put(public)
        found = self._crew.each(
            "holds_any", {number: (given, *self._known(number)) for number in range(len(self._shards))}
        )
        return any(answer for answers in found.values() for answer in answers)

    def cast(self, votes_per_unit: int, votes_per_record: int) -> None:
        """Have so many votes cast in every round from now on."""
        records_speaking(votes_per_unit, votes_per_record, one_each=not self._held[0].has_units)
        self._votes = Votes(votes_per_unit, votes_per_record)

    def close(self) -> None:
        """End the workers, and with them what they hold in memory."""
        self._crew.close()

    def _known(self, number: int) -> tuple[bytes, Holding]:
        return self._salt, self._held[number]

    def _digests(self, of: str, under: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the digests of all workers in order, each with its worker."""
        return heapq.merge(*(self._digests_of(number, of, under) for number in range(len(self._shards))))

    def _digests_of(self, number: int, of: str, under: bytes) -> Iterator[tuple[bytes, int]]:
        held = self._held[number]
        most = _BYTES_AT_ONCE // DIGEST
        for first in range(0, held.records if of == "records" else held.units, most):
            question = (of, under, first, most, *self._known(number))
            (some,) = self._crew.ask(number, "digests", *question)
            yield from ((some[start : start + DIGEST], number) for start in range(0, len(some), DIGEST))

    def _refuse_unlike(self) -> None:
        kinds = {(held.dimension, held.salted, held.has_units) for held in self._held}
        if len(kinds) > 1:
            said = " and ".join(
                f"{'vectors' if vectors else 'texts'} of width {width} {'with' if users else 'without'} users"
                for width, vectors, users in sorted(kinds)
            )
            raise InputError(f"all shards must be of one kind, got {said}; describe them alike")

    def _refuse_files_twice(self) -> None:
        """Refuse a file whose records would vote twice, or in part never."""
        takers: dict[bytes, list[tuple[tuple[int, int], int]]] = defaultdict(list)
        for number, (shard, held) in enumerate(zip(self._shards, self._held, strict=True)):
            for file in held.files:
                takers[file].append((shard.part, number))
        for those in takers.values():
            parts, numbers = sorted(part for part, _ in those), [number for _, number in those]
            if parts != [(place, parts[0][1]) for place in range(parts[0][1])]:
                raise PrivacyError(
                    f"a file is read by the workers {numbers} as the parts {parts}, so that its records would vote "
                    "twice or never; give each file to one worker, or to all of in_parts, and join files that are equal"
                )

    def _refuse_divided_units(self) -> None:
        """Refuse a unit that two workers hold, known by a digest under a salt that is forgotten here."""
        if not self._held[0].has_units or len(self._shards) == 1:
            return
        salt = secrets.token_bytes(32)
        for (one, here), (other, there) in itertools.pairwise(self._digests("units", salt)):
            if one == other:
                raise PrivacyError(
                    f"workers {here} and {there} both hold records of one user, who would vote twice as often as the "
                    "noise is for; divide the data by user, as in_parts does"
                )
