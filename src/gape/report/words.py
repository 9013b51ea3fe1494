"""The sentences above the charts: what each shows, in numbers of this run."""

from __future__ import annotations

import math

from gape.evaluation.metrics.repetition import USUAL, USUAL_POSTS, Repetition, repeats_itself
from gape.report.regions import Regions
from gape.report.signal import Signal
from gape.runs.record import RunRecord
from gape.runs.settings import ROWS

INTERNAL = (
    "NOT DIFFERENTIALLY PRIVATE. This page was made by looking at the private data: it draws private points and "
    "measures by them, and no noise covers that. Do not pass it on. Whatever you change in a run after reading it is "
    "decided by private data, and no ledger has counted that."
)


def lede(folder: RunRecord, *, internal: bool) -> str:
    """Say what was made, how, and what the page holds."""
    made = f"{len(folder.samples(folder.last)):,} {folder.noun}"
    rounds = f"{folder.last} round{'' if folder.last == 1 else 's'}"
    how = f"A generator wrote candidates, and private records voted for the nearest ones in {rounds}"
    noise = ", under noise" if folder.sigma else ", without noise"
    holds = (
        "Beside them this page shows private points."
        if internal
        else f"This page holds synthetic {folder.noun}, {'noisy ' if folder.sigma else ''}votes and public settings, "
        "and nothing else."
    )
    return f"{how}{noise}; {made} are left. {holds}"


def unfinished(folder: RunRecord) -> str:
    """Say how far a run is that has not ended."""
    return (
        f"Not finished: {folder.last} of {folder.plan.rounds} rounds are done. What follows is how it stands; the "
        "guarantee is stated when the run ends."
    )


def of_signal(signals: list[Signal], sigma: float) -> str:
    """Say whether the votes of the last round stand out from their noise."""
    last, turn = signals[-1], len(signals)
    if not sigma:
        return f"In round {turn}, {last.above[0]:,} of {last.candidates:,} candidates got a vote. There is no noise."
    high, by_noise = last.above[-1], last.by_noise[-1]
    said = (
        f"In round {turn}, {high:,} of {last.candidates:,} candidates stand more than three sigma above zero; noise "
        f"alone would put {_about(by_noise)} there."
    )
    if high > 2 * by_noise + 2:
        return said
    return (
        said + " The votes hardly rise above their noise: fewer samples, more records or a larger epsilon would help."
    )


def of_levels(signals: list[Signal]) -> str:
    """Say how the candidates above two sigma have changed."""
    shares = [each.above[1] / each.candidates for each in signals]
    if len(shares) == 1:
        return f"{100 * shares[0]:.2g}% of the candidates stand above two sigma."
    trend = "rose" if shares[-1] > 1.15 * shares[0] else "fell" if shares[-1] < 0.87 * shares[0] else "hardly changed"
    return (
        f"The share above two sigma {trend}, from {100 * shares[0]:.2g}% in the first round to {100 * shares[-1]:.2g}% "
        "in the last; noise alone gives 2.3%."
    )


def of_effective(signals: list[Signal], samples: int) -> str:
    """Say among how many candidates the votes are spread."""
    last = signals[-1].effective
    if last is None:
        return "The noise hides among how many candidates the votes of the last round are spread."
    relation = "more than" if last > 1.15 * samples else "fewer than" if last < 0.87 * samples else "about as many as"
    return (
        f"In the last round the votes are spread as if {_about(last)} candidates shared them evenly, {relation} the "
        f"{samples:,} that can stay."
    )


def of_map(folder: RunRecord) -> str:
    """Say how much the last round has changed."""
    size = len(folder.samples(folder.last))
    if not folder.rounds:
        return f"The {size:,} {folder.noun} of the start, as the generator wrote them."
    last = folder.rounds[-1]
    new = int((last.scales[last.chosen] > 0).sum())
    return (
        f"In round {folder.last}, {new:,} of the {size:,} {folder.noun} are new and {size - new:,} stayed as they were."
    )


def embedder_called(spec: str) -> str:
    """Name what compares the samples."""
    known = {"minilm": "all-MiniLM-L6-v2", ROWS: "how many of their columns agree"}
    return known.get(spec) or spec.partition(":")[2].rsplit("/", 1)[-1]


def of_axes(folder: RunRecord, shown: float, embedder: str, *, exact: bool) -> str:
    """Say what lies near what."""
    if exact:
        return "Samples have two coordinates; the map is their plane."
    return (
        f"{folder.noun.capitalize()} near each other are alike, by {embedder}. The map shows the two directions in "
        f"which the synthetic {folder.noun} differ most, {100 * shown:.0f}% of all difference, so some that look near "
        "are not."
    )


def of_regions(regions: Regions, noun: str) -> str:
    """Say how many regions are thin for sure."""
    thin = [each for each in regions.found if each.verdict == "thin"]
    if not thin:
        return f"In no region do the {noun} fall short of the votes by more than the noise leaves open."
    worst = max(thin, key=lambda each: each.votes - each.samples)
    name = f"“{', '.join(worst.words)}”" if worst.words else worst.typical
    many = "One region is thin" if len(thin) == 1 else f"{len(thin)} regions are thin"
    return (
        f"{many}: the widest gap is that of {name}, with {100 * worst.samples:.0f}% of the {noun} for "
        f"{100 * worst.votes:.0f}% of the votes, give or take {100 * worst.error:.0f}."
    )


def of_samples(folder: RunRecord) -> str:
    """Say where the last samples come from."""
    m = len(folder.samples(folder.last))
    if not folder.rounds:
        return f"The {m:,} {folder.noun} of the start; nothing has voted yet."
    origins, varied = folder.ways
    first, same = len(set(origins.tolist())), int((varied == 0).sum())
    return (
        f"The {m:,} {folder.noun} descend from {first:,} of the {len(folder.start):,} at the start; "
        f"{same:,} {'was' if same == 1 else 'were'} never changed."
    )


def of_variety(folder: RunRecord, found: Repetition) -> str:
    """Say whether the texts repeat one another, and how many lineages are left."""
    shared = f"{found.repeating:.0%} of the {len(folder.samples(folder.last)):,} texts share eight words in a row with"
    usual = f"among 2,000 abstracts and 10,000 forum posts that people wrote, {USUAL_POSTS:.0%} to {USUAL:.0%} do"
    plainly = "These texts repeat one another: " * repeats_itself(found.repeating)
    said = f"{plainly}{shared} another one; {usual}."
    if not folder.rounds:
        return said
    left, largest = len(folder.families[-1]), int(folder.families[-1][0])
    lineages = f"{left:,} of the {len(folder.start):,} lineages of the start are left"
    return f"{said} {lineages}; the largest has {largest:,} texts."


def _about(number: float) -> str:
    if number < 0.1:
        return "almost none"
    return f"about {number:.2g}" if number < 10 else f"about {math.floor(number + 0.5):,}"
