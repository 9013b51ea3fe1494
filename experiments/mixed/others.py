"""Other records: abstracts with a year, a journal, a kind and a length, and conversations with a forum and a month.

    python experiments/mixed/others.py pubmed:4 chats:4 --data FOLDER --model hf:DIR --embedder st:DIR --out FOLDER

FOLDER holds pubmed_2021_medline.jsonl.gz and reddit_selfposts.jsonl.gz. Conversations are posts cut into turns: the
title and pieces of the text, by two roles in turn. They are not real dialogues, and only exercise the kind of column.
Every round is scored by held-out records with the measures of `gape evaluate`. NOT differentially private.
"""

import argparse
import gzip
import json
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.mixed.run import Variant, states

from gape.embedders.cached import Cached
from gape.embedders.privacy import for_public_texts
from gape.metrics import wasserstein1
from gape.metrics.measure import Measure, Scoring
from gape.modalities import Columns
from gape.runs.embedder import make_embedder
from gape.runs.generator import make_model
from gape.runs.settings import Settings

HERE = Path(__file__).parent
HELD_OUT, PIECE, TURNS = 500, 25, 4
_JOURNALS = json.dumps((HERE / "pubmed.toml").read_text(encoding="utf-8"))


def abstract(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return an abstract of one of the journals of the schema as a record."""
    if f'\\"{row["journal"]}\\"' not in _JOURNALS:
        return None
    kinds = {"Review": "review", "Case Reports": "case report"}
    kind = next((kinds[name] for name in row["pubtypes"] if name in kinds), "research article")
    words = row["abstract"].split()
    return {
        "year": row["year"],
        "journal": row["journal"],
        "kind": kind,
        "words": len(words),
        "abstract": " ".join(words[:100]),
    }


def chat(row: dict[str, Any]) -> dict[str, Any] | None:
    """Return a post as a conversation."""
    words = row["text"].split()
    pieces = [row["title"], *(" ".join(words[start : start + PIECE]) for start in range(0, len(words), PIECE))]
    turns = [piece for piece in pieces if piece.strip()][:TURNS]
    posted = datetime.fromtimestamp(float(row["created_utc"]), UTC).date().isoformat()
    if len(turns) < 2:
        return None
    roles = ("poster", "reader")
    made = [{"role": roles[index % 2], "content": turn} for index, turn in enumerate(turns)]
    return {"forum": row["subreddit"], "posted": posted, "chat": made}


DATASETS: dict[str, tuple[str, Callable[[dict[str, Any]], dict[str, Any] | None]]] = {
    "pubmed": ("pubmed_2021_medline.jsonl.gz", abstract),
    "chats": ("reddit_selfposts.jsonl.gz", chat),
}


def read(name: str, folder: Path, limit: int) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return private and held-out records."""
    file, record = DATASETS[name]
    with gzip.open(folder / file, "rt", encoding="utf-8") as lines:
        made = [row for row in (record(json.loads(line)) for line in lines) if row is not None]
    order = np.random.default_rng(0).permutation(len(made))[: limit + HELD_OUT]
    rows = [made[index] for index in order]
    return rows[HELD_OUT:], rows[:HELD_OUT]


def main() -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", help="DATASET:EPSILON, with pubmed or chats")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--model", default="embedded")
    parser.add_argument("--embedder", default="minilm")
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    plain = Settings.of({"epsilon": 1.0, "generator": asked.model, "embedder": asked.embedder})
    model, embedder = make_model(plain, asked.out / "answers"), Cached(for_public_texts(make_embedder(plain)), 250_000)
    if model is None:
        raise SystemExit("give a model that writes")
    for run in asked.runs:
        name, epsilon = run.partition(":")[0], float(run.partition(":")[2])
        private, held_out = read(name, asked.data, asked.limit)
        settings = Settings.of(
            {
                "epsilon": epsilon,
                "schema": str(HERE / f"{name}.toml"),
                "samples": asked.samples,
                "rounds": asked.rounds,
                "seed": asked.seed,
                "generator": asked.model,
                "embedder": asked.embedder,
            }
        )
        kind = settings.records
        embed = kind.compared(embedder).embed
        real = kind.read(held_out, Columns()).content
        voters = kind.read(private[: asked.samples], Columns()).content
        sets = states(Variant(), settings, private, model, embedder, asked.seed)
        for what, samples in chain([("real", voters)], sets):
            groups = kind.measures(real, samples, Scoring())
            groups["Agreement"] = kind.agreement((real, embed(real)), (samples, embed(samples)), Scoring())
            found: dict[str, float] = {
                measure.name: round(measure.value, 4)
                for group in groups.values()
                for measure in group
                if _kept(measure)
            }
            found["W1"] = round(wasserstein1(embed(real), embed(samples)[:1000]), 4)
            line = {"dataset": name, "epsilon": epsilon, "what": what, "count": len(samples), "records": len(private)}
            line |= {**found, "seconds": round(time.monotonic() - began, 1)}
            print(json.dumps(line), flush=True)
            with (asked.out / "others.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        (asked.out / f"{name}-{epsilon:g}.jsonl").write_text("\n".join(samples.tolist()) + "\n", encoding="utf-8")


def _kept(measure: Measure) -> bool:
    return measure.name not in {"distinct pairs", "compression ratio", "near duplicates", "shared vocabulary"}


if __name__ == "__main__":
    main()
