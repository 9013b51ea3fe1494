"""Shamir's secret sharing: any t of the shares give the secret, fewer say nothing about it at all.

A secret of 32 bytes is the constant term of a random polynomial of degree t - 1 over the integers modulo the prime
2^256 + 297; the share of seat x is its value there.
"""

import secrets
from collections.abc import Mapping, Sequence

from gape.core.errors import InputError

PRIME = 2**256 + 297
SECRET_BYTES = 32
SHARE_BYTES = 33


def split(secret: bytes, seats: Sequence[int], threshold: int) -> dict[int, bytes]:
    """Share a secret of 32 bytes among `seats`, different and positive, so that `threshold` of them can restore it."""
    if len(secret) != SECRET_BYTES:
        raise InputError(f"a secret has {SECRET_BYTES} bytes, got {len(secret)}")
    if len(set(seats)) < len(seats) or not all(0 < seat < 2**32 for seat in seats):
        raise InputError("seats must be different numbers between 1 and 2^32 - 1")
    if not 1 <= threshold <= len(seats):
        raise InputError(f"the threshold must lie between 1 and the {len(seats)} seats, got {threshold}")
    polynomial = [int.from_bytes(secret), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return {seat: _value(polynomial, seat).to_bytes(SHARE_BYTES) for seat in seats}


def weights(seats: Sequence[int]) -> list[int]:
    """Return Lagrange's weights at zero for these seats: they serve every secret shared among them."""
    found = []
    for seat in seats:
        above, below = 1, 1
        for other in seats:
            if other != seat:
                above = above * other % PRIME
                below = below * (other - seat) % PRIME
        found.append(above * pow(below, -1, PRIME) % PRIME)
    return found


def join(shares: Mapping[int, bytes], threshold: int, lagrange: Sequence[int] | None = None) -> bytes:
    """Restore a secret from shares by seat, at least `threshold` of them; `lagrange` are the weights of all, if known.

    Too few shares are refused. Wrong ones give another secret, or none: the caller has to know how to tell.
    """
    if len(shares) < threshold:
        raise InputError(f"{len(shares)} shares cannot restore a secret that needs {threshold}; collect more")
    factors = weights(list(shares)) if lagrange is None else lagrange
    values = (int.from_bytes(share) for share in shares.values())
    secret = sum(factor * value for factor, value in zip(factors, values, strict=True)) % PRIME
    if secret >= 2 ** (8 * SECRET_BYTES):
        raise InputError("the shares do not belong to one secret; ask for them again")
    return secret.to_bytes(SECRET_BYTES)


def _value(polynomial: Sequence[int], at: int) -> int:
    value = 0
    for coefficient in reversed(polynomial):
        value = (value * at + coefficient) % PRIME
    return value
