"""The sentences of the report that depend on the numbers of the run."""

from __future__ import annotations

import math

from gape.metrics.repetition import USUAL, USUAL_POSTS, Repetition, repeats_itself
from gape.report.regions import Regions
from gape.report.signal import Signal
from gape.runs.folder.record import RunRecord


def lede(record: RunRecord, *, internal: bool) -> str:
    """Say how the samples were made and what the page contains."""
    count, noun = len(record.samples(record.last)), record.modality.nouns
    origin = f"{count:,} initial {noun}. No private record has voted yet."
    if record.plan.by_survey:
        origin = (
            f"{count:,} {noun} that fit the answers of private records to public questions. "
            f"{'Noise' if record.sigma else 'No noise'} was added to the counts of the answers."
        )
    if record.rounds:
        rounds = "one round" if record.last == 1 else f"{record.last} rounds"
        origin = (
            f"{count:,} {noun}, selected in {rounds} from the candidates of a generator. Private records voted for the "
            f"nearest candidates, and {'noise' if record.sigma else 'no noise'} was added to their votes."
        )
    if internal:
        return f"{origin} This page also shows private points."
    votes = "counts of answers" if record.plan.by_survey else "votes"
    votes = f"noisy {votes}" if record.sigma else votes
    return f"{origin} This page contains only synthetic {noun}, {votes} and public settings."


def of_signal(signals: list[Signal], sigma: float) -> str:
    """Say whether the votes of the last round stand out from the noise."""
    last, turn = signals[-1], len(signals)
    if not sigma:
        return f"In round {turn}, {last.above[0]:,} of {last.candidates:,} candidates got votes. No noise was added."
    high, by_noise = last.above[-1], last.by_noise[-1]
    sentence = (
        f"In round {turn}, {high:,} of {last.candidates:,} candidates are above 3σ, three standard deviations of the "
        f"noise. Noise alone would give {_about(by_noise)}."
    )
    if high > 2 * by_noise + 2:
        return sentence
    return f"{sentence} The votes hardly exceed the noise. Fewer samples, more records or a larger epsilon would help."


def of_levels(signals: list[Signal]) -> str:
    """Say how the share of candidates above 2 sigma has changed."""
    first, last = (100 * signal.above[1] / signal.candidates for signal in (signals[0], signals[-1]))
    if len(signals) == 1:
        return f"{first:.2g}% of the candidates are above 2σ. Noise alone gives 2.3%."
    trend = "rose" if last > 1.15 * first else "fell" if last < 0.87 * first else "hardly changed"
    return (
        f"The share above 2σ {trend}: {first:.2g}% in the first round, {last:.2g}% in the last. Noise alone gives 2.3%."
    )


def of_effective(signals: list[Signal], samples: int) -> str:
    """Say how many candidates share the votes."""
    last = signals[-1].effective
    if last is None:
        return "In the last round, noise hides how many candidates share the votes."
    relation = "more than" if last > 1.15 * samples else "fewer than" if last < 0.87 * samples else "about as many as"
    return (
        f"In the last round, the votes are spread as if {_about(last)} candidates shared them evenly. That is "
        f"{relation} the {samples:,} kept."
    )


def of_map(record: RunRecord) -> str:
    """Say how much the last round has changed."""
    size = len(record.samples(record.last))
    if record.plan.by_survey:
        return f"The {size:,} {record.modality.nouns}."
    if not record.rounds:
        return f"The {size:,} initial {record.modality.nouns}, as generated."
    last = record.rounds[-1]
    new = int((last.scales[last.chosen] > 0).sum())
    nouns = record.modality.nouns
    return f"In round {record.last}, {new:,} of the {size:,} {nouns} are new and {size - new:,} are unchanged."


def embedder_name(spec: str) -> str:
    """Return the name of what measures similarity."""
    return "all-MiniLM-L6-v2" if spec == "minilm" else spec.rpartition(":")[2].rsplit("/", 1)[-1]


def of_axes(noun: str, share: float, embedder: str, *, exact: bool) -> str:
    """Say what distance on the map means."""
    if exact:
        return "The samples have two coordinates, and the map shows them."
    return (
        f"Similar {noun} are close together, as measured by {embedder}. The map shows the first two principal "
        f"components of the synthetic {noun}, {100 * share:.0f}% of the variance, so {noun} that look close can differ."
    )


def of_regions(regions: Regions, noun: str) -> str:
    """Say how many regions are significantly underrepresented."""
    if not regions.clusters:
        return "Noise hides even the total number of votes, so regions cannot be compared."
    under = [region for region in regions.clusters if region.verdict == "underrepresented"]
    if not under:
        return f"No region lacks {noun} by more than the margin of error."
    worst = max(under, key=lambda region: region.votes - region.samples)
    place = f"number {regions.clusters.index(worst) + 1} of the list"
    name = f"“{', '.join(worst.words)}”" if worst.words else place if worst.pictured else worst.typical
    count = "One region is" if len(under) == 1 else f"{len(under)} regions are"
    return (
        f"{count} underrepresented. The largest gap is at {name}: {100 * worst.samples:.1f}% of the {noun} for "
        f"{100 * worst.votes:.1f}% ± {100 * worst.error:.1f} of the votes."
    )


def of_samples(record: RunRecord) -> str:
    """Say where the last samples come from."""
    size, initial = len(record.samples(record.last)), len(record.start)
    if record.plan.by_survey:
        return f"The {size:,} {record.modality.nouns} that fit the survey."
    if not record.rounds:
        return f"The {size:,} initial {record.modality.nouns}; no round is done yet."
    origins, varied = record.ways
    first, same = len(set(origins.tolist())), int((varied == 0).sum())
    nouns = record.modality.nouns
    return f"The {size:,} {nouns} descend from {first:,} of the {initial:,} initial ones; {same:,} never changed."


def of_diversity(record: RunRecord, measured: Repetition) -> str:
    """Say whether the texts repeat one another, and how many lineages are left."""
    warning = "These texts repeat one another: " if repeats_itself(measured.repeating) else ""
    sentence = (
        f"{warning}{measured.repeating:.0%} of the {len(record.samples(record.last)):,} texts share eight consecutive "
        f"words with another text. For texts that people wrote it was {USUAL_POSTS:.0%} (10,000 forum posts) and "
        f"{USUAL:.0%} (2,000 abstracts)."
    )
    if not record.rounds:
        return sentence
    surviving, largest = len(record.families[-1]), int(record.families[-1][0])
    lineages = f"{surviving:,} of the {len(record.start):,} initial lineages are left; the largest has {largest:,} "
    return f"{sentence} {lineages}{'text' if largest == 1 else 'texts'}."


def _about(number: float) -> str:
    if number < 0.1:
        return "almost none"
    return f"about {number:.2g}" if number < 10 else f"about {math.floor(number + 0.5):,}"
