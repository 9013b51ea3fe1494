"""The electorate that keeps its private embeddings in memory."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gape._support.fingerprint import dataset_fingerprint
from gape.core.errors import InputError
from gape.core.protocols import Questions
from gape.core.types import Counts, Indices, Points, Samples
from gape.voting.nearest import Voters, check_points
from gape.voting.several import several_nearest


class LocalElectorate:
    """Private vectors that vote for their nearest candidate, or for the `votes_per_record` nearest ones.

    The privacy unit is one record, or, with `units`, all records of one unit (a user, a household). A unit casts at
    most `votes_per_unit` votes per round, each for a different candidate, however many records it has. In each round
    its next votes_per_unit / votes_per_record records vote, taking turns in their order, and equal votes of the same
    unit count once. So the votes of a unit have L2 norm at most sqrt(votes_per_unit), and they depend on nobody else's
    data. To a survey, one record of each unit answers, by its `content` or by its embedding.
    """

    def __init__(
        self,
        private: Points,
        *,
        units: Sequence[str] | Sequence[int] | NDArray[Any] | None = None,
        votes_per_unit: int = 1,
        votes_per_record: int = 1,
        unit: str | None = None,
        content: Samples | None = None,
    ) -> None:
        """Keep `private`, (n, d), and the unit and the content of each row, (n,)."""
        self._private = check_points(private, "private embeddings")
        self._voters = Voters(self._private)  # a copy on a GPU lives as long as this object
        self._speaking = records_speaking(votes_per_unit, votes_per_record, one_each=units is None)
        self._units = None if units is None else _Units(units, len(self._private))
        self._votes_per_unit, self._votes_per_record = votes_per_unit, votes_per_record
        self._unit = unit or ("record" if units is None else "user")
        self._content = content
        self._encoded: Any = None  # what the questions of a survey ask about

    @property
    def dimension(self) -> int:
        """Dimension d of the embeddings."""
        return int(self._private.shape[1])

    @property
    def votes_per_unit(self) -> int:
        """Maximum number of votes one unit casts per round."""
        return self._votes_per_unit

    @property
    def unit(self) -> str:
        """Name of the privacy unit."""
        return self._unit

    def fingerprint(self, salt: bytes) -> str:
        """Identify the dataset: its records with their units, in any order."""
        return dataset_fingerprint(self._records(), salt)

    def count(self, candidates: Points, turn: int) -> Counts:
        """Count the votes of round `turn` (Algorithm 2). Private: for `release_votes` only."""
        speakers, owners = (None, None) if self._units is None else self._units.speakers(turn, self._speaking)
        winners = several_nearest(self._voters, candidates, self._votes_per_record, speakers)  # (speakers, votes)
        chosen = winners.ravel()
        if owners is not None:
            chosen = np.unique(np.stack([np.repeat(owners, winners.shape[1]), chosen]), axis=1)[1]
        return np.bincount(chosen, minlength=len(candidates)).astype(np.int64)

    def answer(self, questions: Questions, turn: int) -> Counts:
        """Count the answers of one record of each unit. Private: for `release_answers` only."""
        if self._encoded is None:
            self._encoded = questions.encode(self._content, self._private)
        speakers = None if self._units is None else self._units.speakers(turn, 1)[0]
        return questions.tally(self._encoded if speakers is None else self._encoded[speakers])

    def _records(self) -> Iterator[bytes]:
        if self._units is None:
            return (row.tobytes() for row in self._private)
        names = self._units.names
        return (row.tobytes() + name.encode() for row, name in zip(self._private, names, strict=True))


def records_speaking(votes_per_unit: int, votes_per_record: int, *, one_each: bool) -> int:
    """Return how many records of a unit vote per round, so that the unit casts `votes_per_unit` votes in total.

    `one_each` means that each record is a unit.
    """
    if min(votes_per_unit, votes_per_record) < 1 or votes_per_unit % votes_per_record:
        raise InputError(
            "votes_per_unit must be a multiple of votes_per_record, and both at least 1, got "
            f"{votes_per_unit} and {votes_per_record}; use equal numbers for one record per unit and round"
        )
    if one_each and votes_per_unit != votes_per_record:
        raise InputError(
            f"votes_per_unit must equal votes_per_record, {votes_per_record}, if each record is a unit, got "
            f"{votes_per_unit}; give units as well"
        )
    return votes_per_unit // votes_per_record


class _Units:
    """Rows grouped by the unit they belong to."""

    def __init__(self, units: Sequence[str] | Sequence[int] | NDArray[Any], rows: int) -> None:
        self._named = units if isinstance(units, np.ndarray) and units.dtype != object else _named(units)
        if len(self._named) != rows:
            raise InputError(
                f"units must have one entry for each of the {rows} records, got {len(self._named)}; name the unit of "
                "each record"
            )
        _, group = np.unique(self._named, return_inverse=True)
        self._rows = np.argsort(group, kind="stable")
        self._sizes = np.bincount(group)
        self._starts = np.cumsum(self._sizes) - self._sizes

    @property
    def names(self) -> list[str]:
        """The unit of each row."""
        return [str(name) for name in self._named.tolist()]

    def speakers(self, turn: int, most: int) -> tuple[Indices, Indices]:
        """Return the rows that vote in round `turn`, and the group of each."""
        groups = np.arange(len(self._sizes))
        first = (turn - 1) * most
        rows, owners = [], []
        for number in range(most):
            eligible = groups[self._sizes > number]
            offset = (first + number) % self._sizes[eligible]
            rows.append(self._rows[self._starts[eligible] + offset])
            owners.append(eligible)
        return np.concatenate(rows), np.concatenate(owners)


def _named(units: Iterable[Any]) -> NDArray[np.str_]:
    """Return the units as texts; 7 and 7.0 are one unit."""
    first: dict[str | int, str] = {}
    return np.array([first.setdefault(unit, str(unit)) for unit in units])
