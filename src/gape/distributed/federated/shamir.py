"""Shamir's secret sharing: any t of the shares determine the secret, and fewer reveal nothing about it.

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
    """Split a secret of 32 bytes among distinct positive `seats`, so that any `threshold` of them can restore it."""
    if len(secret) != SECRET_BYTES:
        raise InputError(f"a secret must have {SECRET_BYTES} bytes, got {len(secret)}")
    if len(set(seats)) < len(seats) or not all(0 < seat < 2**32 for seat in seats):
        raise InputError("seats must be different numbers between 1 and 2^32 - 1")
    if not 1 <= threshold <= len(seats):
        raise InputError(f"the threshold must lie between 1 and the {len(seats)} seats, got {threshold}")
    polynomial = [int.from_bytes(secret), *(secrets.randbelow(PRIME) for _ in range(threshold - 1))]
    return {seat: _value(polynomial, seat).to_bytes(SHARE_BYTES) for seat in seats}


def weights(seats: Sequence[int]) -> list[int]:
    """Return the Lagrange weights at zero for these seats; they apply to every secret shared among them."""
    lagrange = []
    for seat in seats:
        numerator, denominator = 1, 1
        for other in seats:
            if other != seat:
                numerator = numerator * other % PRIME
                denominator = denominator * (other - seat) % PRIME
        lagrange.append(numerator * pow(denominator, -1, PRIME) % PRIME)
    return lagrange


def reconstruct(shares: Mapping[int, bytes], threshold: int, lagrange: Sequence[int] | None = None) -> bytes:
    """Restore a secret from at least `threshold` shares by seat; `lagrange` are the weights of these seats, if known.

    Too few shares are refused. Wrong shares give another secret or an error, so the caller must check the secret.
    """
    if len(shares) < threshold:
        raise InputError(f"{len(shares)} shares cannot restore a secret that needs {threshold}; collect more")
    factors = weights(list(shares)) if lagrange is None else lagrange
    values = (int.from_bytes(share) for share in shares.values())
    secret = sum(factor * value for factor, value in zip(factors, values, strict=True)) % PRIME
    if secret >= 2 ** (8 * SECRET_BYTES):
        raise InputError("the shares do not belong to the same secret; request them again")
    return secret.to_bytes(SECRET_BYTES)


def _value(polynomial: Sequence[int], at: int) -> int:
    value = 0
    for coefficient in reversed(polynomial):
        value = (value * at + coefficient) % PRIME
    return value
