"""The only step that reads private data."""

import numpy as np

from gape._support.fingerprint import points_digest
from gape.core.errors import InputError, PrivacyError
from gape.core.protocols import Electorate, NoisyElectorate
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
) -> NoisyVotes:
    """Release nearest-candidate votes with discrete Gaussian noise (Algorithm 1, the two lines after VariationAPI).

    Replacing one privacy unit moves at most `votes_per_unit` votes: L2 sensitivity sqrt(2 votes_per_unit). The
    release is charged and on disk before it is returned. If this round was already paid for, its stored votes are
    returned, provided that the candidates have the same digest: `known_as`, or by default that of their points. The
    exact counts exist inside this function only. `candidates` is (v, d); the result is (v,).
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
    account.require((release,) * turn)
    if isinstance(electorate, NoisyElectorate):
        votes = electorate.noisy_count(candidates, turn, release.sigma)
        if votes.shape != (len(candidates),) or votes.dtype != np.int64:
            raise PrivacyError("the electorate did not return one noisy int64 count per candidate; fix noisy_count()")
        return account.charge(turn, digest, release, votes, secure=electorate.secure)
    noise = noise or SecureNoise()
    votes = _checked(electorate.count(candidates, turn), len(candidates))
    if release.sigma > 0:
        votes = noise.add(votes, release.sigma, turn)
    return account.charge(turn, digest, release, votes, secure=noise.secure)


def _checked(counts: Counts, bins: int) -> Counts:
    """Refuse counts that cannot be votes. The message must not contain them."""
    if counts.shape != (bins,) or counts.dtype != np.int64 or (counts < 0).any():
        raise PrivacyError("the electorate did not return one non-negative int64 count per candidate; fix count()")
    return counts
