import secrets

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from gape.core.errors import PrivacyError
from gape.distributed.federated.device import pair_mask
from gape.distributed.federated.masking import (
    agree,
    commitment,
    derive,
    expand_key,
    from_words,
    public_key,
    seal_shares,
    to_words,
    unseal_shares,
)


def test_a_mask_is_the_keystream_of_the_standard() -> None:
    # RFC 8439, appendix A.1, test vector 1.
    expected = bytes.fromhex("76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7")
    assert expand_key(bytes(32), 8).astype("<u4").tobytes() == expected


def test_two_devices_agree_on_a_key_that_depends_on_its_purpose() -> None:
    one, other, third = (secrets.token_bytes(32) for _ in range(3))
    key = agree(one, public_key(other), b"purpose")
    assert key == agree(other, public_key(one), b"purpose")
    assert key != agree(one, public_key(other), b"another purpose")
    assert key != agree(third, public_key(other), b"purpose")
    assert derive(one, b"purpose") != derive(one, b"another purpose")
    assert commitment(one, b"session") != commitment(one, b"another session")


@pytest.mark.parametrize("public", [bytes(32), b"\x01" + bytes(31)])
def test_a_key_of_low_order_is_refused(public: bytes) -> None:
    with pytest.raises(PrivacyError, match="not a valid X25519 key"):
        agree(secrets.token_bytes(32), public, b"purpose")


def test_the_masks_of_a_pair_cancel() -> None:
    one, other = secrets.token_bytes(32), secrets.token_bytes(32)
    added = pair_mask(one, public_key(other), b"roster", 3, 8, 1000)
    taken = pair_mask(other, public_key(one), b"roster", 8, 3, 1000)
    assert not (added + taken).any()
    assert stats.kstest(added / 2.0**32, "uniform").pvalue > 1e-5
    for roster, seat in ((b"another", 8), (b"roster", 9)):
        assert (added + pair_mask(other, public_key(one), roster, seat, 3, 1000)).any()


@given(st.binary(max_size=100), st.integers(0, 10_000))
def test_what_was_sealed_opens_unchanged_or_not_at_all(text: bytes, place: int) -> None:
    key = secrets.token_bytes(32)
    sealed = seal_shares(key, text)
    assert unseal_shares(key, sealed) == text
    place %= 8 * len(sealed)
    changed = bytearray(sealed)
    changed[place // 8] ^= 1 << (place % 8)
    for wrong_key, wrong in ((key, bytes(changed)), (secrets.token_bytes(32), sealed), (key, sealed[:-1])):
        with pytest.raises(PrivacyError, match="do not open"):
            unseal_shares(wrong_key, wrong)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=50))
def test_words_stand_for_integers_and_for_their_sums(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    assert np.array_equal(from_words(to_words(array)), array)
    mask = expand_key(secrets.token_bytes(32), len(values))
    assert np.array_equal(from_words(to_words(array) + mask - mask), array)
    halves = to_words(array // 2) + to_words(array - array // 2)
    assert np.array_equal(from_words(halves), array)
