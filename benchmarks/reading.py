"""The overhead of a round of variations, with a model that answers at once, by the number of reading processes.

python benchmarks/reading.py [--processes 0 1 2 4 8] [--texts 2000]

Each of some synthetic abstracts (experiments/paper_text/results/pubmed-m2000) gets seven variations: requests are made,
looked up, answered, stored and cleaned. "core" is the CPU time of the requesting thread, which only further processes
can relieve; the rest of a round never waits longer than that.
"""

import argparse
import tempfile
import time
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from gape.core.types import as_samples
from gape.generators import asking
from gape.generators.cleaning import sentences
from gape.generators.prompts import load
from gape.generators.reading import Reading
from gape.generators.resampled import ResampledText
from gape.language.request import Request
from gape.language.scripted import ScriptedModel
from gape.language.stored import Stored

TEXTS = Path(__file__).parents[1] / "experiments" / "paper_text" / "results" / "pubmed-m2000" / "synthetic.parquet"
SCALES = (0.1, 0.2, 0.3, 0.4, 0.55, 0.7, 0.9)


class Sayings:
    """Answers of about the requested length, made of sentences of the texts themselves."""

    def __init__(self, texts: list[str]) -> None:
        self._sentences = [sentence for text in texts for sentence in sentences(text)]

    def __call__(self, request: Request) -> str:
        start = request.seed % (len(self._sentences) - 8)
        count = 1 + (request.enough or request.max_tokens) // 32
        return " " + " ".join(self._sentences[start : start + count])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[0, 1, 2, 4, 8])
    parser.add_argument("--texts", type=int, default=2000)
    asked = parser.parse_args()
    texts = pq.read_table(TEXTS, columns=["text"])["text"].to_pylist()[: asked.texts]
    samples, scales = as_samples([text for text in texts for _ in SCALES]), np.tile(SCALES, len(texts))
    answer = Sayings(texts)
    expected: list[str] | None = None
    print(f"{'processes':>9} {'seconds':>9} {'core':>9} {'ms a text':>10}")
    for processes in asked.processes:
        vars(asking)["Reading"] = partial(Reading, processes=processes)
        with tempfile.TemporaryDirectory() as folder:
            model = Stored(ScriptedModel(answer), Path(folder) / "answers.sqlite")
            generator = ResampledText(model, load("pubmed"))
            begin, core = time.perf_counter(), time.thread_time()
            varied = generator.vary(samples, scales, np.random.default_rng(0)).tolist()
            seconds, core = time.perf_counter() - begin, time.thread_time() - core
            model.close()
        expected = expected or varied
        if varied != expected:
            raise SystemExit("several processes read other texts than one")
        print(f"{processes:>9} {seconds:>9.2f} {core:>9.2f} {1e3 * core / len(samples):>10.3f}", flush=True)


if __name__ == "__main__":
    main()
