"""How the next token is drawn."""

from dataclasses import dataclass
from typing import Any

RECENT = 64  # tokens, of the prompt too
_BLOCKS = 192  # into which a vocabulary is cut to find its likeliest tokens


@dataclass(frozen=True)
class Sampling:
    """What is kept before the temperature.

    The `top_k` likeliest tokens (0: all), of these the `top_p` of the probability, and of these what has at least
    `min_p` of the likeliest one's; all that after tokens among the last `RECENT` were made less likely by
    `repeat_penalty`, which 1 leaves as they are.
    """

    top_k: int
    top_p: float
    min_p: float
    repeat_penalty: float = 1.0

    def __call__(self, torch: Any, logits: Any, temperatures: Any, draws: Any, recent: Any) -> tuple[Any, Any]:
        """Return one token for every row, (n, 1): where its draw, uniform on [0, 1), falls among the probabilities.

        And whether its probabilities are numbers, (n,). `draws` is (n, 1), and `recent` has the last tokens of each,
        (n, RECENT), with any of them repeated where there are fewer.
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
        # In the order of the vocabulary: that of equal or almost equal chances is a matter of rounding.
        tokens, order = tokens.sort(1)
        sums = tempered.gather(1, order).cumsum(1)
        wanted = (1 - draws) * sums[:, -1:]  # above 0, so a token without a chance is never the first
        place = torch.searchsorted(sums, wanted).clamp(max=kept - 1)  # beyond the last where there are no numbers
        return tokens.gather(1, place), ~tempered[:, 0].isnan()


def last_tokens(tokens: list[int]) -> list[int]:
    """Return the last `RECENT` tokens, the first of them repeated where there are fewer."""
    last = tokens[-RECENT:]
    return [last[0]] * (RECENT - len(last)) + last


def likeliest(logits: Any, kept: int) -> tuple[Any, Any]:
    """Return the `kept` largest logits of each row, the largest first, and whose they are.

    They lie in the `kept` blocks of the vocabulary with the largest maxima, which are soon found: on a GPU that takes a
    fraction of the time of looking for them among all.
    """
    rows, vocabulary = logits.shape
    width = -(-vocabulary // _BLOCKS)
    if not logits.is_cuda or kept * 2 > _BLOCKS or width * _BLOCKS != vocabulary:
        found: tuple[Any, Any] = logits.topk(kept)
        return found
    blocks = logits.view(rows, _BLOCKS, width)
    best = blocks.amax(2).topk(kept).indices  # (n, kept)
    inner = blocks.gather(1, best[:, :, None].expand(-1, -1, width)).view(rows, -1)
    values, places = inner.topk(kept)
    return values, best.gather(1, places // width) * width + places % width
