"""The intrinsic dimension of a language model's variations, as the paper's appendix measures it.

    python experiments/intrinsic_dimension/run.py --private FILE --text COLUMN --generator hf:MODEL --embedder st:MODEL
    python experiments/intrinsic_dimension/run.py --draw

Of each of a few texts, `--variations` rephrasings are written at each temperature and embedded. The singular values of
their differences from the text tell how many directions explain 80% of the variation. Every text and temperature is
kept as it ends; the same command goes on where it was stopped. The texts are read by the model as they are: NOT
differentially private, for data that may be looked at.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.common import write_rows

from gape.core.protocols import Embedder
from gape.embedders.minilm import MiniLM
from gape.embedders.sentence_transformers import SentenceTransformer
from gape.evaluation import plots
from gape.evaluation.diagnostics import intrinsic_dimension
from gape.generators.prompted import PromptedText
from gape.generators.prompts import load
from gape.language.embedded import EmbeddedModel
from gape.language.request import LanguageModel
from gape.language.transformers import TransformersModel
from gape.language.weights import SMOLLM2, fetch
from gape.modalities import load_texts

TEMPERATURES = (0.6, 0.8, 1.0, 1.2, 1.4, 1.7)
TEXTS = 3
VARIATIONS = 3000
KEPT = 384  # singular values of a matrix that are stored, at most


def measure(out: Path, texts: list[str], asked: argparse.Namespace) -> None:
    """Write and embed the variations that are not in the folder yet, and keep what they say."""
    kind, _, name = asked.generator.partition(":")
    model: LanguageModel = EmbeddedModel(fetch(SMOLLM2)) if kind == "embedded" else TransformersModel(name)
    kind, _, name = asked.embedder.partition(":")
    embedder: Embedder = MiniLM() if kind == "minilm" else SentenceTransformer(name).for_public_samples()
    generator = PromptedText(model, load(asked.prompts))
    out.mkdir(parents=True, exist_ok=True)
    for place, text in enumerate(texts):
        sample = np.array([text], dtype=object)
        point = embedder.embed(sample)[0]
        for temperature in asked.temperatures:
            path = out / f"text-{place}--temperature-{temperature:g}.json"
            if path.exists():
                continue
            rng = np.random.default_rng([place, round(1000 * temperature)])
            copies = sample[np.zeros(asked.variations, dtype=int)]
            varied = generator.vary(copies, np.full(asked.variations, temperature), rng)
            found = intrinsic_dimension(point, embedder.embed(varied))
            row = {
                "text": place,
                "temperature": temperature,
                "variations": asked.variations,
                "different": len(set(varied.tolist())),
                "unchanged": int((varied == text).sum()),
                "ambient": len(point),
                "dimension": found.dimension,
                "singular_values": [float(f"{value:.5g}") for value in found.singular_values[:KEPT]],
            }
            path.write_text(json.dumps(row) + "\n")
            print(f"text {place}, temperature {temperature:g}: {found.dimension} of {len(point)}", flush=True)


def draw(cells: Path, out: Path) -> None:
    """Make the table and both figures of all that is kept."""
    rows = [json.loads(path.read_text()) for path in sorted(cells.glob("*.json"))]
    table: list[dict[str, Any]] = []
    for temperature in sorted({row["temperature"] for row in rows}):
        here = [row for row in rows if row["temperature"] == temperature]
        counts = sorted(row["dimension"] for row in here)
        table.append(
            {
                "temperature": temperature,
                "least": counts[0],
                "median": float(np.median(counts)),
                "largest": counts[-1],
                "texts": len(here),
                "different variations": float(np.mean([row["different"] / row["variations"] for row in here])),
            }
        )
    write_rows(out, "dimension", table)
    heat = [row["temperature"] for row in table]
    with plots.figure(out / "dimension.png", size=(4.6, 3.2)) as (_, axes):
        axis = axes[0, 0]
        axis.fill_between(heat, [r["least"] for r in table], [r["largest"] for r in table], alpha=0.25, linewidth=0)
        axis.plot(heat, [row["median"] for row in table], marker="o", label="median of the texts, least and largest")
        axis.set(xlabel="temperature", ylabel="directions that explain 80%", ylim=(0, None))
        axis.legend()
    with plots.figure(out / "decay.png", size=(4.6, 3.2)) as (_, axes):
        axis = axes[0, 0]
        for row in sorted((row for row in rows if row["text"] == 0), key=lambda row: float(row["temperature"])):
            values = row["singular_values"]
            axis.plot(np.arange(1, len(values) + 1), values, label=f"{row['temperature']:g}")
        axis.set(xscale="log", xlabel="singular value, the largest first", ylabel="singular value")
        axis.legend(title="temperature")


def main() -> None:
    """Measure, then draw."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--private")
    parser.add_argument("--text")
    parser.add_argument("--prompts", default="pubmed")
    parser.add_argument("--generator", default="embedded")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--words", type=int, default=100, help="texts are cut to so many")
    parser.add_argument("--texts", type=int, default=TEXTS)
    parser.add_argument("--variations", type=int, default=VARIATIONS)
    parser.add_argument("--temperatures", type=float, nargs="+", default=list(TEMPERATURES))
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--draw", action="store_true", help="make table and figures alone")
    parser.add_argument("--no-draw", action="store_true", help="measure alone")
    asked = parser.parse_args()
    cells = asked.out / "cells"
    if not asked.draw:
        whole = load_texts(asked.private, asked.text).texts
        places = np.random.default_rng(0).choice(len(whole), asked.texts, replace=False)
        measure(cells, [" ".join(str(whole[place]).split()[: asked.words]) for place in places], asked)
    if not asked.no_draw:
        draw(cells, asked.out)


if __name__ == "__main__":
    main()
