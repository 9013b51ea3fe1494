"""How the sampling of tokens changes what a model writes before any record votes.

    python experiments/varied_text/sampling.py 50,0.95,0.02,1.05,1.0 400,1,0.005,1.05,1.0 --data FOLDER --model DIR \
        --embedder DIR --out FILE
    python experiments/varied_text/sampling.py --table

A setting is top_k,top_p,min_p,repeat_penalty,temperature. For each setting and dataset, 1,500 random texts are written.
The first 500 are scored: distinct pairs of words, beside those of as many real texts of at most that length, next-word
accuracy on 1,500 real texts, and W1; recall is that of all 1,500. NOT differentially private: private texts score.
`--table` prints the table of the README from the stored lines.
"""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.varied_text.run import DATASETS, WORDS, read

from gape.embedders.sentence_transformers import SentenceTransformer
from gape.generators.prompts import load
from gape.generators.resampled import ResampledText
from gape.language.transformers import TransformersModel
from gape.metrics import recall, sinkhorn1
from gape.metrics.next_word import next_word_accuracy
from gape.metrics.repetition import as_many
from gape.metrics.text import distinct

FILES = {
    "pubmed": "pubmed_2021_medline.jsonl.gz",
    "yelp": "yelp_augpe_dev.csv.gz",
    "reddit": "reddit_selfposts.jsonl.gz",
}
STORED = Path(__file__).parent / "results" / "sampling" / "start.jsonl"
_NAMES = {"pubmed": "PubMed", "yelp": "Yelp", "reddit": "Reddit"}


def scores(setting: str, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Write and score texts of all datasets in one setting."""
    top_k, top_p, min_p, penalty, temperature = map(float, setting.split(","))
    model = TransformersModel(asked.model, top_k=int(top_k), top_p=top_p, min_p=min_p, repeat_penalty=penalty)
    embedder = SentenceTransformer(asked.embedder).for_public_samples()
    for name, file in FILES.items():
        data = DATASETS[name]
        real = read(str(asked.data / file), replace(data, label=None), asked.real + 2500).texts
        writer = ResampledText(model, replace(load(data.prompts), words=WORDS), temperature=temperature)
        texts = writer.random(asked.count, np.random.default_rng(0))
        some, tested = texts[: asked.scored].tolist(), real[: asked.real]
        points, written = embedder.embed(tested), embedder.embed(texts)
        yield {
            "setting": setting,
            "data": name,
            "pairs": distinct(some, 2),
            "real_pairs": distinct(as_many(real.tolist(), some, np.random.default_rng(0)), 2),
            "next_word": float(next_word_accuracy(some, tested.tolist()).mean()),
            "W1": float(sinkhorn1(points, written[: asked.scored])),
            "recall": recall(points, written),
        }


def table(path: Path = STORED) -> list[str]:
    """Return the table of the README."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    head = ["top_k, top_p, min_p, penalty, temperature"]
    figures = ("pairs of real", "next-word", "W1", "recall")
    lines = [[*head, *(f"{_NAMES[name]}: {figure}" for name in FILES for figure in figures)]]
    lines.append(["---"] * len(lines[0]))
    known = {(row["setting"], row["data"]): row for row in rows}
    for setting in sorted({row["setting"] for row in rows}, key=lambda setting: known[setting, "pubmed"]["pairs"]):
        cells = [setting.replace(",", ", ")]
        for name in FILES:
            row = known[setting, name]
            cells += [f"{row['pairs'] / row['real_pairs']:.2f}", f"{row['next_word']:.4f}", f"{row['W1']:.3f}"]
            cells += [f"{row['recall']:.3f}"]
        lines.append(cells)
    return [f"| {' | '.join(cells)} |" for cells in lines]


def main() -> None:
    """Write and score, or print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("settings", nargs="*")
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--model")
    parser.add_argument("--embedder")
    parser.add_argument("--count", type=int, default=1500)
    parser.add_argument("--scored", type=int, default=500)
    parser.add_argument("--real", type=int, default=1500)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.table:
        print("\n".join(table()))
    for setting in asked.settings:
        for row in scores(setting, asked):
            print(json.dumps(row), flush=True)
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
