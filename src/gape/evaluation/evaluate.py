"""How good synthetic texts are: scored by private records, and therefore NOT differentially private.

`evaluate` scores a run, or texts from anywhere, in one call: how much of the private data they reach and how far away
the whole is, what they are like as texts, whether they repeat records and, with labels, what they teach.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gape._support.files import read_json, write_json
from gape.core.errors import InputError, PrivacyError, RunError
from gape.core.types import Indices
from gape.evaluation.measures import beside, of_labels, of_memory, of_points
from gape.evaluation.sources import Embedded, Synthetic, embed_all, read_private, read_synthetic
from gape.metrics import balls, mean_nearest_distance, wasserstein1
from gape.metrics.measure import Measure, Scoring
from gape.metrics.repetition import repeats_itself
from gape.modalities import Columns, Records, keys
from gape.modalities.base import Groups
from gape.runs.folder.layout import Layout
from gape.runs.settings import Settings

__all__ = ["MARK", "Evaluation", "Measure", "RoundScores", "Scoring", "evaluate"]

MARK = "NOT differentially private: private records scored this. Do not publish it, nor choose by it what to publish."


@dataclass(frozen=True)
class RoundScores:
    """The texts after a round; round 0 is the start."""

    round: int
    texts: int
    recall: float
    mean_nearest_distance: float
    wasserstein1: float
    lineages: int  # members of the start that have a descendant among them
    largest: int  # texts of the largest lineage


@dataclass(frozen=True)
class Evaluation:
    """All that was measured, in groups, with what a reader must know to read it. NOT differentially private."""

    synthetic: str  # what was scored, in words
    scored_by: str  # which records scored it
    in_sample: bool  # whether they voted, or may have
    groups: Groups
    rounds: tuple[RoundScores, ...]  # of a run
    remarks: tuple[str, ...]
    settings: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return it as plain values, marked."""
        return {"differentially_private": False, "remark": MARK, **asdict(self)}

    def value(self, name: str) -> float:
        """Return the measure of this name."""
        for measures in self.groups.values():
            for each in measures:
                if each.name == name:
                    return each.value
        raise InputError(f"there is no measure {name!r}; there are {', '.join(self._names())}")

    def _names(self) -> list[str]:
        return [each.name for measures in self.groups.values() for each in measures]


def evaluate(
    synthetic: object,
    private: object,
    *,
    text: str | None = None,
    label: str | None = None,
    held_out: object = None,
    scoring: Scoring | None = None,
    real_baseline: bool = False,
    out: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
    **settings: Any,
) -> Evaluation:
    """Score synthetic texts by private records. NOT differentially private: for those who may see the private data.

    `synthetic` is the folder of a run, a file, or whatever else `load_texts` reads; `private` are the records that
    voted, and `held_out` ones that did not, which score instead where they are given: records that voted are nearer to
    what they chose. `text` and `label` name columns; for rows of a table outside a run, `schema` names the file of its
    columns. With `label`, a classifier is trained on the texts and tested on the records. `real_baseline` scores as
    many private records in the same way. `settings` are those of the embedder, by default the run's. What is found is
    written to `out`, by default internal/evaluation.json of a run.
    """
    tell, scoring = progress or (lambda _: None), scoring or Scoring()
    columns, asked = Columns(text, label), Settings.of(settings)
    made = read_synthetic(synthetic, columns, str(asked.modality), asked.schema)
    path = _destination(made, out)
    chosen = asked if made.run is None else _agreed(made, settings)
    voters = read_private(private, made, columns)
    others = None if held_out is None else read_private(held_out, made, columns)
    records = voters if others is None else others
    _require_enough(len(records), scoring)
    points = embed_all(made, voters, others, chosen, tell)
    tell("scoring")
    target = label or (chosen.label if made.run is not None else None)
    groups = _groups(made, voters, others, points, target, scoring)
    if real_baseline:
        tell("scoring as many real records")
        groups = _with_baseline(groups, made, voters, others, points, target, scoring)
    found = Evaluation(
        made.source,
        *_scored_by(made, chosen, voters, others),
        groups,
        _rounds(points, made.families, scoring, tell),
        (*_remarks(made, voters, others), *_on_repetition(groups)),
        {**asdict(scoring), "embedder": points.embedder, "real_baseline": real_baseline},
    )
    if path is not None:
        write_json(path, found.as_json(), mode=0o600)
    return found


