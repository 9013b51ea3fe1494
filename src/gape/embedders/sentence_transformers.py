"""Any sentence embedder of the sentence-transformers library, on the CPU or GPU of this machine."""

from collections import defaultdict
from collections.abc import Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np

from gape._support.memory import Pressure, refuse_full
from gape._support.silence import hub_unused_for
from gape.core.errors import InputError, in_one_line
from gape.core.types import Floats, Points, Samples
from gape.embedders.watched import Listener, nobody
from gape.language.gpu.slots import record
from gape.language.transformers import weights_digest

_PUBLIC = 256  # texts per batch if none is private


class SentenceTransformer:
    """A model from a folder or from the hub: texts to unit vectors, (n, d). The texts stay on this machine.

    The same texts get the same vectors on the same machine, in any order, and equal texts get equal vectors. With
    `batch` 1 a text's vector depends only on the text, and the privacy of votes relies on that. In larger batches its
    last bits depend on the others too, because their number and longest text change the order of sums, so replacing one
    private record could move another's vote. Larger batches are for public texts only. Text beyond the model's own
    limit is not read. On a GPU, the computation is recorded once for each length and replayed, with the same result.
    """

    def __init__(self, model: str | Path, *, device: str | None = None, batch: int = 1) -> None:
        """Load `model`, a folder or a name on the hub, in float32, onto `device`, by default a GPU if there is one."""
        if batch < 1:
            raise InputError(f"batch must be at least 1, got {batch}; use 1 for private texts")
        try:
            import sentence_transformers  # noqa: PLC0415  (heavy, and in an extra)
            import torch  # noqa: PLC0415  (likewise)
        except ImportError as error:
            raise InputError(
                f"the embedder st needs sentence-transformers ({error}); run `pip install 'gape[st]'`"
            ) from error
        try:
            with hub_unused_for(model) as local:
                loaded: Any = sentence_transformers.SentenceTransformer(
                    str(model), device=device, local_files_only=local
                )
            self._model = loaded.float().eval()
        except Exception as error:  # any error of the libraries or the files
            refuse_full(error, model)
            raise InputError(
                f"sentence-transformers cannot load {model} ({in_one_line(error)}); give the folder of such a model, "
                "or its name on the hub"
            ) from error
        self.batch, self._torch = batch, torch
        self._tell: Listener = nobody
        # Modules without weights, such as the pooling, and the default prompt change the embedding too.
        rest = [f"{type(part).__name__} {part.get_config_dict()}" for part in self._model if not part.state_dict()]
        prompt = self._model.prompts.get(self._model.default_prompt_name, "")
        self._weights = weights_digest(self._model, "\n".join([*rest, prompt]))

    def __repr__(self) -> str:
        return f"SentenceTransformer(weights={self._weights}, max_tokens={self._model.max_seq_length})"

    def for_public_samples(self) -> "SentenceTransformer":
        """Return the same model with larger batches, which are faster on a GPU."""
        other = copy(self)
        other.batch = max(self.batch, _PUBLIC)
        return other

    def watched(self, tell: Listener) -> "SentenceTransformer":
        """Return the same model, reporting its progress on texts that it embeds one by one to `tell`."""
        other = copy(self)
        other._tell = tell
        return other

    def embed(self, samples: Samples) -> Points:
        """Embed texts, (n,), as float32 rows of length 1, (n, d); a zero row of the model stays zero."""
        if samples.ndim != 1 or not all(isinstance(text, str) for text in samples):
            raise InputError(
                f"{self!r} embeds texts, got an array of {samples.dtype} of shape {samples.shape}; pass only strings"
            )
        if not len(samples):
            return np.empty((0, self._model.get_embedding_dimension()), dtype=np.float32)
        # Tokenizers refuse lone surrogates, which broken files contain.
        texts = [text.encode(errors="replace").decode() for text in samples]
        index = {
            text: i for i, text in enumerate(sorted(set(texts)))
        }  # sorted, so that the order of samples is ignored
        rows = self._one_by_one(list(index)) if self.batch == 1 else self._in_batches(list(index))
        if not np.isfinite(rows).all():
            raise InputError(f"{self!r} returns embeddings that are not finite; use another model")
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        points: Points = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        return points[[index[text] for text in texts]]

    def _in_batches(self, texts: list[str]) -> Floats:
        pressure = Pressure(self.batch, "an embedding")
        while True:
            try:
                # The library itself sorts texts by length, so that a batch has little padding.
                encoded = self._model.encode(texts, batch_size=pressure.batch, show_progress_bar=False)
            except RuntimeError as error:
                pressure.relieve(error, len(texts))
            else:
                rows: Floats = encoded.astype(np.float64)
                return rows

    def _one_by_one(self, texts: list[str]) -> Floats:
        """Embed texts like the library, but one by one, grouped by length."""
        torch, model = self._torch, self._model
        prompt = model.prompts.get(model.default_prompt_name)
        of_length: dict[int, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        for index, text in enumerate(texts):
            features = model.preprocess([text], prompt=prompt)
            of_length[features["input_ids"].shape[1]].append((index, features))
        rows = np.empty((len(texts), model.get_embedding_dimension()))
        with torch.inference_mode():
            done = 0
            for group in of_length.values():
                indices, group_features = zip(*group, strict=True)
                rows[list(indices)] = self._where_it_fits(group_features)
                done += len(group)
                self._tell(done, len(texts))
        return rows

    def _where_it_fits(self, features: Sequence[dict[str, Any]]) -> Floats:
        """Embed texts of one length, one by one. If the device is full, fewer of them are kept there at once."""
        pressure, rows = Pressure(len(features), "an embedding"), list[Floats]()
        while (done := sum(map(len, rows))) < len(features):
            batch = features[done : done + pressure.batch]
            try:
                rows.append(self._of_one_length(batch).double().cpu().numpy())
            except RuntimeError as error:
                pressure.relieve(error, len(batch))
        return np.concatenate(rows)

    def _of_one_length(self, features: Sequence[dict[str, Any]]) -> Any:
        torch, model = self._torch, self._model
        names = [name for name, values in features[0].items() if isinstance(values, torch.Tensor)]
        tensors = {name: torch.cat([feature[name] for feature in features]).to(model.device) for name in names}
        given = features[0] | {name: values[:1].clone() for name, values in tensors.items()}
        made: dict[str, Any] = {}

        def embed() -> None:
            made.update(model(dict(given)))

        embed()  # warm-up
        # Recorded even for a single text: its computation must not depend on the number of others.
        repeat = record(torch, embed) if model.device.type == "cuda" else embed
        rows = torch.empty((len(features), model.get_embedding_dimension()), device=model.device)
        for index, row in enumerate(rows):
            for name, values in tensors.items():
                given[name].copy_(values[index : index + 1])
            repeat()
            row.copy_(made["sentence_embedding"][0, : len(row)])
        return rows
