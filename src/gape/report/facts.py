"""What a page says of a run in words: guarantee, settings, work. Names of files, paths and addresses stay out of it."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

from gape.language.stored import stored_tokens
from gape.privacy.accounting import Release, spent, stated
from gape.report.words import embedder_called
from gape.runs.generator import NO_MODEL
from gape.runs.record import RunRecord
from gape.runs.run_folder import versions_in_words
from gape.runs.settings import PRIVATE_KMEANS, ROWS, Settings

RELATION = {
    "replace": "replace-one: the private data with one {unit} replaced by another",
    "add_remove": "add-or-remove-one: the private data with one {unit} more or less",
}
_MECHANISM = (
    "Nearest-candidate votes with discrete Gaussian noise: a record votes for the {nearest} in the embedding, and "
    "noise is added to each candidate's count before anything is looked at."
)
_CLASS = re.compile(r"\b[A-Z]\w+(?=\()")


def unit_of(folder: RunRecord) -> str:
    """What is protected."""
    if folder.statement is not None:
        return folder.statement.unit
    return "user" if folder.settings is not None and folder.settings.user else "record"


def epsilon_of(folder: RunRecord) -> float:
    """What a run is stated to cost or, before its end, what its releases will; infinite where it is not private."""
    told, plan = folder.statement, folder.plan
    if told is not None:
        return told.epsilon if told.private else math.inf
    if folder.settings is not None and folder.settings.separation == PRIVATE_KMEANS:
        return math.inf
    release = Release(folder.sigma, plan.neighbours, plan.votes_per_unit)
    return max(plan.epsilon, spent([release] * plan.rounds, plan.delta))


def promise(folder: RunRecord) -> str:
    """State the guarantee in words; before the end of a run, that there is none yet."""
    if folder.statement is not None:
        return folder.statement.text()
    plan, unit = folder.plan, unit_of(folder)
    epsilon, delta = epsilon_of(folder), plan.delta
    if math.isinf(plan.epsilon):
        return "NOT PRIVATE: the votes of this run are released without noise. Do not publish what it makes."
    if math.isinf(epsilon):
        return "NOT PRIVATE: this run reads more of the private data than it pays for. Do not publish what it makes."
    return (
        f"No guarantee is stated before the end of the run. When all {plan.rounds} rounds are done it is to be "
        f"({stated(epsilon)}, {stated(delta)})-differential privacy for one {unit}; every round that has voted is "
        "charged to the ledger of the data, whether or not the run ends. Do not publish this page before."
    )


def guarantee(folder: RunRecord) -> dict[str, str]:
    """The terms of the guarantee, one by one; none where there is no privacy to speak of."""
    plan, unit, epsilon = folder.plan, unit_of(folder), epsilon_of(folder)
    if math.isinf(epsilon):
        return {}
    told = folder.statement
    rows = {
        "Epsilon": stated(epsilon),
        "Delta": stated(plan.delta),
        "Protected unit": f"one {unit}",
        "Neighbouring data": RELATION[plan.neighbours].format(unit=unit),
        "Mechanism": _MECHANISM.format(nearest=_nearest(plan.votes_per_record)),
        "Noise": f"sigma {plan.sigma:.4g} votes, in each of {plan.rounds} releases",
        "Votes": f"at most {plan.votes_per_unit} by one {unit} in a release",
    }
    if told is not None:
        rows["Source of the noise"] = "the operating system's secure generator; no seed exists"
        rows["All releases on the data"] = told.in_total
    return rows


def _nearest(votes: int) -> str:
    return "candidate nearest to it" if votes == 1 else f"{votes} candidates nearest to it"


def assumed_public(folder: RunRecord) -> list[str]:
    """What the guarantee takes as known to everybody."""
    unit = unit_of(folder)
    lines = [
        *([f"the number of {unit}s in the private data"] if folder.plan.neighbours == "replace" else []),
        "the settings of the run, as listed below",
        "the generator, taken not to have learnt from the private data, and all it is asked",
        "the embedding model",
    ]
    return [*lines, "the labels that can occur"] if folder.start.dtype.names else lines


def unprotected(folder: RunRecord) -> list[str]:
    """What the guarantee does not cover."""
    unit = unit_of(folder)
    return [
        f"what is true of many {unit}s: showing it is the purpose",
        f"groups: for k {unit}s together the bound is k times epsilon, with a larger delta",
        "what the generator knew before, and choices made by looking at the private data",
        f"truth: {folder.noun} are made up, and likeness to a person or an event is no evidence",
    ]


def settings_in_words(folder: RunRecord) -> dict[str, str]:
    """The public settings. Where a text run names files or addresses, it is said that there are some."""
    plan = folder.plan
    kept = "beside the sample itself" if plan.keep else "in its place"
    rows = {
        f"{folder.noun.capitalize()} to make": f"{plan.samples:,}",
        "Rounds": f"{plan.rounds}",
        f"{folder.noun.capitalize()} to begin with": f"{plan.initial:,}",
        "Variations of each": f"{len(plan.scales) * plan.copies} a round, {kept}",
        "Scales": ", ".join(f"{scale:g}" for scale in plan.scales),
        "Seed": f"{plan.seed}, of everything but the noise",
    }
    if folder.versions:
        rows["Made by"] = versions_in_words(folder.versions)
    if folder.settings is not None:
        return rows | _text_settings(folder.settings)
    # How parts describe themselves may hold anything; their names do not.
    return rows | {name.capitalize(): ", ".join(_CLASS.findall(f"{part}(")) for name, part in folder.parts.items()}


def work(folder: RunRecord) -> dict[str, str]:
    """What the language model has done, and the time of what reads nothing private.

    How long voting takes may depend on the private data, and so stays out.
    """
    answers, tokens = stored_tokens(folder.path / "internal" / "answers.sqlite")
    judged = sum(len(each.votes) for each in folder.rounds)
    rows = {"Candidates judged": f"{judged:,} in {folder.last} rounds"}
    if answers:
        rows["Answers of the model"] = f"{answers:,}"
        rows["Tokens"] = f"{tokens.prompt:,} read, {tokens.completion:,} written"
    settings = folder.settings
    if answers and settings is not None and settings.prompt_price + settings.completion_price > 0:
        cost = (tokens.prompt * settings.prompt_price + tokens.completion * settings.completion_price) / 1e6
        rows["Cost"] = f"{cost:.4g}, in the currency of the prices"
    if seconds := writing_seconds(folder.path, folder.last):
        rows["Time of writing"] = f"{duration(sum(seconds))} for the candidates of all rounds, pauses included"
    return rows


def writing_seconds(run: Path, rounds: int) -> list[float]:
    """How long the candidates of every round took, by the dates of its files; empty where these are not in order."""
    folder = run / "internal" / "rounds"
    seconds = []
    for turn in range(1, rounds + 1):
        begun = (folder / f"{turn - 1:03d}" / "synthetic.parquet").stat().st_mtime
        ended = (folder / f"{turn:03d}" / "candidates.parquet").stat().st_mtime
        seconds.append(ended - begun)
    return seconds if all(each > 0 for each in seconds) else []  # a copied folder has lost them


def duration(seconds: float) -> str:
    """Say a time in words."""
    if seconds < 1:
        return "under a second"
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} seconds"


def _text_settings(settings: Settings) -> dict[str, str]:
    kind, _, name = settings.generator.partition(":")
    generators = {
        "embedded": "SmolLM2-135M-Instruct, on this machine",
        "corpus": "none: texts of a public corpus",
        ROWS: "none: rows drawn from the schema",
    }
    prompts = settings.prompts or "generic"
    said: dict[str, Any] = {
        "Generator": generators.get(kind) or name.rsplit("/", 1)[-1],
        "Variation": settings.variation,
        "Prompts": None if kind in NO_MODEL else "a file of their own" if prompts.endswith(".toml") else prompts,
        "Domain": settings.domain,
        "Topics": None if settings.topics is None else f"{len(settings.topics)}, public",
        "Embedder": embedder_called(settings.embedder),
        "Selection": settings.selector,
        "Threshold": f"{settings.threshold}" if settings.selector == "gape" else None,
        "Labels": None if settings.labels is None else ", ".join(settings.labels),
    }
    return {name: value for name, value in said.items() if value}