def _agreed(made: Synthetic, values: dict[str, Any]) -> Settings:
    """Return the settings of a run, by which its embedder is made."""
    given = {name: value for name, value in values.items() if value is not None}
    for name in ("schema", "modality"):
        if name in given:
            raise InputError(f"{made.source} has its own {name} or none, got {given[name]!r}; leave it out")
    if made.run is None:
        raise RunError(f"{made.source} is not a run; name the folder of one")
    return made.run.agreed(["embedder"], **given)


def _require_enough(records: int, scoring: Scoring) -> None:
    if records <= scoring.k:
        raise InputError(
            f"{records} records are too few to score by the {scoring.k} nearest others of each; give more or lower k"
        )


def _groups(
    made: Synthetic, voters: Records, others: Records | None, points: Embedded, target: str | None, scoring: Scoring
) -> Groups:
    kind, records = made.modality, voters if others is None else others
    held_out = None if others is None or points.held_out is None else (others.content, points.held_out)
    groups: Groups = {
        "Nearness": of_points(kind.nouns, points.scoring, points.synthetic, scoring),
        **kind.measures(records.content, made.content, scoring),
        "Memorisation": of_memory(
            kind, (voters.content, points.private), held_out, (made.content, points.synthetic), scoring
        ),
        "Usefulness": _usefulness(made, voters, others, scoring),
    }
    if records.labels is not None and made.labels is not None:
        taught = made.labels.tolist(), kind.features(made.content, points.synthetic, target)
        tested = records.labels.tolist(), kind.features(records.content, points.scoring, target)
        groups["Usefulness"] += of_labels(tested, taught, scoring)
    return {name: measures for name, measures in groups.items() if measures}


def _usefulness(made: Synthetic, voters: Records, others: Records | None, scoring: Scoring) -> tuple[Measure, ...]:
    """Measure what the samples teach, beside as many private records; no record is both learnt from and predicted."""
    count = len(made.content)
    order = np.random.default_rng([scoring.seed, *b"baseline"]).permutation(len(voters))
    drawn, rest = order[:count], order[count:]
    tested = others.content if others is not None else voters.content[rest if len(rest) else order]
    known = voters.content[drawn] if others is not None or len(rest) else voters.content[:0]
    start = made.rounds[0][:count] if made.rounds else made.content[:0]
    return made.modality.usefulness(tested, made.content, start, known, scoring)


def _with_baseline(
    groups: Groups,
    made: Synthetic,
    voters: Records,
    others: Records | None,
    points: Embedded,
    target: str | None,
    scoring: Scoring,
) -> Groups:
    """Score as many private records as there are samples; without held-out records, by the other private ones."""
    kind = made.modality
    order = np.random.default_rng([scoring.seed, *b"baseline"]).permutation(len(voters))
    drawn, rest = order[: len(points.synthetic)], order[len(points.synthetic) :]
    if others is None:
        _require_enough(len(rest), scoring)
    records, real = (voters, points.private[rest]) if others is None else (others, points.scoring)
    content = records.content[rest] if others is None else records.content
    measured: Groups = {
        "Nearness": of_points(kind.nouns, real, points.private[drawn], scoring),
        **kind.measures(content, voters.content[drawn], scoring),
    }
    if "Usefulness" in groups and records.labels is not None and voters.labels is not None:
        labels = records.labels[rest] if others is None else records.labels
        taught = voters.labels[drawn].tolist(), kind.features(voters.content[drawn], points.private[drawn], target)
        measured["Usefulness"] = of_labels((labels.tolist(), kind.features(content, real, target)), taught, scoring)
    return {name: beside(measures, measured.get(name, ())) for name, measures in groups.items()}


