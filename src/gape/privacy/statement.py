"""The privacy statement of a run, as data and as text."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gape._support.html import as_paragraph
from gape.privacy.accounting import Neighbours, Release, spent, stated
from gape.privacy.ledger import Account

_REST = "Everything else is post-processing of these releases."
_REST_BEFORE = "All else is post-processing."

_RELATIONS: dict[Neighbours, tuple[str, str]] = {
    "replace": ("replace-one", "replacing one {unit} by another"),
    "add_remove": ("add-or-remove-one", "adding or removing one {unit}"),
}


def relation_in_words(neighbours: Neighbours, unit: str, *, named: bool = False) -> str:
    """Say how neighbouring datasets differ, with the usual name of the relation in front if `named`."""
    name, difference = _RELATIONS[neighbours]
    words = difference.format(unit=unit)
    return f"{name}: {words}" if named else words


@dataclass(frozen=True)
class PrivacyStatement:
    """The privacy guarantee of a synthetic dataset, computed from the releases that were actually made."""

    private: bool
    epsilon: float  # of this run; infinite if there was no noise
    delta: float
    neighbours: Neighbours
    unit: str
    sigma: tuple[float, ...]  # of each release, in votes
    votes_per_unit: int
    secure_noise: bool
    dataset_epsilon: float  # of all releases about the dataset in its ledger
    ledger: str = ""  # the beginning of that ledger's id; empty if none was kept
    answers: tuple[int, ...] = ()  # per unit, to each release of a survey; these come before the votes

    @property
    def releases(self) -> tuple[Release, ...]:
        """All releases of the run, in their order."""
        counts = (*self.answers, *[self.votes_per_unit] * (len(self.sigma) - len(self.answers)))
        pairs = zip(self.sigma, counts[: len(self.sigma)], strict=True)
        return tuple(Release(sigma, self.neighbours, count) for sigma, count in pairs)

    @property
    def headline(self) -> str:
        """The guarantee in a few words, for a title."""
        return f"epsilon {stated(self.epsilon, 3)}" if self.private else "NOT PRIVATE"

    @property
    def in_total(self) -> str:
        """The known cost of all releases about the dataset, for a table."""
        if not self.ledger:
            return "not known: no ledger was kept"
        if math.isinf(self.dataset_epsilon):
            return f"no guarantee together, because another one has none, by the ledger {self.ledger}"
        return f"epsilon {stated(self.dataset_epsilon)} at the same delta, up to this one, by the ledger {self.ledger}"

    @property
    def _together(self) -> str:
        """The known cost of all releases about the dataset, in a sentence or two."""
        if not self.ledger:
            return (
                "No ledger was kept: what other releases about this dataset have cost is not known, and adds to this."
            )
        if math.isinf(self.dataset_epsilon):
            return (
                f"By the ledger {self.ledger}, another release about this dataset has no guarantee, so all of them "
                "together have none."
            )
        return (
            f"By the ledger {self.ledger}, all releases about this dataset so far add up to epsilon "
            f"{stated(self.dataset_epsilon)} at the same delta; releases that it does not record would add to that."
        )

    @property
    def _mechanism(self) -> str:
        """The releases in words."""
        rounds = len(self.sigma) - len(self.answers)
        votes = "one vote" if self.votes_per_unit == 1 else f"{self.votes_per_unit} votes"
        cast = f"{_adaptive(rounds)} of nearest-candidate votes, at most {votes} per {self.unit} and release"
        if not self.answers:
            return cast
        most = sum(self.answers)
        answers = "one answer" if most == 1 else f"{most} answers"
        asked = (
            f"{_adaptive(len(self.answers))} of the answers to public questions, at most {answers} per {self.unit} in "
            "total"
        )
        return f"{asked}, and {cast}" if rounds else asked

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        return as_paragraph(self.text(), alarming=not self.private)

    def text(self) -> str:
        """Return the guarantee as a paragraph that a privacy officer can check."""
        if not self.private:
            reasons = {
                "its votes were released without noise": math.isinf(self.epsilon),
                "its noise came from a known seed, which only tests should use": not self.secure_noise,
            }
            reason = " and ".join(words for words, applies in reasons.items() if applies)
            return f"NOT PRIVATE: this run gives no privacy guarantee, because {reason}. Do not publish its output."
        relation = relation_in_words(self.neighbours, self.unit)
        scales = sorted(set(self.sigma))
        sigma = " and ".join(f"{scale:g}" for scale in scales)
        epsilon, delta = map(stated, (self.epsilon, self.delta))
        # Under "add_remove" neighbours differ in the number of units, so it is not public.
        counted = f"the number of {self.unit}s, " if self.neighbours == "replace" else ""
        return (
            f"This synthetic dataset is ({epsilon}, {delta})-differentially private: {relation} in the private data "
            f"makes no outcome more likely than e^{epsilon} times what it was, plus {delta}. "
            f"Mechanism: {self._mechanism}, with discrete Gaussian noise of scale {sigma} from a secure source. "
            f"{_REST} {self._together} Taken as public: {counted}the settings of the run, the "
            "generator and the embedding model."
        )

    def is_stored_as(self, stored: str) -> bool:
        """Whether a stored file holds this paragraph, as worded now or, in runs made before, as it was."""
        return stored in (f"{self.text()}\n", f"{self.text().replace(_REST, _REST_BEFORE)}\n")


def _adaptive(releases: int) -> str:
    return "one release" if releases == 1 else f"{releases} adaptive releases"


def privacy_statement(account: Account, delta: float, unit: str) -> PrivacyStatement:
    """State what the releases of a run cost, from the ledger."""
    releases = account.ledger.releases(account.run)
    surveyed = account.ledger.surveyed(account.run)
    epsilon = spent(releases, delta)
    secure = account.ledger.secure(account.run)
    return PrivacyStatement(
        private=secure and math.isfinite(epsilon),
        epsilon=epsilon,
        delta=delta,
        neighbours=account.ledger.budget.neighbours,
        unit=unit,
        sigma=tuple(release.sigma for release in releases),
        votes_per_unit=max((release.votes_per_unit for release in releases[surveyed:]), default=1),
        answers=tuple(release.votes_per_unit for release in releases[:surveyed]),
        secure_noise=secure,
        dataset_epsilon=account.ledger.total(delta),
        ledger=account.ledger.mark,
    )
