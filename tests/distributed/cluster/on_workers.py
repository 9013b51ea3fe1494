"""What tests send to workers, which import it from here."""

import os
import signal
from dataclasses import dataclass

from gape.distributed.cluster.shards import Block
from gape.language.embedded import EmbeddedModel
from gape.language.request import LanguageModel
from gape.language.weights import SMOLLM2, fetch

SECRET = "Mrs Miller of Elm Street"  # noqa: S105  (no password)


@dataclass(frozen=True)
class Broken:
    """A shard whose reading fails as libraries do: with what they were given in the message."""

    node: None = None
    part: tuple[int, int] = (0, 1)

    def read(self) -> Block:
        raise KeyError(SECRET)


class Deadly(Broken):
    """A shard that kills whoever reads it."""

    def read(self) -> Block:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it lives")


def embedded() -> EmbeddedModel:
    return EmbeddedModel(fetch(SMOLLM2), slots=4, context=256)


def no_model() -> LanguageModel:
    raise ZeroDivisionError("division by zero")