def _rounds(
    points: Embedded, families: Sequence[Indices], scoring: Scoring, tell: Callable[[str], None]
) -> tuple[RoundScores, ...]:
    """Score the texts of every round by the same records; a W1 of as many points for each."""
    rng = np.random.default_rng([scoring.seed, *b"rounds"])
    few = points.scoring[rng.permutation(len(points.scoring))[: scoring.sample]]
    rounds = []
    for turn, (each, family) in enumerate(zip(points.rounds, families, strict=True)):
        tell(f"scoring round {turn}")
        some = each[_some(len(each), scoring.sample, rng)]
        (inside,) = balls(points.scoring, each, scoring.k)
        distance = mean_nearest_distance(points.scoring, each)
        lineages = len(family), int(family[0])
        rounds.append(RoundScores(turn, len(each), inside.recall, distance, wasserstein1(few, some), *lineages))
    return tuple(rounds)


def _some(size: int, most: int, rng: np.random.Generator) -> Indices:
    return np.arange(size) if size <= most else rng.permutation(size)[:most]


def _scored_by(made: Synthetic, chosen: Settings, voters: Records, others: Records | None) -> tuple[str, bool]:
    if others is not None:
        return f"{len(others):,} records that did not vote", False
    known = made.run is not None and bool(chosen.data) and Path(chosen.data).name == Path(voters.source).name
    said = "the records that voted" if known else "which voted, if the texts were made from them"
    return f"{len(voters):,} private records, {said}: IN-SAMPLE, so it flatters; give records held out", True


def _remarks(made: Synthetic, voters: Records, others: Records | None) -> list[str]:
    remarks, nouns = [], made.modality.nouns
    both = 0 if others is None else len(set(keys(voters.content)) & set(keys(others.content)))
    if both and made.modality.has_words:
        remarks.append(
            f"{nouns.capitalize()} that are among the private records and among those held out as well: {both}."
        )
    if len(made.content) < 100:
        remarks.append(f"{len(made.content)} {nouns} are few: recall and W1 depend on their number; see the baseline.")
    if voters.labels is not None and made.labels is None:
        remarks.append(f"The synthetic {nouns} have no labels, so nothing can be trained on them.")
    return remarks


def _on_repetition(groups: Groups) -> list[str]:
    """Say so plainly where texts repeat one another more than records do."""
    found = next((each for each in groups.get("Repetition", ()) if each.name == "repeating texts"), None)
    if found is None or found.real is None or not repeats_itself(found.value, found.real):
        return []
    shared = f"{found.value:.0%} share eight words in a row with another one"
    return [f"The texts repeat one another: {shared}, against {found.real:.0%} of as many records."]


def _destination(made: Synthetic, out: str | Path | None) -> Path | None:
    """Where the result goes: never among what a run publishes."""
    if out is None:
        return None if made.run is None else made.run.layout.evaluation
    path = Path(out)
    if not path.absolute().parent.is_dir():
        raise InputError(f"there is no folder {path.parent} to write to; make it, or name another file")
    if Layout(path.resolve().parents[1]).release == path.resolve().parent and Layout(path.resolve().parents[1]).is_run:
        raise PrivacyError(
            f"{path} lies among what a run publishes, and an evaluation is not private; name another file"
        )
    if path.exists() and not _is_evaluation(path):
        raise InputError(f"{path} exists and is no evaluation, so it is not overwritten; name another file")
    return path


def _is_evaluation(path: Path) -> bool:
    try:
        return {"scored_by", "groups"} <= dict(read_json(path)).keys()
    except (RunError, TypeError, ValueError):
        return False
