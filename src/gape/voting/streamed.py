"""The electorate that reads its private vectors from disk, in memory that does not grow with their number."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from gape.core.errors import InputError, RunError
from gape.core.protocols import Questions
from gape.core.types import Counts, Indices, Points
from gape.voting.electorate import records_speaking
from gape.voting.several import several_nearest
from gape.voting.store import DIGEST, HEADER, LABELS, UNITS, Part, VectorFolder

BLOCK = 64 * 2**20  # bytes of vectors per computation; the next block is read meanwhile

_BALLOTS = 2**22  # votes of users that are compared at once, 8 bytes each


@dataclass(frozen=True)
class _Stretch:
    """Consecutive rows of one shard."""

    shard: Part
    first: int  # in the shard
    start: int  # in the whole set
    rows: int

    @property
    def last(self) -> bool:
        return self.first + self.rows == self.shard.shape[0]


class StreamedElectorate:
    """Private vectors in a folder that vote for their nearest candidates, exactly as if they were in memory.

    Units, turns and counts are those of `LocalElectorate`: a record has `votes_per_record` votes, a user at most
    `votes_per_unit`, each for a different candidate. A round reads the folder from front to back, the next block while
    the last one is counted. Memory does not depend on the number of records: it holds two blocks of vectors, the
    working memory of `several_nearest` for one, and 12 bytes for each of its rows if there are users. If several
    records of a user vote, equal votes are found among as many ballots as fit into memory, and more users take more
    passes.

    Contents are compared with their checksums the first time they are read. Counts of changed data are never returned.
    """

    def __init__(
        self,
        folder: VectorFolder | str | Path,
        *,
        votes_per_unit: int = 1,
        votes_per_record: int = 1,
        marks: Points | None = None,
        block: int = BLOCK,
    ) -> None:
        """Open `folder`. `marks`, (labels, k), are extra columns that each label adds to the vectors of its records."""
        self._folder = folder if isinstance(folder, VectorFolder) else VectorFolder(folder)
        self._most = records_speaking(votes_per_unit, votes_per_record, one_each=self._folder.unit == "record")
        labels = self._folder.manifest.labels
        if marks is not None and len(marks) != len(labels or ()):
            raise InputError(
                f"marks must have one row for each of {len(labels or ())} labels, got {len(marks)}; give one per label"
            )
        self._votes_per_unit, self._votes_per_record, self._marks = votes_per_unit, votes_per_record, marks
        self._rows = max(1, block // (4 * self._folder.manifest.width))
        self._trusted = False

    @property
    def dimension(self) -> int:
        """Dimension d of the embeddings, marks included."""
        return self._folder.manifest.width + (0 if self._marks is None else self._marks.shape[1])

    @property
    def votes_per_unit(self) -> int:
        """Maximum number of votes one unit casts per round."""
        return self._votes_per_unit

    @property
    def unit(self) -> str:
        """Name of the privacy unit."""
        return self._folder.unit

    def fingerprint(self, salt: bytes) -> str:
        """Identify the dataset: its texts and users, in any order."""
        return self._folder.fingerprint(salt)

    def count(self, candidates: Points, turn: int) -> Counts:
        """Count the votes of round `turn` (Algorithm 2). Private: for `release_votes` only."""
        v = len(candidates)
        counts = np.zeros(v, dtype=np.int64)
        most = self._most
        users = self._folder.units if self.unit == "user" else 0
        # If one record of a user votes, no votes coincide, and one pass serves all users.
        step = users if most == 1 else max(1, _BALLOTS // self._votes_per_unit)
        for low in range(0, max(1, users), max(1, step)):
            ballots = [np.empty(0, dtype=np.int64)]
            for points, owners in self._speaking(turn, low, low + step, most):
                winners = several_nearest(points, candidates, self._votes_per_record)
                if most == 1:
                    counts += np.bincount(winners.ravel(), minlength=v)
                else:
                    ballots.append((owners[:, None] * v + winners).ravel())
            counts += np.bincount(np.unique(np.concatenate(ballots)) % v, minlength=v)
        return counts

    def answer(self, questions: Questions, turn: int) -> Counts:
        """Count the answers of one record of each unit. Private: for `release_answers` only."""
        counts = np.zeros(questions.bins, dtype=np.int64)
        for points, _ in self._speaking(turn, 0, self._folder.units, 1):
            counts += questions.tally(questions.encode(None, points))
        return counts

    def _speaking(self, turn: int, low: int, high: int, most: int) -> Iterator[tuple[Points, Indices]]:
        """Read the vectors of `most` records of each user in round `turn`, of users `low` to `high` - 1 if any.

        Their users come with them.
        """
        if not self._trusted:
            self._check_indices()
        stretches = list(self._stretches())
        buffers = [np.empty(self._rows * self._folder.manifest.width, dtype="<f4") for _ in range(2)]
        reader = _Reader(self._folder, check=not self._trusted)

        def read(number: int) -> tuple[Points, Indices] | None:
            stretch = stretches[number]
            rows, owners = self._speakers(stretch, turn, low, high, most)
            if self._trusted and rows is not None and not len(rows):
                return None
            points = reader.read(stretch, buffers[number % 2])
            return self._marked(stretch, points if rows is None else points[rows], rows), owners

        with ThreadPoolExecutor(1) as pool:
            following = pool.submit(read, 0)
            for number in range(len(stretches)):
                speaking = following.result()
                if number + 1 < len(stretches):
                    following = pool.submit(read, number + 1)
                if speaking is not None and len(speaking[0]):
                    yield speaking
        self._trusted = True

    def _speakers(self, stretch: _Stretch, turn: int, low: int, high: int, most: int) -> tuple[Indices | None, Indices]:
        """Return the rows of a stretch that vote, None for all of them, and their users.

        Record number r of a user with s records votes if it is among the k records whose turn it is:
        (r - (turn - 1) k) mod s is less than k.
        """
        if self.unit == "record":
            return None, np.empty(0, dtype=np.int64)
        owner, number, size = self._indices(UNITS, stretch, 3).reshape(-1, 3).astype(np.int64).T
        waits = (number - (turn - 1) * most) % size
        rows = np.flatnonzero((waits < most) & (owner >= low) & (owner < high))
        return rows, owner[rows]

    def _marked(self, stretch: _Stretch, points: Points, rows: Indices | None) -> Points:
        if self._marks is None:
            return points
        labels = self._indices(LABELS, stretch, 1)
        return np.concatenate([points, self._marks[labels if rows is None else labels[rows]]], axis=1)

    def _indices(self, name: str, stretch: _Stretch, width: int) -> NDArray[np.uint32]:
        offset = HEADER + 4 * width * stretch.start
        return np.fromfile(self._folder.path / name, "<u4", width * stretch.rows, offset=offset)

    def _stretches(self) -> Iterator[_Stretch]:
        start = 0
        for shard in self._folder.shards:
            for first in range(0, shard.shape[0], self._rows):
                rows = min(self._rows, shard.shape[0] - first)
                yield _Stretch(shard, first, start, rows)
                start += rows

    def _check_indices(self) -> None:
        used = {UNITS} if self.unit == "user" else set()
        used |= {LABELS} if self._marks is not None else set()
        for name in used:
            part = self._folder.part(name)
            content = blake2b(digest_size=DIGEST)
            with (self._folder.path / name).open("rb") as file:
                file.seek(HEADER)
                while block := file.read(BLOCK // 4):
                    content.update(block)
            _compare(self._folder, part, content.hexdigest())


class _Reader:
    """Reads stretches in order, shard by shard, into reused memory."""

    def __init__(self, folder: VectorFolder, *, check: bool) -> None:
        self._folder, self._check = folder, check
        self._content = blake2b(digest_size=DIGEST)

    def read(self, stretch: _Stretch, buffer: Points) -> Points:
        """Fill the buffer with the rows of a stretch, (rows, d). At the end of a shard, refuse it if it has changed."""
        width = stretch.shard.shape[1]
        part = buffer[: stretch.rows * width]
        with (self._folder.path / stretch.shard.name).open("rb", buffering=0) as file:
            file.seek(HEADER + part.itemsize * stretch.first * width)
            view, done = part.view(np.uint8).data, 0
            while done < len(view) and (read := file.readinto(view[done:])):
                done += read
        if done < len(view):
            raise RunError(f"{stretch.shard.name} of {self._folder.path} has become shorter; restore it from a backup")
        if self._check:
            self._content.update(view)
            if stretch.last:
                _compare(self._folder, stretch.shard, self._content.hexdigest())
                self._content = blake2b(digest_size=DIGEST)
        return part.reshape(stretch.rows, width)


def _compare(folder: VectorFolder, part: Part, checksum: str) -> None:
    if checksum != part.checksum:
        raise RunError(
            f"{part.name} of {folder.path} has changed since it was embedded; restore it from a backup, or embed the "
            "texts again"
        )
