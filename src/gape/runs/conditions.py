"""Conditions on the cells of new records: which values they have, and in which shares.

A condition is written COLUMN=VALUE. Several values are separated by |, with shares after a colon: `stars=1|5` has as
many of each, `stars=1:3|5:1` three times as many of the first, and `stars=*` as many of all values.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from gape._support.values import brief
from gape.core.errors import InputError
from gape.core.types import Indices

Cells = tuple[tuple[str, str], ...]  # the wanted values of a record, by column


@dataclass(frozen=True)
class Condition:
    """The shares of the values of a column; they need not add up to 1."""

    column: str
    shares: Mapping[str, float]


def read_condition(text: str, columns: Mapping[str, Sequence[str]]) -> Condition:
    """Read a condition. `columns` has the possible values of each column that can be set."""
    column, equals, values = (part.strip() for part in text.partition("="))
    if not equals or not values:
        raise InputError(f"a condition is written COLUMN=VALUE, got {brief(text)}; write for example stars=1")
    if not columns:
        raise InputError(
            f"a condition is on a column with listed values, and the run has none, got {brief(text)}; leave it out, "
            "and select among the result"
        )
    if column not in columns:
        known = ", ".join(map(brief, columns))
        raise InputError(f"{brief(column)} is not a column with listed values; conditions can be on {known}")
    known_values = columns[column]
    if values == "*":
        return Condition(column, dict.fromkeys(known_values, 1.0))
    shares: dict[str, float] = {}
    for part in map(str.strip, [values] if values in known_values else values.split("|")):
        value, share = _with_share(part, known_values)
        if value not in known_values:
            values = ", ".join(map(brief, known_values[:20]))
            raise InputError(f"{brief(value)} is not a value of {brief(column)}; its values are {values}")
        if value in shares:
            raise InputError(f"{brief(value)} is named twice for {brief(column)}; name it once, with its share")
        if not 0 < share < 1e9:
            raise InputError(
                f"the share of {brief(value)} must be a positive number, got {share:g}; write 3, or omit the value"
            )
        shares[value] = share
    return Condition(column, shares)


def _with_share(part: str, known: Sequence[str]) -> tuple[str, float]:
    value, colon, share = (piece.strip() for piece in part.rpartition(":"))
    if part in known or not colon:
        return part, 1.0
    try:
        return value, float(share)
    except ValueError:
        return part, 1.0


def wanted_cells(conditions: Sequence[Condition], count: int, rng: np.random.Generator) -> list[Cells]:
    """Return the wanted values of `count` records. Each column has its shares exactly, up to rounding."""
    columns = [_allotted(condition, count, rng) for condition in conditions]
    names = [condition.column for condition in conditions]
    return [tuple(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _allotted(condition: Condition, count: int, rng: np.random.Generator) -> list[str]:
    """Return `count` values in the shares of a condition, in random order; largest remainders get the rest."""
    shares = np.array(list(condition.shares.values()))
    exact = count * shares / shares.sum()
    sizes = exact.astype(np.int64)
    rest = np.argsort(-(exact - sizes), kind="stable")[: count - int(sizes.sum())]
    sizes[rest] += 1
    values = np.repeat(np.arange(len(shares)), sizes)
    named = list(condition.shares)
    return [named[value] for value in rng.permutation(values)]


@dataclass(frozen=True)
class Sources:
    """What becomes of the samples of a run: those that fit stay, and the others are varied towards wanted cells."""

    kept: Indices  # samples that stay
    varied: Indices  # samples to vary, with repetitions
    wanted: list[Cells]  # of each variation


def choose_sources(cells: Sequence[Cells], wanted: Sequence[Cells], rng: np.random.Generator) -> Sources:
    """Match samples, which have `cells`, with wanted ones.

    A sample that has wanted cells is used once as it is. The other wanted cells are written from the samples that agree
    in the most columns, each of them in turn.
    """
    free: dict[Cells, list[int]] = {}
    for index in rng.permutation(len(cells)).tolist():
        free.setdefault(cells[index], []).append(index)
    kept, varied, missing = list[int](), list[int](), list[Cells]()
    for target in wanted:
        if free.get(target):
            kept.append(free[target].pop())
        else:
            missing.append(target)
    turns: Counter[Cells] = Counter()
    nearest: dict[Cells, Indices] = {}
    for target in missing:
        if target not in nearest:
            agreeing = np.array([sum(map(set(target).__contains__, own)) for own in cells])
            nearest[target] = rng.permutation(np.flatnonzero(agreeing == agreeing.max()))
        varied.append(int(nearest[target][turns[target] % len(nearest[target])]))
        turns[target] += 1
    return Sources(np.array(sorted(kept), dtype=np.int64), np.array(varied, dtype=np.int64), missing)
