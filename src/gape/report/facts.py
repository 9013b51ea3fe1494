"""Facts about a run as terms and values: guarantee, settings, cost. File names, paths and addresses are left out."""

from __future__ import annotations

import math
import re

from gape.language.stored import stored_tokens
from gape.metrics.repetition import Repetition
from gape.modalities import Modality
from gape.privacy.accounting import spent, stated
from gape.privacy.statement import relation_in_words
from gape.report.words import embedder_name
from gape.runs.folder.layout import Layout
from gape.runs.folder.record import RunRecord
from gape.runs.folder.versions import versions_in_words
from gape.runs.method import method_in_words
from gape.runs.settings import Settings

_CLASS = re.compile(r"\b[A-Z]\w+(?=\()")
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def unit_protected(record: RunRecord) -> str:
    """Return the protected unit."""
    if record.statement is not None:
        return record.statement.unit
    return "user" if record.settings is not None and record.settings.user else "record"


def epsilon_of(record: RunRecord) -> float:
    """Return the stated epsilon or, for an unfinished run, that of all planned releases; infinite if not private."""
    statement, plan = record.statement, record.plan
    if statement is not None:
        return statement.epsilon if statement.private else math.inf
    return max(plan.epsilon, spent(plan.releases, plan.delta))


def is_private(record: RunRecord) -> bool:
    """Whether a guarantee holds, or is planned."""
    return math.isfinite(epsilon_of(record))


def promise(record: RunRecord) -> str:
    """Return the guarantee in words; for an unfinished run, say that there is none yet."""
    if record.statement is not None:
        return record.statement.text()
    plan, unit, epsilon = record.plan, unit_protected(record), epsilon_of(record)
    if math.isinf(epsilon):
        return "NOT PRIVATE: this run releases its votes without noise. Do not publish its output."
    return (
        f"No guarantee is stated before the run ends. After all {plan.rounds} rounds it is planned to be "
        f"({stated(epsilon)}, {stated(plan.delta)})-differential privacy for one {unit}. Each round that has voted is "
        "charged to the ledger of the data, even if the run never ends. Do not publish this page yet."
    )


def key_figures(record: RunRecord) -> dict[str, str]:
    """Return the large numbers at the top of the page."""
    if record.plan.by_survey:
        figures = {f"answers per {unit_protected(record)}, at most": f"{sum(record.plan.answers):,}"}
    else:
        figures = {
            "voting rounds": f"{record.last}" if record.finished else f"{record.last} of {record.plan.rounds}",
            "candidates voted on": f"{_candidates(record):,}",
        }
    if not is_private(record):
        return figures | {"guarantee": "none"}
    planned = "" if record.finished else " (planned)"
    return {
        f"epsilon{planned}": stated(epsilon_of(record), 3),
        f"delta{planned}": _scientific(record.plan.delta),
        f"noise sigma, in {'counts' if record.plan.by_survey else 'votes'}": f"{record.sigma:.3g}",
        **figures,
    }


def guarantee(record: RunRecord) -> dict[str, str]:
    """Return the terms of the guarantee; none if the run is not private."""
    if not is_private(record):
        return {}
    plan, unit = record.plan, unit_protected(record)
    nearest = "candidate" if plan.votes_per_record == 1 else f"{plan.votes_per_record} candidates"
    terms = {
        "Epsilon": stated(epsilon_of(record)),
        "Delta": stated(plan.delta),
        "Protected unit": f"one {unit}",
        "Neighbouring relation": relation_in_words(plan.neighbours, unit, named=True),
        "Mechanism": "Nearest-candidate votes with discrete Gaussian noise. Each record votes for the "
        f"{nearest} nearest to it in the embedding, and noise is added to each count before anything else uses it.",
        "Noise": f"sigma {plan.sigma:.4g} votes, in each of {len(plan.releases)} releases",
        f"Votes per {unit}": f"at most {plan.votes_per_unit} per release",
    }
    if plan.answers:
        before = "" if plan.by_survey else " before the first round"
        releases = "one release" if len(plan.answers) == 1 else f"{len(plan.answers)} releases"
        asked = f"at most {sum(plan.answers)} in {releases}{before}"
        terms[f"Answers per {unit} to public questions"] = asked
    if plan.by_survey:
        terms["Mechanism"] = "Noisy answers to public questions, with discrete Gaussian noise on each count."
        terms["Noise"] = f"sigma {plan.sigma:.4g} on each count, in each of {len(plan.releases)} releases"
        del terms[f"Votes per {unit}"]
    if record.statement is not None:
        terms["Noise source"] = "the operating system's secure generator; no seed exists"
        terms["All releases about the data"] = record.statement.in_total
    return terms


