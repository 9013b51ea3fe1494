"""Sampling of the next token."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

RECENT = 64  # tokens, including those of the prompt


@dataclass(frozen=True)
class Sampling:
    """The tokens that are kept before the temperature is applied.

    First, tokens among the last `RECENT` are made less likely by `repeat_penalty`, where 1 means no change. Then the
    `top_k` likeliest tokens are kept (0: all), of these the `top_p` of the probability mass, and of these the tokens
    with at least `min_p` times the largest probability.
    """

    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float = 1.0

    def __call__(self, torch: Any, logits: Any, temperatures: Any, draws: Any, recent: Any) -> tuple[Any, Any]:
        """Return one token per row, (n, 1), by inverting the cumulative probabilities at its draw from [0, 1).

        Also returned is whether the probabilities are finite, (n,). `draws` is (n, 1), and `recent` contains the last
        tokens of each row, (n, RECENT), with repetitions if there are fewer.
        """
        if self.repeat_penalty != 1:
            seen = logits.gather(1, recent)
            weaker = torch.where(seen > 0, seen / self.repeat_penalty, seen * self.repeat_penalty)
            logits = logits.scatter(1, recent, weaker)
        kept = min(self.top_k or logits.shape[1], logits.shape[1])
        values, tokens = likeliest(logits, kept)
        values = values.double()
        chances = values.softmax(1)
        out = (chances.cumsum(1) - chances >= self.top_p) | (chances < self.min_p * chances[:, :1])
        tempered = ((values - values[:, :1]) / temperatures[:, None]).masked_fill(out, -torch.inf).softmax(1)
        # In the order of the vocabulary, because the order of almost equal probabilities depends on rounding.
        tokens, order = tokens.sort(1)
        sums = tempered.gather(1, order).cumsum(1)
        wanted = (1 - draws) * sums[:, -1:]  # above 0, so a token of probability 0 is never drawn
        rank = torch.searchsorted(sums, wanted).clamp(max=kept - 1)  # beyond the last if they are not finite
        return tokens.gather(1, rank), ~tempered[:, 0].isnan()


def last_tokens(tokens: list[int]) -> list[int]:
    """Return the last `RECENT` tokens, with the first of them repeated if there are fewer."""
    last = tokens[-RECENT:]
    return [last[0]] * (RECENT - len(last)) + last


def likeliest(logits: Any, kept: int) -> tuple[Any, Any]:
    """Return the `kept` largest logits of each row, largest first, and their tokens.

    They are in the `kept` blocks of the vocabulary with the largest maxima. On a GPU, searching these blocks takes a
    fraction of the time of searching the whole vocabulary. Tokens of a block are far apart, because maxima of columns
    are found several times as fast as those of short rows.
    """
    rows, vocabulary = logits.shape
    width = block_width(vocabulary, kept)
    if not logits.is_cuda or width == 1:
        top: tuple[Any, Any] = logits.topk(kept)
        return top
    blocks = logits.view(rows, width, -1)
    best = blocks.amax(1).topk(kept).indices  # (n, kept)
    inner = blocks.gather(2, best[:, None, :].expand(-1, width, -1)).view(rows, -1)
    values, positions = inner.topk(kept)
    return values, best.gather(1, positions % kept) + positions // kept * (vocabulary // width)


@lru_cache
def block_width(vocabulary: int, kept: int) -> int:
    """Return the width of the blocks with which the fewest values are searched: all maxima, and the kept blocks.

    It divides the vocabulary, and is 1 if blocks would save less than half.
    """
    widths = [width for width in range(2, vocabulary // kept + 1) if vocabulary % width == 0]
    searched = {width: vocabulary // width + kept * width for width in widths}
    best = min(searched, key=searched.__getitem__, default=1)
    return best if best > 1 and 2 * searched[best] <= vocabulary else 1
