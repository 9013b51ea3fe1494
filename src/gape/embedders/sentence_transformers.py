"""Any sentence embedder of the sentence-transformers library, on this machine's processor or GPU."""

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

_PUBLIC = 256  # texts at once where none is private


class SentenceTransformer:
    """A model of a folder or of the hub: texts to unit vectors, (n, d); the texts stay on this machine.

    The same texts get the same vectors on the same machine, in whatever order they come, and equal texts equal ones.
    With `batch` 1 a text's vector depends on the text alone, which the privacy of votes rests on: in larger batches its
    last bits depend on the others too, as their number and longest text change the order of sums, so that replacing one
    private record could move another's vote. They are for public texts. Text beyond the model's own limit is not read.
    On a GPU, what a text goes through is recorded once for each length and repeated, which does not change what it is.
    """

    def __init__(self, model: str | Path, *, device: str | None = None, batch: int = 1) -> None:
        """Load `model`, a folder or a name on the hub, in float32, onto `device`, by default a GPU if there is one."""
        if batch < 1:
            raise InputError(f"batch must be at least 1, got {batch}")
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
        except Exception as error:  # whatever the libraries and the files raise
            refuse_full(error, model)
            raise InputError(
                f"sentence-transformers cannot load {model} ({in_one_line(error)}); name the folder of such a model, "
                "or one of the hub"
            ) from error
        self.batch, self._torch = batch, torch
        self._tell: Listener = nobody
        # Modules without weights, such as the pooling, and the default prompt make another embedding of the same model.
        rest = [f"{type(part).__name__} {part.get_config_dict()}" for part in self._model if not part.state_dict()]
        prompt = self._model.prompts.get(self._model.default_prompt_name, "")
        self._weights = weights_digest(self._model, "\n".join([*rest, prompt]))

    def __repr__(self) -> str:
        return f"SentenceTransformer(weights={self._weights}, max_tokens={self._model.max_seq_length})"

    def for_public_texts(self) -> "SentenceTransformer":
        """Return the same model with batches that a GPU is fast with."""
        other = copy(self)
        other.batch = max(self.batch, _PUBLIC)
        return other

    def watched(self, tell: Listener) -> "SentenceTransformer":
        """Return the same model with somebody told how far it is with texts that it takes one by one."""
        other = copy(self)
        other._tell = tell
        return other

    def embed(self, samples: Samples) -> Points:
        """Embed texts, (n,), as float32 rows of length 1, (n, d); a row that the model makes zero stays so."""
        if samples.ndim != 1 or not all(isinstance(text, str) for text in samples):
            raise InputError(f"{self!r} embeds a list of texts, got an array of {samples.dtype} of {samples.shape}")
        if not len(samples):
            return np.empty((0, self._model.get_embedding_dimension()), dtype=np.float32)
        # Half a surrogate pair, which broken files contain, is no character that a tokenizer would take.
        texts = [text.encode(errors="replace").decode() for text in samples]
        places = {text: place for place, text in enumerate(sorted(set(texts)))}  # one order, whatever they came in
        rows = self._one_by_one(list(places)) if self.batch == 1 else self._in_batches(list(places))
        if not np.isfinite(rows).all():
            raise InputError(f"{self!r} gives embeddings that are not finite; use another model")
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        points: Points = (rows / np.where(lengths > 0, lengths, 1)).astype(np.float32)
        return points[[places[text] for text in texts]]

    def _in_batches(self, texts: list[str]) -> Floats:
        pressure = Pressure(self.batch, "an embedding")
        while True:
            try:
                # The library sorts them by length itself, so that a batch has little padding.
                found = self._model.encode(texts, batch_size=pressure.batch, show_progress_bar=False)
            except RuntimeError as error:
                pressure.relieve(error, len(texts))
            else:
                rows: Floats = found.astype(np.float64)
                return rows

    def _one_by_one(self, texts: list[str]) -> Floats:
        """Embed texts as the library does, each by itself, those of a length one after the other."""
        torch, model = self._torch, self._model
        prompt = model.prompts.get(model.default_prompt_name)
        of_length: dict[int, list[tuple[int, dict[str, Any]]]] = defaultdict(list)
        for place, text in enumerate(texts):
            features = model.preprocess([text], prompt=prompt)
            of_length[features["input_ids"].shape[1]].append((place, features))
        rows = np.empty((len(texts), model.get_embedding_dimension()))
        with torch.inference_mode():
            done = 0
            for some in of_length.values():
                places, each = zip(*some, strict=True)
                rows[list(places)] = self._where_it_fits(each)
                done += len(some)
                self._tell(done, len(texts))
        return rows

    def _where_it_fits(self, features: Sequence[dict[str, Any]]) -> Floats:
        """Embed texts of one length, each by itself; where the device is full, fewer of them are held there at once."""
        pressure, rows = Pressure(len(features), "an embedding"), list[Floats]()
        while (done := sum(map(len, rows))) < len(features):
            some = features[done : done + pressure.batch]
            try:
                rows.append(self._of_one_length(some).double().cpu().numpy())
            except RuntimeError as error:
                pressure.relieve(error, len(some))
        return np.concatenate(rows)

    def _of_one_length(self, features: Sequence[dict[str, Any]]) -> Any:
        torch, model = self._torch, self._model
        names = [name for name, values in features[0].items() if isinstance(values, torch.Tensor)]
        tensors = {name: torch.cat([each[name] for each in features]).to(model.device) for name in names}
        given = features[0] | {name: values[:1].clone() for name, values in tensors.items()}
        made: dict[str, Any] = {}

        def embed() -> None:
            made.update(model(dict(given)))

        embed()  # warms everything up
        # Recorded however few texts there are: how one is computed must not depend on how many others there are.
        repeat = record(torch, embed) if model.device.type == "cuda" else embed
        rows = torch.empty((len(features), model.get_embedding_dimension()), device=model.device)
        for place, row in enumerate(rows):
            for name, values in tensors.items():
                given[name].copy_(values[place : place + 1])
            repeat()
            row.copy_(made["sentence_embedding"][0, : len(row)])
        return rows