def settings_in_words(record: RunRecord) -> dict[str, str]:
    """Return the public settings. Files and addresses are mentioned without their names."""
    plan, nouns = record.plan, record.modality.nouns
    evolution = {
        "Rounds": f"{plan.rounds}",
        f"Initial {nouns}": f"{plan.initial:,}",
        f"Variations per {nouns[:-1]}": f"{len(plan.scales) * plan.copies} per round, "
        f"{'in addition to' if plan.keep else 'instead of'} the original",
        "Variation scales": ", ".join(f"{scale:g}" for scale in plan.scales),
    }
    terms = {
        f"{nouns.capitalize()} to generate": f"{plan.samples:,}",
        **({} if plan.by_survey else evolution),
        "Seed": f"{plan.seed}, for everything except the noise",
    }
    if record.versions:
        terms["Software"] = versions_in_words(record.versions)
    if record.settings is not None:
        return terms | _text_settings(record.settings, record.modality)
    # Descriptions of parts can contain anything, so only their class names are shown.
    return terms | {name.capitalize(): ", ".join(_CLASS.findall(f"{part}(")) for name, part in record.parts.items()}


def cost(record: RunRecord) -> dict[str, str]:
    """Return the use of the language model, and the time of steps that read no private data.

    The duration of voting may depend on the private data, so it is left out.
    """
    answers, tokens = stored_tokens(record.layout.answers)
    voted = {"Candidates voted on": f"{_candidates(record):,} in {record.last} rounds"}
    terms = {} if record.plan.by_survey else voted
    if answers:
        terms["Model responses"] = f"{answers:,}"
        terms["Tokens"] = f"{tokens.prompt:,} input, {tokens.completion:,} output"
    settings = record.settings
    if answers and settings is not None and sum(settings.prices) > 0:
        price = (tokens.prompt * settings.prices[0] + tokens.completion * settings.prices[1]) / 1e6
        terms["Price"] = f"{price:.4g}, in the currency of the prices in the settings"
    if seconds := writing_seconds(record.layout, record.last):
        terms["Generation time"] = f"{duration(sum(seconds))} for all rounds, including pauses"
    return terms


def diversity(measured: Repetition) -> dict[str, str]:
    """Return how much the texts repeat one another, in four measures."""
    terms = {
        "Repeating texts": f"{measured.repeating:.0%} share eight consecutive words with another text",
        "Distinct openings": f"{measured.openings:.0%}: number of distinct first five words over number of texts",
        "Compression ratio": f"{measured.compression:.3g} for all texts together; higher means more repetitive",
    }
    if measured.pairs is not None:
        terms["Distinct bigrams"] = f"{measured.pairs:.3g}: number of distinct word pairs over number of word pairs"
    return terms


def writing_seconds(layout: Layout, rounds: int) -> list[float]:
    """Return the time each round took to write its candidates, from file dates; empty if these are out of order."""
    seconds = []
    for turn in range(1, rounds + 1):
        begun = layout.round(turn - 1).synthetic.stat().st_mtime
        ended = layout.round(turn).candidates.stat().st_mtime
        seconds.append(ended - begun)
    return seconds if all(elapsed > 0 for elapsed in seconds) else []  # a copied folder may have lost its dates


def duration(seconds: float) -> str:
    """Return a duration in words."""
    if seconds < 1:
        return "under a second"
    for size, unit in ((3600, "hours"), (60, "minutes")):
        if seconds >= 2 * size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} seconds"


def _candidates(record: RunRecord) -> int:
    return sum(len(round_.votes) for round_ in record.rounds)


def _scientific(number: float) -> str:
    """Write a delta in scientific notation, rounded up: 1.1 × 10⁻⁴."""
    digits, _, exponent = f"{float(stated(number, 2)):.1e}".partition("e")
    return f"{digits.removesuffix('.0')} × 10{str(int(exponent)).translate(_SUPERSCRIPT)}"


def _text_settings(settings: Settings, modality: Modality) -> dict[str, str]:
    kind, _, name = settings.generator.partition(":")
    here = f"{name.rsplit('/', 1)[-1] or 'SmolLM2-135M-Instruct'}, on this machine"
    generators = {
        "embedded": here,
        "openvino": f"{here}, by OpenVINO",
        "corpus": f"none: {modality.nouns} from a public corpus",
        str(modality.defaults.get("generator", modality.name)): modality.written_by or "that of the modality",
    }
    prompts, own = settings.prompts or "generic", settings.embedder == modality.defaults.get("embedder")
    by_itself = kind == "corpus" or (settings.painter is None and modality.owns(settings.generator))
    terms = {
        "Generator": generators.get(kind) or name.rsplit("/", 1)[-1],
        "Further writers": ", ".join(settings.also or ()),
        "Painter": None if settings.painter is None else settings.painter.partition(":")[2].rsplit("/", 1)[-1],
        "Variation": settings.variation,
        "Prompts": None if by_itself else "a custom file" if prompts.endswith(".toml") else prompts,
        "Domain": settings.domain,
        "Topics": None if settings.topics is None else f"{len(settings.topics)}, public",
        "Embedder": modality.compared_by if own else embedder_name(settings.embedder),
        "Method": str(method_in_words(settings)),
        "Labels": None if settings.labels is None else ", ".join(settings.labels),
    }
    return {name: value for name, value in terms.items() if value}
