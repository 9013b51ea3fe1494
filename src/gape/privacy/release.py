"""The only step that reads private data."""

from collections.abc import Sequence

import numpy as np

from gape._support.fingerprint import points_digest
from gape.core.errors import InputError, PrivacyError
from gape.core.protocols import Electorate, NoisyElectorate, Questions, Respondents
from gape.core.types import Counts, NoisyVotes, Points
from gape.privacy.accounting import Release
from gape.privacy.ledger import Account
from gape.privacy.noise import Noise, SecureNoise
from gape.voting.nearest import check_points


def release_votes(
    electorate: Electorate,
    candidates: Points,
    turn: int,
    release: Release,
    account: Account,
    noise: Noise | None = None,
    known_as: str | None = None,
    before: Sequence[Release] = (),
) -> NoisyVotes:
    """Release nearest-candidate votes with discrete Gaussian noise (Algorithm 1, the two lines after VariationAPI).

    Replacing one privacy unit moves at most `votes_per_unit` votes: L2 sensitivity sqrt(2 votes_per_unit). The
    release is charged and on disk before it is returned. If this round was already paid for, its stored votes are
    returned, provided that the candidates have the same digest: `known_as`, or by default that of their points.
    `before` are the releases of a survey before the first round. The exact counts exist inside this function only.
    `candidates` is (v, d); the result is (v,).
    """
    candidates = check_points(candidates, "candidates")
    if candidates.shape[1] != electorate.dimension:
        raise InputError(
            f"candidates have {candidates.shape[1]} dimensions and the private embeddings {electorate.dimension}; "
            "embed both with the same model"
        )
    if release.votes_per_unit != electorate.votes_per_unit:
        raise PrivacyError(
            f"the plan accounts for {release.votes_per_unit} votes per {electorate.unit}, but "
            f"{electorate.votes_per_unit} are cast; make the plan with the electorate's votes_per_unit"
        )
    digest = known_as or points_digest(candidates)
    stored = account.stored(turn, digest)
    if stored is not None:
        return stored
    account.require((*before, *(release,) * turn))
    if isinstance(electorate, NoisyElectorate):
        votes = electorate.noisy_count(candidates, turn, release.sigma)
        if votes.shape != (len(candidates),) or votes.dtype != np.int64:
            raise PrivacyError("the electorate did not return one noisy int64 count per candidate; fix noisy_count()")
        return account.charge(turn, digest, release, votes, secure=electorate.secure)
    counts = _checked(electorate.count(candidates, turn), len(candidates))
    return _with_noise(counts, turn, digest, release, account, noise)


def release_answers(
    electorate: Electorate,
    questions: Questions,
    turn: int,
    planned: Sequence[Release],
    account: Account,
    noise: Noise | None = None,
) -> NoisyVotes:
    """Release the answers to a survey with discrete Gaussian noise, before the first round.

    One record of each privacy unit gives at most `votes_per_unit` answers, each counted in a different bin. Replacing
    it moves that many counts: L2 sensitivity sqrt(2 votes_per_unit). `planned` are the releases up to and including
    this one. It is charged and on disk before it is returned, and returned again if it was paid for. The exact counts
    exist inside this function only. The result is (bins,).
    """
    release = planned[-1]
    if questions.per_record > release.votes_per_unit:
        raise PrivacyError(
            f"the plan accounts for {release.votes_per_unit} answers per {electorate.unit}, but {questions.per_record} "
            "questions are asked; make the plan with the survey's per_record"
        )
    if not isinstance(electorate, Respondents):
        raise InputError("these records cannot answer a survey; make the plan without one")
    stored = account.stored(turn, questions.digest)
    if stored is not None:
        return stored
    account.require(planned)
    counts = _checked(electorate.answer(questions, turn), questions.bins)
    return _with_noise(counts, turn, questions.digest, release, account, noise)


def _with_noise(
    counts: Counts, turn: int, digest: str, release: Release, account: Account, noise: Noise | None
) -> NoisyVotes:
    noise = noise or SecureNoise()
    noisy = noise.add(counts, release.sigma, turn) if release.sigma > 0 else counts
    return account.charge(turn, digest, release, noisy, secure=noise.secure)


def _checked(counts: Counts, bins: int) -> Counts:
    """Refuse counts that cannot be votes or answers. The message must not contain them."""
    if counts.shape != (bins,) or counts.dtype != np.int64 or (counts < 0).any():
        raise PrivacyError(
            "the electorate did not return one non-negative int64 count per candidate or bin; fix count() or answer()"
        )
    return counts
