"""Texts, with or without labels: the default modality of `gape run`."""

from __future__ import annotations

from gape.core.protocols import Embedder
from gape.core.types import Samples
from gape.metrics.measure import Measure, Scoring
from gape.modalities.base import Groups, Modality, Rehearsal
from gape.modalities.records import Columns, Records, choose_columns, open_table
from gape.modalities.text.load import load_texts
from gape.modalities.text.measures import (
    next_word_measures,
    repetition_measures,
    runs_by_chance,
    shared_runs,
    text_measures,
)
from gape.modalities.text.rehearsal import made_up_survey

__all__ = ["Text", "load_texts"]


class Text(Modality):
    """Texts, written by a language model or chosen from a corpus, and compared by a sentence embedding model."""

    name = "text"
    noun = "text"
    generators = ("embedded", "embedded:MODEL", "openvino", "openvino:MODEL", "openai:MODEL", "hf:MODEL", "corpus:FILE")
    embedders = ("minilm", "openai:MODEL", "st:MODEL")
    has_words = True
    plain_texts = True
    on_workers = True
    on_disk = True
    copied = "word for word"

    def read(self, source: object, columns: Columns) -> Records:
        """Read texts, with their labels and users if these columns are named."""
        return load_texts(source, columns.text, columns.label, columns.user)

    def read_corpus(self, path: str, columns: Columns) -> Samples:
        """Read public texts."""
        return load_texts(path, columns.text).content

    def check_corpus(self, path: str, columns: Columns) -> None:
        """Reject a corpus without a clear column of texts, without reading all of it."""
        choose_columns(open_table(path), columns.text, None, None)

    @classmethod
    def rehearsal(cls) -> Rehearsal:
        """Return the survey of made-up texts."""
        return made_up_survey()

    def public_embedder(self) -> Embedder:
        """Return all-MiniLM-L6-v2."""
        from gape.embedders.minilm import MiniLM  # noqa: PLC0415  (heavy)

        return MiniLM()

    def measures(self, real: Samples, synthetic: Samples, scoring: Scoring) -> Groups:
        """Compare texts as words, and measure how much they repeat one another."""
        return {
            "Texts": text_measures(real.tolist(), synthetic.tolist(), scoring),
            "Repetition": repetition_measures(real.tolist(), synthetic.tolist(), scoring),
        }

    def usefulness(
        self, tested: Samples, synthetic: Samples, start: Samples, records: Samples, scoring: Scoring
    ) -> tuple[Measure, ...]:
        """Train a small model on each set, and test how well it predicts the next words of real texts."""
        return next_word_measures(tested.tolist(), synthetic.tolist(), start.tolist(), records.tolist(), scoring)

    def shared(self, private: Samples, synthetic: Samples) -> tuple[Measure, ...]:
        """Measure the longest runs of words that texts share with records."""
        return tuple(shared_runs(private.tolist(), synthetic.tolist()))

    def shared_by_chance(self, private: Samples, held_out: Samples) -> tuple[Measure, ...]:
        """Measure the same for records that did not vote."""
        return tuple(runs_by_chance(private.tolist(), held_out.tolist()))
