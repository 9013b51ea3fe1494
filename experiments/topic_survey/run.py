"""What a survey of topics before the first round buys with a language model, at the same total epsilon.

    python experiments/topic_survey/run.py narrow --private FILE --out FILE
    python experiments/topic_survey/run.py reddit default survey --private FILE --model DIR --embedder DIR --out FOLDER

The first call keeps the posts of four subreddits, the dataset `reddit-few`. Options and data of the second are those of
experiments/varied_text. NOT differentially private.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.varied_text.run import VARIANTS, Variant, main

from gape.core.errors import InputError
from gape.core.types import NoisyVotes, as_samples
from gape.generators.asking import draw_each
from gape.generators.resampled import ResampledText
from gape.generators.topic_survey import NearestTopic, TopicSurvey

FEW = ("talesfromtechsupport", "loseit", "personalfinance", "askscience")
PER_TOPIC = 4  # texts that stand for a topic


@dataclass(frozen=True)
class ByTexts(TopicSurvey):
    """Compares records with a few texts that the model writes about each topic, instead of with the topic itself."""

    def questions(self, answers: Sequence[NoisyVotes], sigma: float, most: int) -> NearestTopic:
        """Return the question with the mean point of the texts of each topic."""
        asked = super().questions(answers, sigma, most)
        if not isinstance(self.writer, ResampledText) or self.embedder is None:
            raise InputError("only texts without labels are tried; name another dataset")
        prompts, rng = self.writer.prompts, np.random.default_rng(0)
        about = [replace(self.writer, prompts=prompts.with_topics((topic,))) for topic in prompts.topics]
        texts = draw_each(
            self.writer.model,
            lambda index: about[index // PER_TOPIC].new(rng),
            PER_TOPIC * len(about),
            prompts.name,
            distinct=False,
        )
        written = np.array([text is not None for text in texts])
        points = np.zeros((len(texts), asked.points.shape[1]), dtype=np.float32)
        points[written] = self.embedder.embed(as_samples([text for text in texts if text is not None]))
        sums = points.reshape(len(about), PER_TOPIC, -1).sum(axis=1)
        norms = np.linalg.norm(sums, axis=1, keepdims=True)
        means = np.where(norms > 0, sums / np.maximum(norms, 1e-12), asked.points)
        return replace(asked, points=means.astype(np.float32))


TRIED = {
    "default": VARIANTS["gape"],
    "survey": Variant(survey=0.1),
    "survey-texts": Variant(survey=0.1, asking=ByTexts),
}


def narrow() -> None:
    """Keep the posts of a few subreddits."""
    parser = argparse.ArgumentParser(description=narrow.__doc__)
    parser.add_argument("what")
    parser.add_argument("--private", required=True)
    parser.add_argument("--out", required=True)
    asked = parser.parse_args()
    with gzip.open(asked.private, "rt") as source, gzip.open(asked.out, "wt") as kept:
        kept.writelines(line for line in source if json.loads(line)["subreddit"] in FEW)


if __name__ == "__main__":
    if "narrow" in sys.argv[1:2]:
        narrow()
    else:
        main(TRIED, __doc__)
