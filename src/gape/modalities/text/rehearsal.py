"""Made-up texts on which audits try the survey of topics."""

import numpy as np

from gape.core.types import Points, Samples, as_samples
from gape.generators.corpus import CorpusText
from gape.generators.topic_survey import TopicSurvey
from gape.modalities.base import Rehearsal

_LETTERS = "abcdefgh"
_RECORDS, _PUBLIC, _ANSWERS = 400, 100, 7


class Letters:
    """An embedder by the shares of a few letters."""

    def embed(self, samples: Samples) -> Points:
        """Return one row per text, (n, letters)."""
        counts = [[text.count(letter) for letter in _LETTERS] for text in samples]
        points: Points = np.array(counts, dtype=np.float32).reshape(-1, len(_LETTERS))
        points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1)
        return points


def made_up_survey() -> Rehearsal:
    """Return a survey of words that are made of a few letters, among topics of the same kind."""
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list(_LETTERS), 6)) for _ in range(_RECORDS + _PUBLIC)]
    corpus = CorpusText(words[_RECORDS:], Letters())
    topics = corpus.topics()
    one, other = topics[:1], topics[len(topics) // 2 :][:1]  # each is nearest to itself
    return Rehearsal(TopicSurvey(corpus, Letters()), (_ANSWERS,), Letters(), as_samples(words[:_RECORDS]), one, other)
