"""Masks and sealed shares: key agreement by X25519, key derivation by HKDF-SHA256, expansion and sealing by ChaCha20.

Words are integers modulo 2^32, and a mask has one word of keystream per candidate. 2^32 is large enough: `Terms`
refuses a federation whose sums could exceed it, which takes millions of devices. 2^64 would double what a device sends
without protecting more.

A key is used once, for one purpose, in one round, between two seats, as named by `info`. Nonces can therefore be zero.
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

_ZERO_NONCE = bytes(12)


def public_key(private: bytes) -> bytes:
    """Return the X25519 public key of 32 private bytes."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def agree(private: bytes, public: bytes, info: bytes) -> bytes:
    """Agree with the owner of `public` on a key for the single purpose that `info` names."""
    try:
        shared = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError as error:  # a point of low order: its sender would know the shared key
        raise PrivacyError("a device's public key is not a valid X25519 key; leave that device out") from error
    return derive(shared, info)


def derive(secret: bytes, info: bytes) -> bytes:
    """Derive a key of 32 bytes for the single purpose that `info` names."""
    return HKDF(SHA256(), KEY_BYTES, salt=None, info=info).derive(secret)


def commitment(secret: bytes, info: bytes) -> bytes:
    """Commit to a uniform secret: the commitment reveals nothing about the secret, and fits no other."""
    return hashlib.sha256(b"commitment" + info + secret).digest()


def expand_key(key: bytes, count: int) -> Words:
    """Expand a key to `count` uniform words: a ChaCha20 keystream."""
    stream = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    return np.frombuffer(stream.update(bytes(WORD_BYTES * count)), dtype="<u4").astype(np.uint32)


def seal_shares(key: bytes, shares: bytes) -> bytes:
    """Encrypt and authenticate shares under a key that is never used again."""
    return ChaCha20Poly1305(key).encrypt(_ZERO_NONCE, shares, None)


def unseal_shares(key: bytes, sealed: bytes) -> bytes:
    """Decrypt what `seal_shares` returned, or refuse it."""
    try:
        return ChaCha20Poly1305(key).decrypt(_ZERO_NONCE, sealed, None)
    except InvalidTag as error:
        raise PrivacyError(
            "sealed shares do not open: they were changed, or made for another roster, round or federation; "
            "start the round again"
        ) from error


def to_words(values: NDArray[np.int64]) -> Words:
    """Reduce integers modulo 2^32."""
    return (values % MODULUS).astype(np.uint32)


def from_words(words: Words) -> NDArray[np.int64]:
    """Return the integers nearest to zero that the words represent."""
    return words.astype(np.int32).astype(np.int64)
