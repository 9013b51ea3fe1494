"""An electorate whose private records stay with the workers of a cluster."""

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
from gape.core.protocols import Questions
from gape.core.types import Counts, Points
from gape.distributed.cluster.crew import PATIENCE, Crew
from gape.distributed.cluster.session import connected_ray
from gape.distributed.cluster.shards import Shard
from gape.distributed.cluster.station import DIGEST, Holding, Station, Votes
from gape.voting.electorate import records_speaking
from gape.voting.nearest import check_points
from gape.voting.store import dataset_digest, salted

# Ray sends a result below 100 KiB inside the reply. It would put a larger one into the object store, which is shared
# with other processes and written to disk when it is full.
_BYTES_AT_ONCE = 96_000


class RayElectorate:
    """Private records that vote where they are stored: each worker reads, embeds and counts its own shard.

    Counts, unit and fingerprint are those of a `LocalElectorate` of all records, whatever the number of workers: counts
    are integers, and every record's nearest candidate is exact. A worker that dies is restarted, reads its shard again
    and votes for the same candidates; if it cannot be restarted, the round raises an error and nothing is released. A
    unit in two shards, or a file in two places, is refused, because it would have more votes than the noise covers.
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
        """Start a worker with `cores` cores and `gpus` GPUs for each shard, and let it read and embed the shard.

        This needs a cluster (`with ray_cluster():`). Each worker has `patience` seconds to start.
        """
        if not shards:
            raise InputError("an electorate needs at least one shard, got none")
        self._ray = connected_ray()
        self._shards = list(shards)
        self._salt = secrets.token_bytes(32)
        arguments = [(shard,) for shard in shards]
        # Voting and writing take turns, so only the cores of the writers are counted as taken.
        nodes = [shard.node for shard in shards]
        self._crew = Crew(Station, arguments, cores=cores, gpus=gpus, reserve=False, nodes=nodes, patience=patience)
        try:
            described = self._crew.ask_all("describe", dict.fromkeys(range(len(shards)), (self._salt,)))
            self._held: list[Holding] = [described[number][0] for number in range(len(shards))]
            self._refuse_mixed_kinds()
            self._refuse_repeated_files()
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
        """The largest number of votes that one unit casts in a round."""
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
        """The number of privacy units, which is treated as public."""
        return sum(held.units for held in self._held)

    @property
    def replaced(self) -> int:
        """The number of workers that were lost and restarted."""
        return self._crew.replaced

    @property
    def pids(self) -> list[int]:
        """The process ids of the workers, each on its own machine."""
        return [self._crew.pids[number] for number in range(len(self._shards))]

    def fingerprint(self, salt: bytes) -> str:
        """Identify the dataset: all records of all shards, in any order.

        Each worker sends the digests of its records, because the fingerprint of a single process hashes them in their
        common order. Digests of vectors are salted; those of texts are not, to agree with folders of embedded texts.
        Anyone who has the digests can confirm a guess of a record. This process, which also receives the exact counts,
        forgets them here; like the counts, they travel in replies, not through the object store.
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
        return self._summed("vote", candidates, len(candidates), turn, self._votes)

    def answer(self, questions: Questions, turn: int) -> Counts:
        """Count the answers to a survey on all workers. Private: for `release_answers` only."""
        return self._summed("respond", questions, questions.bins, turn)

    def holds_any(self, public: frozenset[bytes]) -> bool:
        """Return whether a text of any worker is among public ones, given by their `text_digest`."""
        stored = self._ray.put(public)
        answers = self._crew.ask_all(
            "holds_any", {number: (stored, *self._known(number)) for number in range(len(self._shards))}
        )
        return any(answer for pieces in answers.values() for answer in pieces)

    def cast(self, votes_per_unit: int, votes_per_record: int) -> None:
        """Set how many votes are cast in each round from now on."""
        records_speaking(votes_per_unit, votes_per_record, one_each=not self._held[0].has_units)
        self._votes = Votes(votes_per_unit, votes_per_record)

    def close(self) -> None:
        """End the workers, and with them the records in their memory."""
        self._crew.close()

    def _summed(self, method: str, asked: object, bins: int, *more: object) -> Counts:
        """Ask all workers for counts, (bins,), and add these up."""
        public = self._ray.put(asked)  # one copy for all workers of a machine
        pieces = math.ceil(bins * np.dtype(np.int64).itemsize / _BYTES_AT_ONCE)
        requests = {number: (public, *more, *self._known(number)) for number in range(len(self._shards))}
        total = np.zeros(bins, dtype=np.int64)
        for counted in self._crew.ask_all(method, requests, pieces).values():
            total += np.concatenate(counted)
        return total

    def _known(self, number: int) -> tuple[bytes, Holding]:
        return self._salt, self._held[number]

    def _digests(self, kind: str, key: bytes) -> Iterator[tuple[bytes, int]]:
        """Yield the digests of the "records" or "units" of all workers in order, each with its worker."""
        return heapq.merge(*(self._worker_digests(number, kind, key) for number in range(len(self._shards))))

    def _worker_digests(self, number: int, kind: str, key: bytes) -> Iterator[tuple[bytes, int]]:
        held = self._held[number]
        most = _BYTES_AT_ONCE // DIGEST
        for first in range(0, held.records if kind == "records" else held.units, most):
            question = (kind, key, first, most, *self._known(number))
            (digests,) = self._crew.ask(number, "digests", *question)
            yield from ((digests[start : start + DIGEST], number) for start in range(0, len(digests), DIGEST))

    def _refuse_mixed_kinds(self) -> None:
        kinds = {(held.dimension, held.salted, held.has_units) for held in self._held}
        if len(kinds) > 1:
            described = " and ".join(
                f"{'vectors' if vectors else 'texts'} of width {width} {'with' if users else 'without'} users"
                for width, vectors, users in sorted(kinds)
            )
            raise InputError(f"all shards must be of one kind, got {described}; describe them in the same way")

    def _refuse_repeated_files(self) -> None:
        """Refuse a file if some of its records would vote twice or never."""
        takers: dict[bytes, list[tuple[tuple[int, int], int]]] = defaultdict(list)
        for number, (shard, held) in enumerate(zip(self._shards, self._held, strict=True)):
            for file in held.files:
                takers[file].append((shard.part, number))
        for readers in takers.values():
            parts, numbers = sorted(part for part, _ in readers), [number for _, number in readers]
            if parts != [(index, parts[0][1]) for index in range(parts[0][1])]:
                raise PrivacyError(
                    f"a file is read by the workers {numbers} as the parts {parts}, so some of its records would vote "
                    "twice or never; give each file to one worker, or to all parts that in_parts makes, and merge "
                    "files with the same content"
                )

    def _refuse_divided_units(self) -> None:
        """Refuse a unit that two workers hold, found by digests under a salt that is forgotten afterwards."""
        if not self._held[0].has_units or len(self._shards) == 1:
            return
        salt = secrets.token_bytes(32)
        for (digest, worker), (next_digest, next_worker) in itertools.pairwise(self._digests("units", salt)):
            if digest == next_digest:
                raise PrivacyError(
                    f"workers {worker} and {next_worker} both hold records of one user, who would have twice the votes "
                    "that the noise covers; divide the data by user, as in_parts does"
                )
