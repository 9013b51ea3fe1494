"""The sections of the page as HTML. Whatever comes from a run goes through `escape`, or into the data of the script."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from string import Template
from typing import TYPE_CHECKING

from gape.evaluation.metrics.repetition import repetition
from gape.report import charts, facts, words
from gape.report.lineage import Lineage
from gape.report.regions import Region, Regions
from gape.report.signal import LEVELS, Signal
from gape.runs.record import RunRecord

if TYPE_CHECKING:
    from gape.report.private import Scores

_MOST_HISTOGRAMS = 12
_MARKS = {
    "votes": '<circle class="votes" cx="9" cy="8" r="6"/>',
    "samples": '<rect class="samples" x="3" y="2" width="12" height="12" rx="2"/>',
    "real": '<path class="real" d="M9 1L16 8L9 15L2 8Z"/>',
    "open": '<line class="open" x1="3" x2="15" y1="8" y2="8"/>',
}


def template(name: str) -> Template:
    """Read one of the files of HTML beside this one."""
    return Template((files(__package__) / name).read_text(encoding="utf-8"))


def section(name: str, title: str, *content: str) -> str:
    """Wrap the content of a section under its title."""
    head = f'<h2 id="{name}-title">{title}</h2>'
    return f'<section id="{name}" aria-labelledby="{name}-title">{head}{"".join(content)}</section>'


def guarantee(folder: RunRecord, *, internal: bool) -> str:
    """What is promised, to whom, by what, and what was assumed."""
    return section(
        "guarantee",
        f"The guarantee of the {folder.noun}, which does not cover this page" if internal else "The guarantee",
        f'<p class="statement">{escape(facts.promise(folder))}</p>',
        _terms(facts.guarantee(folder)),
        '<div class="two">',
        f"<div><h3>Taken as public</h3>{_bullets(facts.assumed_public(folder))}</div>",
        f"<div><h3>Not protected</h3>{_bullets(facts.unprotected(folder))}</div></div>",
    )


def signal(folder: RunRecord, signals: list[Signal]) -> str:
    """Distribution of the noisy votes by round, and what stands out of their noise."""
    has_noise = folder.sigma > 0
    if has_noise:
        scale = "in sigmas, the scale of the noise. The curve is what noise alone would give. Blue: above three sigma"
    else:
        scale = "no noise was added. Blue: at least one"
    drawn = "".join(_histogram(signals, place, folder.sigma) for place in _some(signals))
    parts = [
        _say(words.of_signal(signals, folder.sigma)),
        "<h3>How many votes the candidates of each round got</h3>",
        f'<p class="note">Across: votes of a candidate, {scale}. Upward: number of candidates, by its square root.</p>',
        f'<div class="many">{drawn}</div>',
    ]
    effective = [
        charts.Line("effective", [each.effective for each in signals], "l2"),
        charts.Line("samples kept", [float(len(each.samples)) for each in folder.rounds], "l3 dashed"),
    ]
    figures = [
        _figure(
            "Effective candidates by round",
            words.of_effective(signals, folder.plan.samples),
            charts.line_chart(effective, "Effective candidates by round", percent=False),
        )
    ]
    if has_noise:
        figures.insert(
            0,
            _figure(
                "Share of the candidates above 1, 2 and 3 sigma",
                words.of_levels(signals) + " Dashed: by noise alone.",
                charts.line_chart(_levels(signals), "Share of candidates above 1, 2 and 3 sigma", percent=True),
            ),
        )
    parts.append(f'<div class="two">{"".join(figures)}</div>')
    parts.append(f"<details><summary>The numbers</summary>{_signal_table(signals, has_noise=has_noise)}</details>")
    return section("signal", "Signal against noise", *parts)


def no_signal() -> str:
    """Stand in for the signal before the first round."""
    return section("signal", "Signal against noise", _say("Nothing has voted yet."))


def the_map(folder: RunRecord, axes: str, drawn: int, *, internal: bool) -> str:
    """The map with its controls; the script draws it."""
    one = folder.noun[:-1]
    most = max(len(folder.samples(turn)) for turn in range(folder.last + 1))
    note = f"{axes} Lines lead from the parent of each {one}."
    if drawn < most:
        note += f" Of each round {drawn:,} are drawn, the ancestors of those of the next among them."
    if internal:
        note += " Small and purple, beneath: private points."
    hint = f"Point at the map, or tap it, to read a {one}. A click keeps it and shows its way from the start."
    controls = template("map.html").substitute(last=folder.last, noun=folder.noun, note=escape(note), hint=hint)
    return section("map", f"Where the {folder.noun} went", _say(words.of_map(folder)), controls)


def regions(found: Regions, noun: str) -> str:
    """Shares of votes and samples by region."""
    if not found.found:
        said = "The noise hides even the sum of all votes, so nothing can be said about regions."
        return section("regions", "Which regions are thin", _say(said))
    most = max(max(each.votes + each.error, each.samples, each.real or 0.0) for each in found.found)
    keys = {
        "votes": "share of the noisy votes",
        "open": "what the noise leaves open",
        "samples": f"share of the {noun}",
    }
    if found.found[0].real is not None:
        keys["real"] = "share of the private points"
    some = "" if found.share >= 1 else f", {found.candidates:,} of them drawn at random"
    note = (
        f"Regions are clusters of the candidates of the last round{some}. All rows share one scale, from 0 to "
        f"{100 * most:.0f}%. A thin region need not be an error: the selection covers what it can with few {noun}."
    )
    return section(
        "regions",
        "Which regions are thin",
        _say(words.of_regions(found, noun)),
        f'<p class="note">{note}</p>',
        f'<ul class="key">{"".join(f"<li>{_mark(mark)}{name}</li>" for mark, name in keys.items())}</ul>',
        f'<ul class="regions">{"".join(_region(each, most, noun) for each in found.found)}</ul>',
    )


def labels(folder: RunRecord) -> str:
    """Noisy votes and samples by label, where the run has labels."""
    votes = folder.rounds[-1].diagnostics.get("noisy_votes") if folder.rounds else None
    if not isinstance(votes, dict):
        return ""
    own = Counter(folder.samples(folder.last)["label"].tolist())
    total, size = sum(max(0, each) for each in votes.values()), own.total()
    rows = [
        [label, f"{each:,}", _percent(max(0, each), total), f"{own[label]:,}", _percent(own[label], size)]
        for label, each in votes.items()
    ]
    said = "Each label gets its share of the noisy votes, to the next whole number, where it has enough candidates."
    if gone := sorted(set(folder.start["label"].tolist()) - set(own)):
        said += f" None is left of {', '.join(gone)}: where the noisy votes sum to nothing, a label goes."
    heads = ["label", "noisy votes", "share", folder.noun, "share"]
    return section("labels", "Label by label", _say(said), _table(heads, rows))


def variety(folder: RunRecord) -> str:
    """How much the texts repeat one another, and how many lineages survive, where samples are texts."""
    if not folder.is_text or folder.noun != "texts":
        return ""
    last = folder.samples(folder.last)
    found = repetition((last["text"] if last.dtype.names else last).tolist())
    terms = {
        "Repeating texts": f"{found.repeating:.0%} share eight words in a row with another one",
        "Distinct openings": f"{found.openings:.0%}: different first five words, among all texts",
        "Compression ratio": f"{found.compression:.3g}: of all texts packed together; more repetitive if higher",
    }
    if found.pairs is not None:
        terms["Distinct pairs"] = f"{found.pairs:.3g}: different pairs of words in a row, among all pairs"
    parts = [_say(words.of_variety(folder, found)), _terms(terms)]
    if folder.rounds:
        lines = [
            charts.Line("lineages", [float(len(each)) for each in folder.families], "l2"),
            charts.Line("largest", [float(each[0]) for each in folder.families], "l3 dashed"),
        ]
        drawn = charts.line_chart(lines, "Lineages by round", percent=False, first=0)
        caption = "How many texts of the start have descendants, and how many descend from the same one at most."
        parts.append(f'<div class="two">{_figure("Lineages by round", caption, drawn)}</div>')
    return section("variety", "Variety", *parts)


def samples(folder: RunRecord, lineage: Lineage) -> str:
    """The list of samples with its controls; the script fills it."""
    labels = note = ""
    if lineage.labels is not None:
        known = "".join(f'<option value="{each}">{each}</option>' for each in map(escape, sorted(set(lineage.labels))))
        labels = f'<label>Label <select id="label"><option value="">all</option>{known}</select></label>'
    if lineage.shortened:
        said = f"{lineage.shortened:,} long texts, ancestors included, are shortened here; the published file is whole."
        note = f'<p class="note">{said}</p>'
    title = f"The {folder.noun}, and where each came from"
    controls = template("samples.html").substitute(labels=labels, note=note)
    return section("browse", title, _say(words.of_samples(folder)), controls)


def work_and_settings(folder: RunRecord) -> str:
    """What it took, and how it was set."""
    return section(
        "settings",
        "Cost, time and settings",
        '<div class="two">',
        f"<div><h3>What it took</h3>{_terms(facts.work(folder))}</div>",
        f"<div><h3>Settings</h3>{_terms(facts.settings_in_words(folder))}</div></div>",
    )


def scores(found: Sequence[Scores], records: int, measured: int) -> str:
    """Measures by private points, round by round: for an internal report alone."""
    first, last = found[0], found[-1]
    heads = ["round", "recall", "precision", "distance", "W1"]
    rows = [
        [str(turn) if turn else "start", *(f"{x:.3f}" for x in (s.recall, s.precision, s.distance, s.wasserstein))]
        for turn, s in enumerate(found)
    ]
    lines = [
        charts.Line("recall", [each.recall for each in found], "l2"),
        charts.Line("precision", [each.precision for each in found], "l3"),
    ]
    drawn = charts.line_chart(lines, "Recall and precision by round", percent=True, first=0)
    said = (
        f"Recall went from {first.recall:.2f} to {last.recall:.2f}, the mean distance from a private point to the "
        f"nearest synthetic one from {first.distance:.3f} to {last.distance:.3f}. Not differentially private."
    )
    figure = _figure(
        "Recall and precision by round", "Of the private points, and of the samples; round 0 is the start.", drawn
    )
    note = (
        f"Measured by {measured:,} of {records:,} private records, which also voted. Distance: from a private point to "
        "the nearest sample, on average. W1: how far samples would have to move, on average, to lie as these points do."
    )
    return section(
        "scores",
        "How near it came, by the private data",
        _say(said),
        f'<div class="two">{figure}<div>{_table(heads, rows)}</div></div><p class="note">{note}</p>',
    )


def figures(rows: Mapping[str, str]) -> str:
    """Render the large numbers at the top."""
    return "".join(
        f"<li><strong>{escape(value)}</strong><span>{escape(name)}</span></li>" for name, value in rows.items()
    )


def _histogram(signals: list[Signal], place: int, sigma: float) -> str:
    each, level = signals[place], "above 3σ" if sigma else "with votes"
    said = f"Votes of the {each.candidates} candidates of round {place + 1}: {each.above[-1]} {level}"
    head = f"Round {place + 1}<small>{each.above[-1]:,} {level}</small>"
    return f"<figure><figcaption>{head}</figcaption>{charts.histogram(each, said, sigma)}</figure>"


def _some(signals: list[Signal]) -> list[int]:
    """All rounds, or as many as fit, from the first to the last."""
    steps = min(len(signals), _MOST_HISTOGRAMS) - 1
    return sorted({round(i * (len(signals) - 1) / max(1, steps)) for i in range(steps + 1)})


def _levels(signals: list[Signal]) -> list[charts.Line]:
    lines = []
    for place, level in enumerate(LEVELS):
        lines.append(charts.Line(f"above {level}σ", [s.above[place] / s.candidates for s in signals], f"l{place}"))
        lines.append(charts.Line("", [s.by_noise[place] / s.candidates for s in signals], f"l{place} dashed"))
    return lines


def _signal_table(signals: list[Signal], *, has_noise: bool) -> str:
    levels = [f"above {level}σ (by noise)" for level in LEVELS] if has_noise else ["with votes"]
    rows = []
    for turn, each in enumerate(signals, start=1):
        above = [
            f"{count:,} ({expected:.1f})" if has_noise else f"{count:,}"
            for count, expected in zip(each.above, each.by_noise, strict=True)
        ]
        effective = "hidden by noise" if each.effective is None else f"{each.effective:.0f}"
        rows.append([str(turn), f"{each.candidates:,}", *above, effective])
    return _table(["round", "candidates", *levels, "effective candidates"], rows)


def _region(region: Region, most: float, noun: str) -> str:
    name = escape(", ".join(region.words)) if region.words else "Around"
    said = f"votes {100 * region.votes:.0f}% ± {100 * region.error:.0f}, {noun} {100 * region.samples:.0f}%"
    if region.real is not None:
        said += f", private {100 * region.real:.0f}%"
    return (
        f"<li><div><h3>{name}</h3><p>{escape(region.typical)}</p></div>"
        f"<div>{charts.share_row(region, most)}<p>{said}</p></div>"
        f'<span class="verdict {region.verdict}">{region.verdict}</span></li>'
    )


def _mark(name: str) -> str:
    return f'<svg viewBox="0 0 18 16" aria-hidden="true">{_MARKS[name]}</svg>'


def _say(text: str) -> str:
    return f'<p class="say">{escape(text)}</p>'


def _figure(title: str, takeaway: str, drawn: str) -> str:
    return f"<figure><h3>{title}</h3><figcaption>{escape(takeaway)}</figcaption>{drawn}</figure>"


def _terms(rows: Mapping[str, str]) -> str:
    if not rows:
        return ""
    lines = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in rows.items())
    return f'<dl class="terms">{lines}</dl>'


def _bullets(lines: Iterable[str]) -> str:
    return f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(each)}</th>' for each in heads)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _percent(part: float, whole: float) -> str:
    return f"{100 * part / whole:.0f}%" if whole else "–"
