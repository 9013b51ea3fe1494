"""A real language model of 1 MB, and requests to it."""

from functools import cache
from pathlib import Path

from gape.language.request import Completion, Request
from gape.language.transformers import TransformersModel

FOLDER = Path(__file__).parent / "data" / "stories260K"
# Prompts, limits and temperatures all differ, so that batches are padded and rows end one after another.
MIXED = [
    Request(
        "One day " + "a big red dog and " * (i * 5 % 7),
        opening="Lily " * (i % 3),
        max_tokens=5 + 7 * (i % 4),
        temperature=(0.0, 0.3, 1.0)[i % 3],
        seed=i,
    )
    for i in range(13)
]


@cache
def model(batch: int = 4) -> TransformersModel:
    import torch  # noqa: PLC0415  (heavy)

    torch.set_num_threads(1)
    return TransformersModel(FOLDER, device="cpu", batch=batch)


def answers(*requests: Request, by: TransformersModel | None = None) -> list[Completion]:
    done = dict((by or model()).complete(requests))
    return [done[place] for place in range(len(requests))]


def tokens(text: str, *, special: bool = True) -> list[int]:
    ids: list[int] = model()._tokenizer.encode(text, add_special_tokens=special)
    return ids
