"""Decoding many answers at once with any causal model: a batch of rows in the library's own cache."""

from collections.abc import Iterator
from typing import Any

from gape.language.gpu.sampling import Sampling, last_tokens
from gape.language.row import Ends, Row


class Batch:
    """Writes rows in parallel, and drops each row as soon as it is done. The cache grows with every token."""

    def __init__(self, torch: Any, transformers: Any, model: Any, accepted: set[str], sampling: Sampling) -> None:
        """Use a causal model whose forward accepts the arguments `accepted`."""
        self._torch, self._transformers, self._model = torch, transformers, model
        self._accepted, self._sampling = accepted, sampling

    def write(self, rows: list[Row], ends: Ends) -> Iterator[Row]:
        """Write the answers of a batch, yielding each as it is done."""
        torch, device = self._torch, self._model.device
        width, steps = max(len(row.prompt) for row in rows), max(row.limit for row in rows)
        ids = torch.zeros((len(rows), width), dtype=torch.long)
        mask = torch.zeros((len(rows), width), dtype=torch.long)
        draws = torch.zeros((len(rows), steps), dtype=torch.double)
        for i, row in enumerate(rows):
            row.tokens.clear()
            ids[i, width - len(row.prompt) :] = torch.tensor(row.prompt)
            mask[i, width - len(row.prompt) :] = 1
            draws[i, : row.limit] = torch.from_numpy(row.draws())
        temperatures = torch.tensor([row.temperature for row in rows], dtype=torch.double)
        recent = torch.tensor([last_tokens(row.prompt) for row in rows])
        ids, mask, draws, temperatures, recent = (
            tensor.to(device) for tensor in (ids, mask, draws, temperatures, recent)
        )
        cache = self._transformers.DynamicCache(config=self._model.config)
        for step in range(steps):
            logits = self._next(ids, mask, cache)
            ids, finite = self._sampling(torch, logits, temperatures, draws[:, step : step + 1], recent)  # (n, 1)
            recent = torch.cat([recent[:, 1:], ids], dim=1)
            if not finite.all():
                raise FloatingPointError
            for row, token in zip(rows, ids[:, 0].tolist(), strict=True):
                row.tokens.append(token)
                complete = len(row.tokens) >= row.enough and token in ends.of_sentences
                row.done = token in ends.of_answers or complete or len(row.tokens) == row.limit
                if row.done:
                    yield row
            going = [i for i, row in enumerate(rows) if not row.done]
            if not going:
                break
            if len(going) < len(rows):
                rows, keep = [rows[i] for i in going], torch.tensor(going, device=device)
                ids, mask, draws, temperatures, recent = (
                    tensor[keep] for tensor in (ids, mask, draws, temperatures, recent)
                )
                cache.reorder_cache(keep)
            mask = torch.cat([mask, mask.new_ones((len(ids), 1))], dim=1)

    def _next(self, ids: Any, mask: Any, cache: Any) -> Any:
        """Read tokens, (n, tokens), after those in the cache, and return the next logits, (n, vocabulary).

        `mask` is 0 where a row is padded, on the left; padding is not counted in positions.
        """
        given = {
            "input_ids": ids,
            "attention_mask": mask,
            "position_ids": (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :],
            "past_key_values": cache,
            "use_cache": True,
            "logits_to_keep": 1,
        }
        with self._torch.inference_mode():
            return self._model(**{key: value for key, value in given.items() if key in self._accepted}).logits[:, -1]
