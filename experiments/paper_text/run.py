"""The paper's experiments on texts: SubsamplePE, AugPE and GAPE over epsilon, at its settings, on real data.

    python experiments/paper_text/run.py pubmed --private FILE --generator hf:MODEL --embedder st:MODEL --out FOLDER

Seven variations, ten rounds, 2m initial samples, the paper's prompts and epsilons. The texts are cut to `--words`
words; a tenth of them does not vote and scores. Every run is kept as it ends: the same command goes on where it was
stopped, and with other methods, epsilons or seeds it adds to what is there. Runs of a seed share their start and what
the model has answered. NOT differentially private: it scores by private texts, for data that may be looked at.
"""

import argparse
import gzip
import json
import random
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from gape.evaluation.compare import ComparisonProgress, read_comparison
from gape.evaluation.compare.texts import ComparisonScoring, compare_texts
from gape.modalities import load_texts
from gape.runs.settings import Settings

EPSILONS = (0.1, 0.5, 1.0, 2.0, 4.0, 8.0, 100.0)
METHODS = ("subsamplepe", "augpe", "gape")
ROUNDS = 10
START = 2  # the size of S(0), in multiples of m
SCALES = (0.1, 0.2, 0.3, 0.4, 0.55, 0.7, 0.9)  # of resampling
HELD_OUT = 0.1


@dataclass(frozen=True)
class Dataset:
    """Where the texts of a dataset are in its file, and what is asked for."""

    column: str
    prompts: str


DATASETS = {"pubmed": Dataset("abstract", "pubmed"), "reddit": Dataset("text", "reddit")}


def cut(path: str, column: str, words: int, limit: int) -> list[str]:
    """Read texts, at most `limit` drawn at random, each up to its first `words` words."""
    texts = load_texts(path, column).texts
    order = np.random.default_rng(0).permutation(len(texts))[:limit]
    return [" ".join(str(text).split()[:words]) for text in texts[np.sort(order)]]


def split(dataset: str, texts: list[str], folder: Path) -> None:
    """Write the files of one `gape run` and its `gape evaluate`: those that vote, and a tenth that scores."""
    texts = list(texts)
    random.Random(0).shuffle(texts)  # noqa: S311  (who is held out is no secret)
    out = round(HELD_OUT * len(texts))
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("held-out", texts[:out]), ("voting", texts[out:])):
        lines = "".join(json.dumps({DATASETS[dataset].column: text}) + "\n" for text in rows)
        (folder / f"{dataset}-{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), mtime=0))


class Progress:
    """Prints a line for every run that ends, with the seconds since the first word."""

    def __init__(self) -> None:
        """Start the clock."""
        self._began, self._last = time.monotonic(), ""

    def __call__(self, now: ComparisonProgress) -> None:
        """Hear how far it is."""
        if now.doing != self._last and ("done" in now.doing or " round " not in now.doing):
            print(f"{time.monotonic() - self._began:7.0f} s  {now.done:.1f} of {now.cells}: {now.doing}", flush=True)
            self._last = now.doing


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=tuple(DATASETS))
    parser.add_argument("--private")
    parser.add_argument("--draw", action="store_true", help="make table and figure of what is in --out alone")
    parser.add_argument("--split", action="store_true", help="write the files of one run into --out, and run nothing")
    parser.add_argument("--generator", default="embedded")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--corpus-text", help="column of the texts of a corpus")
    parser.add_argument("--samples", type=int, default=500, help="m (500; the paper: 2,000 and 10,000)")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--words", type=int, default=100, help="texts are cut to so many, and written so long")
    parser.add_argument("--limit", type=int, default=10**9, help="use only so many private texts")
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    if asked.draw:
        read_comparison(asked.out)
        return
    data = DATASETS[asked.dataset]
    texts = cut(asked.private, data.column, asked.words, asked.limit)
    if asked.split:
        split(asked.dataset, texts, asked.out)
        return
    settings = Settings(
        generator=asked.generator,
        corpus_text=asked.corpus_text,
        embedder=asked.embedder,
        prompts=None if asked.generator.startswith("corpus:") else data.prompts,
        words=None if asked.generator.startswith("corpus:") else asked.words,
        samples=asked.samples,
        initial=START * asked.samples,
        scales=None if asked.generator.startswith("corpus:") else SCALES,
        distinct=False,
        rounds=asked.rounds,
        seed=asked.first_seed,
    )
    compare_texts(
        settings,
        asked.out,
        methods=asked.methods,
        epsilons=asked.epsilons,
        seeds=asked.seeds,
        scoring=ComparisonScoring(held_out=HELD_OUT),
        jobs=asked.jobs,
        source=texts,
        progress=Progress(),
    )


if __name__ == "__main__":
    main()
