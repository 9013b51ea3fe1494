"""Charts as SVG, drawn by their classes: colours come from the style of the page, in light and in dark."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from gape.report.regions import Region
from gape.report.signal import LEVELS, Signal

_HIGH = LEVELS[-1]  # sigmas from which a bar stands out


@dataclass(frozen=True)
class Line:
    """A line of a chart, with a value for every round; None where there is none to show."""

    name: str
    values: Sequence[float | None]
    style: str  # class: colour by a number, and `dashed` for what is only expected


def histogram(signal: Signal, title: str, sigma: float) -> str:
    """Draw how many candidates got how many votes, with the curve that noise alone would make.

    Heights are square roots, so that a few candidates with many votes show beside the many with few.
    """
    width, height, left, bottom = 220.0, 128.0, 6.0, 24.0
    low, high = float(signal.edges[0]), float(signal.edges[-1])

    def x(value: float) -> float:
        return left + (value - low) / (high - low) * (width - 2 * left)

    heights = [signal.counts.max(), *([signal.noise.max()] if signal.noise is not None else [])]
    top = math.sqrt(max(1.0, *(float(each) for each in heights)))

    def y(count: float) -> float:
        return height - bottom - math.sqrt(max(0.0, count)) / top * (height - bottom - 8)

    parts = []
    for begin, end, count in zip(signal.edges[:-1], signal.edges[1:], signal.counts, strict=True):
        style = "bar high" if (begin + end) / 2 > _HIGH * sigma else "bar"
        tall = height - bottom - y(count)
        if tall > 0:
            parts.append(
                f'<rect class="{style}" x="{x(begin) + 0.5:.1f}" y="{y(count):.1f}" '
                f'width="{max(0.5, x(end) - x(begin) - 1):.1f}" height="{tall:.1f}"/>'
            )
    if signal.noise is not None:
        middle = [(begin + end) / 2 for begin, end in zip(signal.edges[:-1], signal.edges[1:], strict=True)]
        path = " L".join(f"{x(at):.1f} {y(count):.1f}" for at, count in zip(middle, signal.noise, strict=True))
        parts.append(f'<path class="noise" d="M{path}"/>')
    parts.append(f'<line class="axis" x1="{left}" x2="{width - left}" y1="{height - bottom}" y2="{height - bottom}"/>')
    for value, name in _ticks(low, high, sigma):
        parts.append(f'<text class="tick" x="{x(value):.1f}" y="{height - 9}" text-anchor="middle">{name}</text>')
    return _svg(width, height, title, parts)


def line_chart(lines: Sequence[Line], title: str, *, percent: bool, first: int = 1) -> str:
    """Draw lines over the rounds from `first`, each named where it ends."""
    width, height, left, right, bottom, top = 440.0, 236.0, 54.0, 122.0, 40.0, 12.0
    rounds = len(lines[0].values)
    most = _nice(max((value for line in lines for value in line.values if value is not None), default=1.0))

    def x(place: int) -> float:
        return left + (width - left - right) * (place / (rounds - 1) if rounds > 1 else 0.5)

    def y(value: float) -> float:
        return height - bottom - value / most * (height - bottom - top)

    parts = []
    for step in range(5):
        value = most * step / 4
        name = f"{100 * value:.3g}%" if percent else _number(value)
        parts.append(
            f'<line class="grid" x1="{left}" x2="{width - right}" y1="{y(value):.1f}" y2="{y(value):.1f}"/>'
            f'<text class="tick" x="{left - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{name}</text>'
        )
    parts += [
        f'<text class="tick" x="{x(place):.1f}" y="{height - bottom + 17}" text-anchor="middle">{place + first}</text>'
        for place in range(0, rounds, max(1, math.ceil(rounds / 10)))
    ]
    middle = left + (width - left - right) / 2
    parts.append(f'<text class="name" x="{middle:.1f}" y="{height - 4}" text-anchor="middle">round</text>')
    parts += [_line(line, x, y) for line in lines]
    ends = [(line, line.values[-1]) for line in lines if line.name and line.values[-1] is not None]
    for (line, _), at in zip(ends, _apart([y(value) for _, value in ends if value is not None], 15.0), strict=True):
        name = escape(line.name)
        parts.append(f'<text class="end {line.style}" x="{width - right + 9}" y="{at + 4:.1f}">{name}</text>')
    return _svg(width, height, title, parts)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"


def share_row(region: Region, most: float) -> str:
    """Draw the shares of one region on a common scale: votes with what noise leaves open, samples, and private ones."""

    def at(share: float) -> str:
        return f"{2 + 96 * min(max(share / most, 0.0), 1.0):.2f}%"

    low, high = at(region.votes - region.error), at(region.votes + region.error)
    square = '<rect class="samples" x="-6" y="-6" width="12" height="12" rx="2"/>'
    parts = [
        '<line class="track" x1="2%" x2="98%" y1="50%" y2="50%"/>',
        f'<line class="open" x1="{low}" x2="{high}" y1="50%" y2="50%"/>',
        f'<circle class="votes" cx="{at(region.votes)}" cy="50%" r="6"/>',
        f'<svg class="at" x="{at(region.samples)}" y="50%">{square}</svg>',
    ]
    said = f"{100 * region.votes:.0f}% of the votes, {100 * region.samples:.0f}% of the samples"
    if region.real is not None:
        parts.append(
            f'<svg class="at" x="{at(region.real)}" y="50%"><path class="real" d="M0 -8L8 0L0 8L-8 0Z"/></svg>'
        )
        said += f", {100 * region.real:.0f}% of the private points"
    return f'<svg class="shares" role="img" aria-label="{said}">{"".join(parts)}</svg>'


def _line(line: Line, x: Callable[[int], float], y: Callable[[float], float]) -> str:
    known = [(x(place), y(value)) for place, value in enumerate(line.values) if value is not None]
    path = " L".join(f"{a:.1f} {b:.1f}" for a, b in known)
    drawn = f'<path class="line {line.style}" d="M{path}"/>' if known else ""
    if "dashed" in line.style:
        return drawn
    return drawn + "".join(f'<circle class="dot {line.style}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in known)


def _svg(width: float, height: float, title: str, parts: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'


def _ticks(low: float, high: float, sigma: float) -> list[tuple[float, str]]:
    """Places in votes with their names: a few multiples of sigma, or of a number of votes where there is no sigma."""
    unit = sigma or _nice(high / 3)
    step = unit * next(each for each in (1, 3, 6, 12) if high <= 4.2 * each * unit or each == 12)
    places = [step * i for i in range(-2, 5) if low < step * i < high - 0.02 * (high - low)]
    return [(place, f"{place / sigma:.0f}σ" if sigma and place else f"{place:.0f}") for place in places]


def _nice(most: float) -> float:
    """Return the next number that quarters well."""
    if most <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(most))
    return next(step * size for step in (1, 2, 4, 6, 8, 10) if step * size >= most * 0.999)


def _apart(places: Sequence[float], gap: float) -> list[float]:
    """Move places apart until none is nearer to the next than `gap`, in their order."""
    order = sorted(range(len(places)), key=lambda i: places[i])
    moved = list(places)
    for before, after in pairwise(order):
        moved[after] = max(moved[after], moved[before] + gap)
    return moved
