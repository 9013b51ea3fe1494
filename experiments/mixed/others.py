"""Other records: abstracts with a year, a journal, a kind and a length, and conversations with a forum and a month.

`grid.py` runs it. Conversations are posts cut into turns: the
title and pieces of the text, by two roles in turn. They are not real dialogues, and only exercise the kind of column.
Every round is scored by held-out records with the measures of `gape evaluate`. NOT differentially private.
"""

import argparse
import gzip
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from experiments.mixed.run import Variant, states

from gape.core.copies import repeats
from gape.core.protocols import Embedder
from gape.core.types import Samples
from gape.language.request import LanguageModel
from gape.metrics import wasserstein1
from gape.metrics.measure import Scoring
from gape.modalities import Columns
from gape.runs.settings import Settings

HERE = Path(__file__).parent
HELD_OUT, PIECE, TURNS = 500, 25, 4
LEFT_OUT = {"distinct pairs", "compression ratio", "near duplicates", "shared vocabulary"}
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


@dataclass(frozen=True)
class Others:
    """Runs on the records of one of the datasets, and their scores."""

    asked: argparse.Namespace
    model: LanguageModel
    embedder: Embedder

    def run(self, name: str, epsilon: float, seed: int) -> Iterator[dict[str, Any]]:
        """Yield the scores of real records, of the start, of each round, and of what is published."""
        private, held_out = read(name, self.asked.data, self.asked.limit)
        settings = Settings.of(
            {
                "epsilon": epsilon,
                "schema": str(HERE / f"{name}.toml"),
                "samples": self.asked.samples,
                "rounds": self.asked.rounds,
                "seed": seed,
                "generator": self.asked.model,
                "embedder": self.asked.embedder,
                "topics": self.asked.topics,
            }
        )
        kind = settings.records
        embed = kind.compared(self.embedder).embed
        real = kind.read(held_out, Columns()).content
        voters = kind.read(private[: self.asked.samples], Columns()).content
        sets = states(Variant(), settings, private, self.model, self.embedder, seed)
        for what, samples in chain([("real", voters)], sets):
            groups = kind.measures(real, samples, Scoring())
            groups["Agreement"] = kind.agreement((real, embed(real)), (samples, embed(samples)), Scoring())
            found = {
                measure.name: round(measure.value, 4)
                for group in groups.values()
                for measure in group
                if measure.name not in LEFT_OUT
            }
            yield {
                "dataset": name,
                "epsilon": epsilon,
                "seed": seed,
                "what": what,
                "count": len(samples),
                "records": len(private),
                **found,
                **_guessed(real, kind.choices()),
                "W1": round(wasserstein1(embed(real), embed(samples)[:1000]), 4),
                "repeating": round(float(repeats(kind.wording(samples)).mean()), 4),
            }
        path = self.asked.out / f"{name}-{epsilon:g}-{seed}.jsonl"
        path.write_text("\n".join(samples.tolist()) + "\n", encoding="utf-8")


def _guessed(real: Samples, choices: Iterable[str]) -> dict[str, float]:
    """Return how often the commonest value of each column of choices is right."""
    rows = [json.loads(line) for line in real]
    commonest = {name: Counter(row[name] for row in rows).most_common(1)[0][1] for name in choices}
    return {f"{name} guessed": round(count / len(rows), 4) for name, count in commonest.items()}
