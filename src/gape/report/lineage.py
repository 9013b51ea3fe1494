"""The samples of every round with where they came from, small enough for one page.

A page holds all of the last samples, the ones they descend from, and of every round those that its map draws, with
their ancestors. Texts are held once, however often they survive, and are shortened where all of them would be too much.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gape.core.types import Indices, Samples
from gape.runs.record import RunRecord

# Bytes of JSON: of the last samples, and of all others together.
_LAST_TEXTS, _OTHER_TEXTS = 4_000_000, 3_000_000
_SHORTEST = 60  # characters; below that a text says nothing
_SHOWN_NUMBERS = 6  # of a vector


@dataclass(frozen=True)
class Held:
    """What the page holds of every round, by places in S(t)."""

    places: tuple[Indices, ...]  # (T + 1): members of S(t), in order
    drawn: tuple[Indices, ...]  # (T + 1): those on the map, places into `places`


@dataclass(frozen=True)
class Lineage:
    """The samples as data for the page."""

    texts: list[str]
    labels: list[str] | None  # of each text
    shortened: int  # how many texts are not whole
    rounds: list[dict[str, Any]]  # text, parent, scale and votes of every sample held


def hold(folder: RunRecord, most: int, rng: np.random.Generator) -> Held:
    """Choose what the page holds; at most `most` samples of a round are drawn, the parents of those drawn first."""
    places: list[Indices] = []
    drawn: list[Indices] = []
    wanted = needed = np.empty(0, dtype=np.int64)  # in S(t), by the rounds after it: to be drawn, to be held
    for turn in range(folder.last, -1, -1):
        size = len(folder.samples(turn))
        shown = _filled(wanted, size, most, rng)
        members = np.arange(size) if turn == folder.last else np.union1d(needed, shown)
        places.append(members)
        drawn.append(np.searchsorted(members, shown))
        if turn:
            each = folder.rounds[turn - 1]
            wanted = np.unique(each.parents[each.chosen[shown]])
            needed = np.unique(each.parents[each.chosen[members]])
    return Held(tuple(places[::-1]), tuple(drawn[::-1]))


def gather(folder: RunRecord, held: Held) -> Lineage:
    """Turn the samples that are held into texts and numbers."""
    scales = [0.0, *folder.plan.scales]
    known: dict[tuple[str, str], int] = {}
    rounds: list[dict[str, Any]] = []
    for turn in range(folder.last, -1, -1):  # the last first, so that its texts come first
        places = held.places[turn]
        shown = [known.setdefault(key, len(known)) for key in _keys(folder.samples(turn)[places])]
        row: dict[str, Any] = {"text": shown, "drawn": held.drawn[turn].tolist(), "size": len(folder.samples(turn))}
        if turn:
            each = folder.rounds[turn - 1]
            chosen = each.chosen[places]
            row["parent"] = np.searchsorted(held.places[turn - 1], each.parents[chosen]).tolist()
            row["scale"] = [_nearest(scales, scale) for scale in each.scales[chosen]]
            row["votes"] = each.votes[chosen].tolist()
        rounds.append(row)
    last = len(set(rounds[0]["text"]))
    whole = [text for _, text in known]
    texts = [*_fitting(whole[:last], _LAST_TEXTS), *_fitting(whole[last:], _OTHER_TEXTS)]
    labels = [label for label, _ in known] if folder.start.dtype.names else None
    return Lineage(texts, labels, sum(a != b for a, b in zip(texts, whole, strict=True)), rounds[::-1])


def in_words(samples: Samples) -> list[str]:
    """Return every sample as a text: what it says, or the numbers of a vector."""
    return [text for _, text in _keys(samples)]


def _keys(samples: Samples) -> list[tuple[str, str]]:
    """Label and text of every sample; the label is empty where there is none."""
    if samples.dtype.names:
        return list(zip(samples["label"].tolist(), samples["text"].tolist(), strict=True))
    if samples.ndim == 1:
        return [("", text) for text in samples.tolist()]
    more = f", … ({samples.shape[1]} numbers)" if samples.shape[1] > _SHOWN_NUMBERS else ""
    return [("", f"({', '.join(f'{x:.4g}' for x in row)}{more})") for row in samples[:, :_SHOWN_NUMBERS].tolist()]


def _filled(wanted: Indices, size: int, most: int, rng: np.random.Generator) -> Indices:
    """Return up to `most` of `size` places, in order: those wanted, then others at random."""
    if size <= most:
        return np.arange(size)
    others = rng.permutation(np.setdiff1d(np.arange(size), wanted))
    return np.sort(np.concatenate([wanted, others])[:most])


def _nearest(scales: Sequence[float], scale: float) -> int:
    return int(np.argmin([abs(each - scale) for each in scales]))


def _fitting(texts: list[str], most: int) -> list[str]:
    """Shorten the longest texts, all to the same length, until they take no more than so many bytes."""
    sizes = [len(json.dumps(text, ensure_ascii=False).encode(errors="replace")) for text in texts]
    low, high = _SHORTEST, max(map(len, texts), default=0)
    if sum(sizes) <= most or high <= low:
        return texts
    while high - low > 1:
        middle = (low + high) // 2
        # A character takes as many bytes as those of its text do on average.
        taken = sum(s * min(1.0, middle / max(1, len(t))) for s, t in zip(sizes, texts, strict=True))
        low, high = (middle, high) if taken <= most else (low, middle)
    return [text if len(text) <= low else text[:low].rstrip() + " …" for text in texts]
