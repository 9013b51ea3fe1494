"""The sections of the page as plain values. Markup is in the templates, which escape whatever is not a chart."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from gape._support.files import read_table
from gape.metrics.repetition import repetition
from gape.report import charts, facts, words
from gape.report.lineage import Lineage
from gape.report.regions import Region, Regions
from gape.report.signal import LEVELS, Signal, measure_all
from gape.runs.folder.record import RunRecord

if TYPE_CHECKING:
    from gape.report.page import Internal, MapData

View = dict[str, Any]  # `title`, `lead` (its first sentences) and what else its template needs

_MOST_HISTOGRAMS = 12


def sections(
    record: RunRecord, lineage: Lineage, map_data: MapData | None, internal: Internal | None
) -> dict[str, View]:
    """Return the sections in their order on the page, by the names of their templates."""
    views = {
        "guarantee": _guarantee(record),
        "scores": _scores(internal) if internal is not None else None,
        "signal": _signal(record),
        "map": _map(record, map_data) if map_data is not None else None,
        "regions": _regions(map_data.regions, record) if map_data is not None and map_data.regions else None,
        "labels": _labels(record),
        "diversity": _diversity(record),
        "browse": _browse(record, lineage),
        "settings": _settings(record),
    }
    return {name: view for name, view in views.items() if view is not None}


def _guarantee(record: RunRecord) -> View:
    return {
        "title": "Privacy guarantee",
        "lead": "",
        "promise": facts.promise(record),
        "terms": facts.guarantee(record),
        "unit": facts.unit_protected(record),
        "counts_are_public": record.plan.neighbours == "replace",
        "has_labels": record.start.dtype.names is not None,
    }


def _scores(internal: Internal) -> View:
    scores = internal.scores
    first, last = scores[0], scores[-1]
    lines = [
        charts.Line("recall", [score.recall for score in scores], "l2"),
        charts.Line("precision", [score.precision for score in scores], "l3"),
    ]
    return {
        "title": "Scores against the private data",
        "lead": f"Recall went from {first.recall:.2f} to {last.recall:.2f}. The mean distance from a private point to "
        f"the nearest sample went from {first.distance:.3f} to {last.distance:.3f}. These scores are not "
        "differentially private.",
        "measured": len(internal.view.points),
        "records": internal.view.records,
        "chart": charts.line_chart(lines, "Recall and precision by round", percent=True, first=0),
        "rows": [
            [turn or "start", *(f"{x:.3f}" for x in (score.recall, score.precision, score.distance, score.wasserstein))]
            for turn, score in enumerate(scores)
        ],
    }


def _signal(record: RunRecord) -> View | None:
    title = "Signal and noise"
    if record.plan.by_survey:
        return None
    if not record.rounds:
        return {"title": title, "lead": "No votes yet.", "histograms": []}
    signals = measure_all(record.rounds, record.sigma)
    effective = [
        charts.Line("effective", [signal.effective for signal in signals], "l2"),
        charts.Line("samples kept", [float(len(round_.samples)) for round_ in record.rounds], "l3 dashed"),
    ]
    return {
        "title": title,
        "lead": words.of_signal(signals, record.sigma),
        "histograms": [
            _histogram(signals, index, record.sigma) for index in _evenly_spaced(len(signals), _MOST_HISTOGRAMS)
        ],
        "levels": _levels(signals) if record.sigma else None,
        "effective": charts.line_chart(effective, "Effective number of candidates by round", percent=False),
        "effective_caption": words.of_effective(signals, record.plan.samples),
        "heads": [f"above {level}σ (noise alone)" for level in LEVELS] if record.sigma else ["with votes"],
        "rows": [_signal_row(turn, signal) for turn, signal in enumerate(signals, start=1)],
    }


def _histogram(signals: list[Signal], index: int, sigma: float) -> View:
    signal = signals[index]
    high = f"{signal.above[-1]:,} {'above 3σ' if sigma else 'with votes'}"
    title = f"Votes for the {signal.candidates} candidates of round {index + 1}: {high}"
    return {"round": index + 1, "high": high, "chart": charts.histogram(signal, title, sigma)}


def _evenly_spaced(count: int, limit: int) -> list[int]:
    """Return all indices below `count`, or `limit` of them from the first to the last."""
    steps = min(count, limit) - 1
    return sorted({round(i * (count - 1) / max(1, steps)) for i in range(steps + 1)})


def _levels(signals: list[Signal]) -> View:
    lines = []
    for index, level in enumerate(LEVELS):
        lines.append(charts.Line(f"above {level}σ", [s.above[index] / s.candidates for s in signals], f"l{index}"))
        lines.append(charts.Line("", [s.by_noise[index] / s.candidates for s in signals], f"l{index} dashed"))
    chart = charts.line_chart(lines, "Share of candidates above 1, 2 and 3 sigma by round", percent=True)
    return {"chart": chart, "caption": words.of_levels(signals)}


def _signal_row(turn: int, signal: Signal) -> list[str]:
    above = [
        f"{count:,}" if signal.noise is None else f"{count:,} ({expected:.1f})"
        for count, expected in zip(signal.above, signal.by_noise, strict=True)
    ]
    effective = "hidden by noise" if signal.effective is None else f"{signal.effective:.0f}"
    return [str(turn), f"{signal.candidates:,}", *above, effective]


def _map(record: RunRecord, map_data: MapData) -> View:
    drawn = max(len(points) for points in map_data.points)
    plane = map_data.plane
    return {
        "title": "Map",
        "lead": words.of_map(record),
        "last": record.last,
        "axes": words.of_axes(record.modality.nouns, plane.shown, map_data.embedder, exact=plane.exact),
        "drawn": drawn if any(len(record.samples(turn)) > drawn for turn in range(record.last + 1)) else None,
    }


def _regions(regions: Regions, record: RunRecord) -> View:
    highest = max((max(r.votes + r.error, r.samples, r.real or 0.0) for r in regions.clusters), default=1.0)
    return {
        "title": "Coverage by region",
        "lead": words.of_regions(regions, record.modality.nouns),
        "sampled": regions.candidates if regions.share < 1 else None,
        "highest": f"{100 * highest:.0f}%",
        "regions": [_region(region, highest, record.modality.nouns) for region in regions.clusters],
    }


def _region(region: Region, highest: float, noun: str) -> View:
    shares = f"votes {100 * region.votes:.1f}% ± {100 * region.error:.1f}, {noun} {100 * region.samples:.1f}%"
    if region.real is not None:
        shares += f", private {100 * region.real:.1f}%"
    return {
        "name": ", ".join(region.words) or "Around",
        "typical": region.typical,
        "pictured": region.pictured,
        "chart": charts.share_row(region, highest),
        "shares": shares,
        "verdict": region.verdict,
    }


def _labels(record: RunRecord) -> View | None:
    by_round = [turn.diagnostics.get("noisy_votes") for turn in record.rounds]
    known = [votes for votes in by_round if isinstance(votes, dict)]
    if not known or len(known) < len(by_round):
        return None
    # Earlier versions shared out the samples by the last round alone, and did not store the votes so far.
    summed = "label_votes" in read_table(record.layout.round(record.last).synthetic).column_names
    votes = {label: sum(counts.get(label, 0) for counts in known[0 if summed else -1 :]) for label in known[-1]}
    kept = Counter(record.samples(record.last)["label"].tolist())
    total, size = sum(max(0, count) for count in votes.values()), kept.total()
    lead = (
        f"Each label gets its share of the noisy votes of {'all rounds' if summed else 'the last round'}, rounded to a "
        "whole number, if it has enough candidates."
    )
    if lost := sorted(set(record.start["label"].tolist()) - set(kept)):
        lead += f" No {record.modality.nouns} are left with {', '.join(lost)}, whose share rounds to zero."
    return {
        "title": "Labels",
        "lead": lead,
        "rows": [
            [label, f"{count:,}", _percent(max(0, count), total), f"{kept[label]:,}", _percent(kept[label], size)]
            for label, count in votes.items()
        ],
    }


def _diversity(record: RunRecord) -> View | None:
    """Only for texts."""
    if not record.modality.has_words:
        return None
    last = record.samples(record.last)
    measured = repetition(record.modality.wording(last))
    lines = [
        charts.Line("lineages", [float(len(sizes)) for sizes in record.families], "l2"),
        charts.Line("largest", [float(sizes[0]) for sizes in record.families], "l3 dashed"),
    ]
    return {
        "title": "Diversity",
        "lead": words.of_diversity(record, measured),
        "terms": facts.diversity(measured),
        "lineages": charts.line_chart(lines, "Lineages by round", percent=False, first=0) if record.rounds else None,
    }


def _browse(record: RunRecord, lineage: Lineage) -> View:
    return {
        "title": f"Browse the {record.modality.nouns}",
        "lead": words.of_samples(record),
        "last": record.last,
        "labels": None if lineage.labels is None else sorted(set(lineage.labels)),
        "shortened": lineage.shortened,
        "pictured": record.modality.pictures(record.start[:0]) is not None,
    }


def _settings(record: RunRecord) -> View:
    settings = facts.settings_in_words(record)
    return {"title": "Cost and settings", "lead": "", "cost": facts.cost(record), "settings": settings}


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "–"
