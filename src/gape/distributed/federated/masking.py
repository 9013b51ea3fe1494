"""Masks and sealed shares: X25519 agrees on keys, HKDF-SHA256 binds them, ChaCha20 expands and seals.

Words are integers modulo 2^32, and a mask is as many words of keystream as there are candidates. 2^32 is room enough:
`Terms` refuses a federation whose sums could leave it, which takes millions of devices. 2^64 would double what a
device sends and protect nothing more.

A key is used once, for one purpose, in one round, between two seats: that is what `info` says. So nonces can be zero.
"""

import hashlib
from typing import TypeAlias

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from numpy.typing import NDArray

from gape.core.errors import PrivacyError

Words: TypeAlias = NDArray[np.uint32]

MODULUS = 2**32
WORD_BYTES = 4
KEY_BYTES = 32

_ONCE = bytes(12)


def public_key(private: bytes) -> bytes:
    """Return the X25519 public key of 32 private bytes."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: bytes, public: bytes, info: bytes) -> bytes:
    """Agree with the owner of `public` on a key for the one purpose that `info` names."""
    try:
        shared = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:  # of low order: whoever sent it would know the outcome
        raise PrivacyError("a device's public key is not a valid X25519 key; leave that device out") from error
    return derive(shared, info)


def derive(secret: bytes, info: bytes) -> bytes:
    """Derive a key of 32 bytes for the one purpose that `info` names."""
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(secret)


def commitment(secret: bytes, info: bytes) -> bytes:
    """Commit to a uniform secret: it says nothing about the secret, and no other secret will fit."""
    return hashlib.sha256(b"commitment" + info + secret).digest()


def expand(key: bytes, count: int) -> Words:
    """Expand a key to `count` uniform words: a ChaCha20 keystream."""
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(WORD_BYTES * count)), dtype="<u4").astype(np.uint32)


def seal(key: bytes, text: bytes) -> bytes:
    """Encrypt and authenticate under a key that is never used again."""
    return ChaCha20Poly1305(key).encrypt(_ONCE, text, None)


def unseal(key: bytes, sealed: bytes) -> bytes:
    """Decrypt what `seal` made, or refuse it."""
    try:
        return ChaCha20Poly1305(key).decrypt(_ONCE, sealed, None)
    except InvalidTag as error:
        raise PrivacyError(
            "sealed shares do not open: they were changed, or made for another roster, round or federation; "
            "begin the round again"
        ) from error


def to_words(values: NDArray[np.int64]) -> Words:
    """Take integers modulo 2^32."""
    return (values % MODULUS).astype(np.uint32)


def from_words(words: Words) -> NDArray[np.int64]:
    """Read words as the integers nearest to zero that they stand for."""
    return words.astype(np.int32).astype(np.int64)
