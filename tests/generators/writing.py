"""A scripted writer: whole sentences that depend on the request alone, so that tests can tell who wrote what."""

import hashlib

import numpy as np

from gape.language.request import Request

SYLLABLES = ("ba", "do", "fi", "ga", "ke", "lu", "mo", "ne", "pi", "ro", "su", "ti", "va", "wo", "za")


def rng_of(request: Request) -> np.random.Generator:
    digest = hashlib.sha256(repr(request).encode()).digest()
    return np.random.default_rng(list(digest[:16]))


def sentence(rng: np.random.Generator) -> str:
    """Write nine words, most of them new."""
    first, second, third = ("".join(SYLLABLES[i] for i in rng.integers(len(SYLLABLES), size=4)) for _ in range(3))
    return f"The {first} near the {second} likes the {third}."


def write(request: Request) -> str:
    """Write six sentences; after an opening that ends within one, the end of that one first."""
    rng = rng_of(request)
    rest = " " if not request.opening or request.opening.endswith(".") else " and so on. "
    return rest + " ".join(sentence(rng) for _ in range(6))
