"""A check of surveys: how many counts one unit moves in each release."""

import math
from collections.abc import Sequence
from contextlib import closing

import numpy as np

from gape.audit.checks import Check
from gape.core.protocols import Questions
from gape.core.types import NoisyVotes
from gape.modalities import Rehearsal, known_kinds
from gape.privacy.accounting import Neighbours, Release
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.release import release_answers
from gape.voting.electorate import LocalElectorate

_OWN = 3  # records of the unit that is replaced, if a unit is a user
_SIGMA = 5.0  # stated to the survey, which decides by it what to ask


def check_answers(neighbours: Neighbours) -> Check:
    """Whether replacing, adding or removing one unit moves at most as many answers as the accounting assumes.

    Every kind of records that answers a survey is tried with made-up ones. The answers are counted by the release step
    without noise, which is harmless for them.
    """
    most, largest, passed = 0, 0, True
    for rehearsal in filter(None, (kind.rehearsal() for kind in known_kinds())):
        planned = rehearsal.answers
        for users in (False, True):
            answers: list[NoisyVotes] = []
            for number in range(1, len(planned) + 1):
                questions = rehearsal.survey.questions(answers, _SIGMA, planned[number - 1])
                releases = [Release(0.0, neighbours, count) for count in planned[:number]]
                turn = number - len(planned)
                changed = "other" if neighbours == "replace" else "none"
                own, other = (
                    _without_noise(_respondents(rehearsal, unit, users=users), questions, turn, releases)
                    for unit in ("one", changed)
                )
                moved = np.abs(own - other)
                passed &= int((moved > 0).sum()) <= releases[-1].unit_shifts and int(moved.max()) <= 1
                most, largest = max(most, int((moved > 0).sum())), max(largest, int(moved.max()))
                answers.append(own)
    rule = "" if passed else "; the accounting assumes fewer, or by 1"
    return Check("answers", passed, f"one unit moves {most} counts of a survey by at most {largest}{rule}")


def _respondents(rehearsal: Rehearsal, unit: str, *, users: bool) -> LocalElectorate:
    """Return made-up records, beside those of one unit."""
    own = {"one": rehearsal.one, "other": rehearsal.other, "none": rehearsal.one[:0]}[unit]
    own = np.repeat(own, _OWN if users else 1, axis=0)
    content = np.concatenate([own, rehearsal.records])
    units = ["canary"] * len(own) + [str(number) for number in range(len(rehearsal.records))] if users else None
    return LocalElectorate(rehearsal.embedder.embed(content), units=units, content=content)


def _without_noise(
    electorate: LocalElectorate, questions: Questions, turn: int, planned: Sequence[Release]
) -> NoisyVotes:
    with closing(Ledger(":memory:", Budget(math.inf, 0.5, planned[-1].neighbours))) as ledger:
        return release_answers(electorate, questions, turn, planned, Account(ledger, "audit"))
