"""SVG charts. Colours come from the style sheet through CSS classes, so that charts follow the light or dark theme."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from markupsafe import Markup

from gape.report.regions import Region
from gape.report.signal import LEVELS, Signal

_HIGH = LEVELS[-1]  # in sigmas: bars above it are highlighted


@dataclass(frozen=True)
class Line:
    """One line of a chart, with a value per round; None leaves a gap."""

    name: str
    values: Sequence[float | None]
    style: str  # CSS classes: `l0` to `l3` for the colour, `dashed` for a reference


def element(tag: str, *content: str, **attributes: str | float) -> Markup:
    """Build an SVG element. Content and attributes are escaped unless they are markup already."""
    named = [
        (name.rstrip("_").replace("_", "-"), f"{value:.4g}" if isinstance(value, float) else value)
        for name, value in attributes.items()
    ]
    opening = Markup("").join(Markup(' {}="{}"').format(*pair) for pair in named)
    return Markup("<{0}{1}>{2}</{0}>").format(tag, opening, Markup("").join(content))


def histogram(signal: Signal, title: str, sigma: float) -> Markup:
    """Draw how many candidates received how many votes, and the curve expected from noise alone.

    Heights are on a square-root scale, so that a few candidates with many votes stay visible.
    """
    width, height, left, bottom = 220.0, 128.0, 6.0, 24.0
    low, high = float(signal.edges[0]), float(signal.edges[-1])
    highest = max(1.0, float(signal.counts.max()), 0.0 if signal.noise is None else float(signal.noise.max()))

    def x(votes: float) -> float:
        return left + (votes - low) / (high - low) * (width - 2 * left)

    def y(count: float) -> float:
        return height - bottom - math.sqrt(max(0.0, count) / highest) * (height - bottom - 8)

    bins = list(zip(signal.edges[:-1], signal.edges[1:], signal.counts, strict=True))
    parts = [
        element(
            "rect",
            class_="bar high" if (begin + end) / 2 > _HIGH * sigma else "bar",
            x=x(begin) + 0.5,
            y=y(count),
            width=max(0.5, x(end) - x(begin) - 1),
            height=height - bottom - y(count),
        )
        for begin, end, count in bins
        if count > 0
    ]
    if signal.noise is not None:
        curve = [(x((begin + end) / 2), y(count)) for (begin, end, _), count in zip(bins, signal.noise, strict=True)]
        parts.append(_path("noise", curve))
    parts.append(element("line", class_="axis", x1=left, x2=width - left, y1=height - bottom, y2=height - bottom))
    parts += [_text(name, x(votes), height - 9, "tick", "middle") for votes, name in _ticks(low, high, sigma)]
    return _chart(width, height, title, parts)


def line_chart(lines: Sequence[Line], title: str, *, percent: bool, first: int = 1) -> Markup:
    """Draw lines over the rounds, numbered from `first`, with each name at the end of its line."""
    width, height, left, right, bottom, top = 440.0, 236.0, 54.0, 122.0, 40.0, 12.0
    rounds = len(lines[0].values)
    highest = _round_up(max((value for line in lines for value in line.values if value is not None), default=1.0))

    def x(index: int) -> float:
        return left + (width - left - right) * (index / (rounds - 1) if rounds > 1 else 0.5)

    def y(value: float) -> float:
        return height - bottom - value / highest * (height - bottom - top)

    parts: list[Markup] = []
    for value in (highest * step / 4 for step in range(5)):
        name = f"{100 * value:.3g}%" if percent else f"{value:,.0f}" if value >= 1000 else f"{value:.3g}"
        parts.append(element("line", class_="grid", x1=left, x2=width - right, y1=y(value), y2=y(value)))
        parts.append(_text(name, left - 6, y(value) + 4, "tick", "end"))
    parts += [
        _text(str(index + first), x(index), height - bottom + 19, "tick", "middle")
        for index in range(0, rounds, max(1, math.ceil(rounds / 10)))
    ]
    parts.append(_text("round", (left + width - right) / 2, height - 4, "name", "middle"))
    ends_at = (left, width - right)
    parts += [part for line in lines for part in _line(line, x, y, ends_at)]
    ends = [(line, y(line.values[-1])) for line in lines if line.name and line.values[-1] is not None]
    for (line, _), end in zip(ends, _keep_apart([end for _, end in ends], 15.0), strict=True):
        parts.append(_text(line.name, width - right + 9, end + 4, f"end {line.style}", "start"))
    return _chart(width, height, title, parts)


def share_row(region: Region, highest: float) -> Markup:
    """Draw the shares of one region on a scale from 0 to `highest`: votes with their error, samples, private points."""

    def x(share: float) -> str:
        return f"{2 + 96 * min(max(share / highest, 0.0), 1.0):.2f}%"

    low, high = x(region.votes - region.error), x(region.votes + region.error)
    square = element("rect", class_="samples", x=-6, y=-6, width=12, height=12, rx=2)
    label = f"{100 * region.votes:.0f}% of the votes, {100 * region.samples:.0f}% of the samples"
    parts = [
        element("line", class_="track", x1="2%", x2="98%", y1="50%", y2="50%"),
        element("line", class_="open", x1=low, x2=high, y1="50%", y2="50%"),
        element("circle", class_="votes", cx=x(region.votes), cy="50%", r=6),
        element("svg", square, class_="at", x=x(region.samples), y="50%"),
    ]
    if region.real is not None:
        diamond = element("path", class_="real", d="M0 -8L8 0L0 8L-8 0Z")
        parts.append(element("svg", diamond, class_="at", x=x(region.real), y="50%"))
        label += f", {100 * region.real:.0f}% of the private points"
    return element("svg", *parts, class_="shares", role="img", aria_label=label)


def _text(content: str, x: float, y: float, style: str, anchor: str) -> Markup:
    return element("text", content, class_=style, x=x, y=y, text_anchor=anchor)


def _path(style: str, points: Sequence[tuple[float, float]]) -> Markup:
    return element("path", class_=style, d="M" + " L".join(f"{x:.1f} {y:.1f}" for x, y in points))


def _line(
    line: Line, x: Callable[[int], float], y: Callable[[float], float], ends_at: tuple[float, float]
) -> list[Markup]:
    points = [(x(index), y(value)) for index, value in enumerate(line.values) if value is not None]
    if not points:
        return []
    reference = "dashed" in line.style
    if reference and len(points) == 1:  # a line of one round has no length
        points = [(end, points[0][1]) for end in ends_at]
    dots = [] if reference else points
    return [
        _path(f"line {line.style}", points),
        *(element("circle", class_=f"dot {line.style}", cx=a, cy=b, r=3) for a, b in dots),
    ]


def _chart(width: float, height: float, title: str, parts: Sequence[Markup]) -> Markup:
    return element("svg", *parts, viewBox=f"0 0 {width:g} {height:g}", role="img", aria_label=title)


def _ticks(low: float, high: float, sigma: float) -> list[tuple[float, str]]:
    """Return ticks with their names: a few multiples of sigma, or numbers of votes where there is no noise."""
    unit = sigma or _round_up(high / 3)
    step = unit * next(factor for factor in (1, 3, 6, 12) if high <= 4.2 * factor * unit or factor == 12)
    ticks = [step * i for i in range(-2, 5) if low < step * i < high - 0.02 * (high - low)]
    names = [f"{votes / sigma:.0f}σ" if sigma and votes else f"{votes:.0f}" for votes in ticks]
    return [(votes, name.replace("-", "−")) for votes, name in zip(ticks, names, strict=True)]


def _round_up(value: float) -> float:
    """Return the next larger number whose quarters are short to write."""
    if value <= 0:
        return 1.0
    size = 10.0 ** math.floor(math.log10(value))
    return next(step * size for step in (1, 2, 4, 6, 8, 10) if step * size >= value * 0.999)


def _keep_apart(heights: Sequence[float], gap: float) -> list[float]:
    """Move labels down until neighbours are at least `gap` apart, keeping their order."""
    moved = list(heights)
    for above, below in pairwise(sorted(range(len(heights)), key=lambda i: heights[i])):
        moved[below] = max(moved[below], moved[above] + gap)
    return moved
