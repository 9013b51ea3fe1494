import itertools
import secrets

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gape.core.errors import InputError
from gape.distributed.federated import shamir


def is_prime(number: int) -> bool:
    """Miller and Rabin's test with 40 random bases."""
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for _ in range(40):
        power = pow(2 + secrets.randbelow(number - 3), odd, number)
        if power not in {1, number - 1} and all(
            (power := power * power % number) != number - 1 for _ in range(twos - 1)
        ):
            return False
    return True


def test_the_modulus_is_the_least_prime_above_every_secret() -> None:
    assert is_prime(shamir.PRIME)
    assert not any(is_prime(number) for number in range(2**256, shamir.PRIME))


@given(
    secret=st.binary(min_size=32, max_size=32),
    seats=st.lists(st.integers(1, 2**32 - 1), min_size=1, max_size=12, unique=True),
    data=st.data(),
)
def test_enough_shares_restore_the_secret(secret: bytes, seats: list[int], data: st.DataObject) -> None:
    threshold = data.draw(st.integers(1, len(seats)))
    shares = shamir.split(secret, seats, threshold)
    chosen = data.draw(st.permutations(seats))[: data.draw(st.integers(threshold, len(seats)))]
    assert shamir.reconstruct({seat: shares[seat] for seat in chosen}, threshold) == secret


def test_every_subset_of_the_right_size_restores_and_no_smaller_one() -> None:
    secret = secrets.token_bytes(32)
    shares = shamir.split(secret, range(1, 7), 4)
    for size in range(7):
        for chosen in itertools.combinations(shares, size):
            some = {seat: shares[seat] for seat in chosen}
            if size >= 4:
                assert shamir.reconstruct(some, 4) == secret
            else:
                with pytest.raises(InputError, match="cannot restore"):
                    shamir.reconstruct(some, 4)


@pytest.mark.parametrize("secret", [bytes(32), b"\xff" * 32])
def test_fewer_shares_than_the_threshold_are_uniform_whatever_the_secret(secret: bytes) -> None:
    pairs = [shamir.split(secret, (1, 2, 3), 3) for _ in range(4000)]
    # The first byte of a share is that above 2^256, nearly always 0; the two after it are uniform, and independent.
    cells = [16 * (pair[1][1] >> 4) + (pair[2][1] >> 4) for pair in pairs]
    assert stats.chisquare(np.bincount(cells, minlength=256)).pvalue > 1e-5


def test_shares_of_one_secret_and_another_do_not_give_either() -> None:
    first, second = (shamir.split(bytes([value]) * 32, (1, 2, 3), 3) for value in (1, 2))
    try:
        joined = shamir.reconstruct({1: first[1], 2: first[2], 3: second[3]}, 3)
    except InputError:  # above 2^256: it happens once in 2^247
        return
    assert joined not in {b"\x01" * 32, b"\x02" * 32}


@pytest.mark.parametrize(
    ("secret", "seats", "threshold", "words"),
    [
        (b"short", (1, 2), 2, "32 bytes"),
        (bytes(32), (1, 1), 2, "different"),
        (bytes(32), (0, 1), 2, "between 1"),
        (bytes(32), (1, 2), 3, "threshold"),
        (bytes(32), (1, 2), 0, "threshold"),
    ],
)
def test_what_cannot_be_shared_is_refused(secret: bytes, seats: tuple[int, ...], threshold: int, words: str) -> None:
    with pytest.raises(InputError, match=words):
        shamir.split(secret, seats, threshold)
