"""The samples of every round and their lineage, small enough for one page.

The page holds all samples of the last round with their ancestors, and for every round those on its map with their
ancestors. Each distinct text is held once. Long texts are shortened if all texts together are too large, and pictures
are left out.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gape.core.types import Indices, Samples
from gape.runs.folder.record import RunRecord

# Bytes of JSON, for the samples of the last round and for all others together.
_LAST_TEXTS, _OTHER_TEXTS = 4_000_000, 3_000_000
_SHORTEST = 60  # characters; texts are not shortened below this


@dataclass(frozen=True)
class Held:
    """The samples that the page holds, per round."""

    members: tuple[Indices, ...]  # (T + 1): indices into S(t), in order
    drawn: tuple[Indices, ...]  # (T + 1): those on the map, as indices into `members`


@dataclass(frozen=True)
class Lineage:
    """The samples as data for the script."""

    texts: list[str]  # or pictures, as `data:` URLs; empty if it was left out
    labels: list[str] | None  # one per text
    shortened: int  # number of texts that were cut
    rounds: list[dict[str, Any]]  # text, parent, scale and votes of every sample held


def hold(record: RunRecord, limit: int, rng: np.random.Generator) -> Held:
    """Choose the samples that the page holds. At most `limit` per round are drawn, parents of drawn samples first."""
    members: list[Indices] = []
    drawn: list[Indices] = []
    parents_drawn = parents_held = np.empty(0, dtype=np.int64)  # in S(t), of the samples of round t + 1
    for turn in range(record.last, -1, -1):
        size = len(record.samples(turn))
        on_map = _fill(parents_drawn, size, limit, rng)
        held = np.arange(size) if turn == record.last else np.union1d(parents_held, on_map)
        members.append(held)
        drawn.append(np.searchsorted(held, on_map))
        if turn:
            round_ = record.rounds[turn - 1]
            parents_drawn = np.unique(round_.parents[round_.chosen[on_map]])
            parents_held = np.unique(round_.parents[round_.chosen[held]])
    return Held(tuple(members[::-1]), tuple(drawn[::-1]))


def gather(record: RunRecord, held: Held) -> Lineage:
    """Collect texts and numbers of the samples that are held."""
    scales = np.array([0.0, *record.plan.scales])
    known: dict[tuple[str, str], int] = {}
    rounds: list[dict[str, Any]] = []
    for turn in range(record.last, -1, -1):  # backwards, so that the texts of the last round come first
        members = held.members[turn]
        texts = [known.setdefault(key, len(known)) for key in _keys(record, record.samples(turn)[members])]
        row: dict[str, Any] = {"text": texts, "drawn": held.drawn[turn].tolist(), "size": len(record.samples(turn))}
        if turn:
            round_ = record.rounds[turn - 1]
            chosen = round_.chosen[members]
            row["parent"] = np.searchsorted(held.members[turn - 1], round_.parents[chosen]).tolist()
            row["scale"] = np.abs(round_.scales[chosen][:, None] - scales).argmin(axis=1).tolist()
            row["votes"] = round_.votes[chosen].tolist()
        rounds.append(row)
    last = len(set(rounds[0]["text"]))
    whole = [text for _, text in known]
    fit = _shorten if record.modality.pictures(record.start[:0]) is None else _leave_out
    fitted = [*fit(whole[:last], _LAST_TEXTS), *fit(whole[last:], _OTHER_TEXTS)]
    labels = [label for label, _ in known] if record.start.dtype.names else None
    return Lineage(fitted, labels, sum(a != b for a, b in zip(fitted, whole, strict=True)), rounds[::-1])


def _keys(record: RunRecord, samples: Samples) -> list[tuple[str, str]]:
    """Return label and text of every sample; the label is empty if there is none."""
    labels = samples["label"].tolist() if samples.dtype.names else [""] * len(samples)
    return list(zip(labels, shown(record, samples), strict=True))


def shown(record: RunRecord, samples: Samples) -> list[str]:
    """Return what the page shows of samples: pictures, as `data:` URLs, or texts."""
    pictures = record.modality.pictures(samples)
    return record.modality.paragraphs(samples) if pictures is None else pictures


def _fill(wanted: Indices, size: int, limit: int, rng: np.random.Generator) -> Indices:
    """Return up to `limit` of `size` indices, in order: those wanted, then others at random."""
    if size <= limit:
        return np.arange(size)
    others = rng.permutation(np.setdiff1d(np.arange(size), wanted))
    return np.sort(np.concatenate([wanted, others])[:limit])


def _leave_out(pictures: Sequence[str], limit: int) -> list[str]:
    """Leave out the pictures beyond the first `limit` bytes."""
    ends = np.cumsum([len(picture) for picture in pictures])
    return [picture if end <= limit else "" for picture, end in zip(pictures, ends, strict=True)]


def _shorten(texts: Sequence[str], limit: int) -> list[str]:
    """Cut the longest texts to one common length, so that all texts take at most `limit` bytes of JSON."""
    sizes = [len(json.dumps(text, ensure_ascii=False).encode(errors="replace")) for text in texts]
    low, high = _SHORTEST, max(map(len, texts), default=0)
    if sum(sizes) <= limit or high <= low:
        return list(texts)
    while high - low > 1:
        middle = (low + high) // 2
        # Assumes that the bytes of a text are spread evenly over its characters.
        size = sum(s * min(1.0, middle / max(1, len(t))) for s, t in zip(sizes, texts, strict=True))
        low, high = (middle, high) if size <= limit else (low, middle)
    return [text if len(text) <= low else text[:low].rstrip() + " …" for text in texts]
