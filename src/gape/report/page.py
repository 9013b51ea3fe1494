"""One page of HTML that stands alone: its style, script and data are inside, and its policy forbids all else."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from gape import __version__
from gape.core.types import Points
from gape.privacy.accounting import stated
from gape.report import facts, sections, words
from gape.report.lineage import Lineage
from gape.report.plane import Plane
from gape.report.regions import Regions
from gape.report.signal import measure_all
from gape.runs.record import RunRecord

if TYPE_CHECKING:
    from gape.report.private import PrivateView, Scores

MARK = "<!-- gape report -->"  # how a file is known as one of ours

_CONTENTS = {
    "guarantee": "Guarantee",
    "scores": "Scores",
    "signal": "Signal and noise",
    "map": "Map",
    "regions": "Thin regions",
    "labels": "Labels",
    "variety": "Variety",
    "browse": "Samples",
    "settings": "Cost and settings",
}
_COLOURS = 6  # of votes, from few to many
# Ends a script element, a comment or a line of a script, or is half a character: no JSON needs it written out.
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Drawn:
    """What needs embeddings: the map and the regions."""

    plane: Plane
    points: list[Points]  # of the samples drawn, by round
    regions: Regions | None  # none before the first round
    embedder: str


@dataclass(frozen=True)
class Internal:
    """What makes a page internal: private points, and measures by them."""

    view: PrivateView
    scores: list[Scores]


def render(
    folder: RunRecord, lineage: Lineage, drawn: Drawn | None, internal: Internal | None, title: str | None
) -> str:
    """Render the page. Without `internal` it is made from public things alone."""
    heading = title or f"{len(folder.samples(folder.last)):,} synthetic {folder.noun}"
    style, script = (sections.template(name).template for name in ("style.css", "page.js"))
    parts = _sections(folder, lineage, drawn, internal)
    page = sections.template("page.html").substitute(
        mark="" if internal is None else "<!-- INTERNAL: NOT DIFFERENTIALLY PRIVATE -->",
        title=escape(f"{_warning(folder, internal)}{heading}"),
        style=style,
        style_hash=_hash(style),
        script=script,
        script_hash=_hash(script),
        body_class="internal" if internal else "release",
        banner=_banners(folder, internal),
        kicker="Internal report" if internal else "Synthetic data report",
        heading=escape(heading),
        lede=escape(words.lede(folder, internal=internal is not None)),
        figures=sections.figures(_figures(folder)),
        contents="".join(f'<a href="#{name}">{_CONTENTS[name]}</a>' for name, part in parts.items() if part),
        sections="".join(parts.values()),
        footer=f"Made by gape {escape(__version__)}. This page asks nothing of any network.",
        data=as_script(_data(folder, lineage, drawn, internal)),
    )
    return _HALF.sub("\ufffd", page)


def as_script(value: Any) -> str:
    """Write JSON that no text in it can break out of, whatever it says, inside a script element of HTML."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _sections(folder: RunRecord, lineage: Lineage, drawn: Drawn | None, internal: Internal | None) -> dict[str, str]:
    parts = {"guarantee": sections.guarantee(folder, internal=internal is not None)}
    if internal is not None and internal.scores:
        parts["scores"] = sections.scores(internal.scores, internal.view.records, len(internal.view.points))
    signals = measure_all(folder.rounds, folder.sigma) if folder.rounds else []
    parts["signal"] = sections.signal(folder, signals) if signals else sections.no_signal()
    if drawn is not None:
        axes = words.of_axes(folder, drawn.plane.shown, drawn.embedder, exact=drawn.plane.exact)
        most = max(len(each) for each in drawn.points)
        parts["map"] = sections.the_map(folder, axes, most, internal=internal is not None)
        if drawn.regions is not None:
            parts["regions"] = sections.regions(drawn.regions, folder.noun)
    parts["labels"] = sections.labels(folder)
    parts["variety"] = sections.variety(folder)
    parts["browse"] = sections.samples(folder, lineage)
    parts["settings"] = sections.work_and_settings(folder)
    return parts


def _data(folder: RunRecord, lineage: Lineage, drawn: Drawn | None, internal: Internal | None) -> dict[str, Any]:
    """All that the script needs."""
    chart: dict[str, Any] | None = None
    if drawn is not None:
        chart = {"rounds": [drawn.plane.place(points) for points in drawn.points]}
        if drawn.plane.exact:
            chart["ticks"] = drawn.plane.ticks()
        if internal is not None:
            chart["private"] = drawn.plane.place(internal.view.points)
    return {
        "isText": folder.is_text,
        "sigma": folder.sigma,
        "scales": [0, *folder.plan.scales],
        "edges": _edges(lineage),
        "texts": lineage.texts,
        "labels": lineage.labels,
        "rounds": lineage.rounds,
        "map": chart,
    }


def _edges(lineage: Lineage) -> list[int]:
    """Whole numbers of votes that divide the samples of all rounds into parts of about equal size, a colour each."""
    votes = [count for each in lineage.rounds[1:] for count in each["votes"]]
    if not votes:
        return []
    parts = np.quantile(votes, np.arange(1, _COLOURS) / _COLOURS)
    return sorted({max(1, round(float(each))) for each in parts})


def _figures(folder: RunRecord) -> dict[str, str]:
    plan = folder.plan
    rows = {
        "rounds of voting": f"{folder.last}" if folder.finished else f"{folder.last} of {plan.rounds}",
        "candidates judged": f"{sum(len(each.votes) for each in folder.rounds):,}",
    }
    if not _private(folder):
        return rows | {"guarantee": "none"}
    planned = "" if folder.finished else ", planned"
    return {
        f"epsilon{planned}": stated(facts.epsilon_of(folder), 3),
        f"delta{planned}": _power(plan.delta),
        "sigma, in votes": f"{folder.sigma:.3g}",
        **rows,
    }


def _power(number: float) -> str:
    """Write a delta as people do, rounded up: 1.1 × 10⁻⁴."""
    digits, _, exponent = f"{float(stated(number, 2)):.1e}".partition("e")
    return f"{digits.removesuffix('.0')} × 10{str(int(exponent)).translate(_RAISED)}"


def _private(folder: RunRecord) -> bool:
    """Whether a guarantee holds, or is planned to."""
    return math.isfinite(facts.epsilon_of(folder))


def _warning(folder: RunRecord, internal: Internal | None) -> str:
    """What the title says first."""
    if internal is not None:
        return "NOT DIFFERENTIALLY PRIVATE: "
    return "" if _private(folder) else "NOT PRIVATE: "


def _banners(folder: RunRecord, internal: Internal | None) -> str:
    said = []
    if internal is not None:
        said.append(("banner", words.INTERNAL))
    if not _private(folder):
        said.append(("banner", facts.promise(folder)))
    if not folder.finished:
        said.append(("banner later", words.unfinished(folder)))
    return "".join(f'<div class="{kind}" role="alert"><div><p>{escape(text)}</p></div></div>' for kind, text in said)


def _hash(content: str) -> str:
    """Name content as a policy does, so that a browser runs this and nothing else."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
