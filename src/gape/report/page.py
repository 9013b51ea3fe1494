"""One HTML file: style, script and data are inline, and its content security policy forbids everything else."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from gape import __version__
from gape.core.types import Points
from gape.report import facts, words
from gape.report.lineage import Lineage
from gape.report.plane import Plane
from gape.report.regions import Regions
from gape.report.sections import sections
from gape.runs.folder.record import RunRecord
from gape.runs.labels import is_a_cell

if TYPE_CHECKING:
    from gape.report.private import PrivateScores, PrivateView

MARK = "<!-- gape report -->"  # near the start of every report, so that a report can be recognised

_COLOURS = 6  # of votes, from few to many
# Ends a script element, a comment or a line of a script, or is half a surrogate pair: JSON can do without.
_UNSAFE = re.compile("[<>&\u2028\u2029\ud800-\udfff]")
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class MapData:
    """Everything on the page that needs embeddings."""

    plane: Plane
    points: list[Points]  # the samples drawn, by round
    regions: Regions | None  # none before the first round
    embedder: str


@dataclass(frozen=True)
class Internal:
    """The private points and the scores against them, in an internal report only."""

    view: PrivateView
    scores: list[PrivateScores]


def render(
    record: RunRecord, lineage: Lineage, map_data: MapData | None, internal: Internal | None, title: str | None
) -> str:
    """Render the page. Without `internal` it is made of public values only."""
    # What the package or `as_script` wrote is marked as markup here. The templates escape everything else.
    style, script = (Markup((files(__package__) / name).read_text("utf-8")) for name in ("style.css", "page.js"))  # noqa: S704
    template = _templates().get_template("page.html")
    page = template.render(
        internal=internal is not None,
        not_private="" if facts.is_private(record) else facts.promise(record),
        finished=record.finished,
        rounds=record.last,
        planned_rounds=record.plan.rounds,
        heading=title or f"{len(record.samples(record.last)):,} synthetic {record.modality.nouns}",
        lede=words.lede(record, internal=internal is not None),
        figures=facts.key_figures(record),
        sections=sections(record, lineage, map_data, internal),
        nouns=record.modality.nouns,
        noun=record.modality.noun,
        sigma=record.sigma,
        version=__version__,
        style=style,
        style_hash=_policy_hash(style),
        script=script,
        script_hash=_policy_hash(script),
        data=Markup(as_script(_data(record, lineage, map_data, internal))),  # noqa: S704
    )
    return _SURROGATE.sub("\ufffd", page)


def as_script(value: Any) -> str:
    """Write JSON that no text can break out of inside a script element."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


@cache
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("gape.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _data(record: RunRecord, lineage: Lineage, map_data: MapData | None, internal: Internal | None) -> dict[str, Any]:
    """Return everything that the script needs."""
    chart: dict[str, Any] | None = None
    if map_data is not None:
        chart = {"rounds": [map_data.plane.to_grid(points) for points in map_data.points]}
        if map_data.plane.exact:
            chart["ticks"] = map_data.plane.ticks()
        if internal is not None:
            chart["private"] = map_data.plane.to_grid(internal.view.points)
    pictured = record.modality.pictures(record.start[:0]) is not None
    return {
        "isText": record.start.ndim == 1 and not pictured,
        "pictured": pictured,
        "sigma": record.sigma,
        "scales": [0, *record.plan.scales],
        "edges": _colour_edges(lineage),
        "texts": lineage.texts,
        "labels": lineage.labels,
        "tagged": record.settings is None or not is_a_cell(record.settings, record.modality),
        "rounds": lineage.rounds,
        "map": chart,
    }


def _colour_edges(lineage: Lineage) -> list[int]:
    """Return the numbers of votes at which the colour changes; each colour gets about as many samples."""
    votes = [count for round_ in lineage.rounds[1:] for count in round_["votes"]]
    if not votes:
        return []
    quantiles = np.quantile(votes, np.arange(1, _COLOURS) / _COLOURS)
    return sorted({max(1, round(float(quantile))) for quantile in quantiles})


def _policy_hash(content: str) -> str:
    """Return the hash by which the content security policy allows an inline style or script."""
    return f"sha256-{base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()}"
