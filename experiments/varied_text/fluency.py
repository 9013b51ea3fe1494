"""How variations of each kind read, and how far they move.

    python experiments/varied_text/fluency.py --model DIR --embedder DIR --out FILE

Random texts of a prompt are varied in each way, with the sampling of tokens of the default and with the one before it.
The mean negative log-likelihood per token is by the model that wrote the texts, of each text alone, after its first
`FIRST` tokens. Distances are those of a variation from its sample. Nothing private is read.
"""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from gape.core.types import Floats, Samples
from gape.embedders.sentence_transformers import SentenceTransformer
from gape.generators.prompts import load
from gape.generators.resampled import ResampledText
from gape.language.transformers import TransformersModel

FIRST = 8  # tokens
SAMPLINGS: dict[str, dict[str, Any]] = {"default": {}, "before": {"top_k": 50, "min_p": 0.02}}
# The share of texts whose beginning and middle is rewritten, and the scale.
KINDS = {
    "beginning rewritten, 0.4": (1.0, 0.0, 0.4),
    "beginning rewritten, 0.6": (1.0, 0.0, 0.6),
    "middle rewritten, 0.4": (0.0, 1.0, 0.4),
    "end rewritten, 0.4": (0.0, 0.0, 0.4),
    "end rewritten, 0.6": (0.0, 0.0, 0.6),
    "new text after the sample": (0.0, 0.0, 0.9),
}


def likelihoods(model: TransformersModel, texts: Sequence[str]) -> Floats:
    """Return the mean negative log-likelihood per token of each text, (count,)."""
    import torch  # noqa: PLC0415  (heavy)

    values = []
    for text in texts:
        tokens = model._tokenizer(text, return_tensors="pt")["input_ids"].to(model._model.device)
        with torch.no_grad():
            logits = model._model(tokens).logits[0, :-1].float().log_softmax(1)
        told = -logits.gather(1, tokens[0, 1:, None])[:, 0]
        values.append(float(told[FIRST:].mean()))
    return np.array(values)


def rows(prompts: str, count: int, asked: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Write, vary and score."""
    embedder = SentenceTransformer(asked.embedder).for_public_samples()
    start: Samples | None = None
    for sampling, settings in SAMPLINGS.items():
        model = TransformersModel(asked.model, **settings)
        writer = ResampledText(model, replace(load(prompts), words=80))
        random = writer.random(count, np.random.default_rng(0))
        start = random if start is None else start  # both samplings vary the same texts
        told = {"prompts": prompts, "sampling": sampling, "count": count}
        values = likelihoods(model, random.tolist())
        yield told | {"kind": "random text"} | _summary(values, None)
        for kind, (beginnings, spans, scale) in KINDS.items():
            varying = replace(writer, beginnings=beginnings, spans=spans)
            varied = varying.vary(start, np.full(count, scale), np.random.default_rng(1))
            moved = varied != start
            away = np.linalg.norm(embedder.embed(varied) - embedder.embed(start), axis=1)
            yield told | {"kind": kind} | _summary(likelihoods(model, varied[moved].tolist()), away[moved])


def _summary(values: Floats, moved: Floats | None) -> dict[str, Any]:
    error = float(values.std(ddof=1) / np.sqrt(len(values)))
    distance = None if moved is None else round(float(moved.mean()), 3)
    return {
        "varied": len(values),
        "likelihood": round(float(values.mean()), 3),
        "error": round(error, 3),
        "moved": distance,
    }


def main() -> None:
    """Append one line for each kind of variation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True)
    parser.add_argument("--embedder", required=True)
    parser.add_argument("--prompts", nargs="+", default=["reddit"])
    parser.add_argument("--count", type=int, default=60)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    for prompts in asked.prompts:
        for row in rows(prompts, asked.count, asked):
            print(json.dumps(row), flush=True)
            with asked.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")


if __name__ == "__main__":
    main()
