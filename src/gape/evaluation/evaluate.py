"""Score synthetic records by private ones. The scores are therefore NOT differentially private.

`evaluate` scores a run, or records from any source, in one call: how much of the private data they reach, how far the
two sets are apart, what they are like as texts, whether they copy records and, with labels, how useful they are for
training.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from gape._support.files import read_json, require_writable_file, write_json
from gape._support.html import as_paragraph, as_table
from gape.core.errors import InputError, PrivacyError, RunError
from gape.core.types import Indices
from gape.evaluation.measures import label_usefulness, memorisation, nearness, with_real_values
from gape.evaluation.panel import refuse_nearest, show_nearest
from gape.evaluation.sources import Embedded, Synthetic, embed_all, read_real, read_synthetic
from gape.metrics import balls, mean_nearest_distance, wasserstein1
from gape.metrics.measure import Measure, Scoring
from gape.metrics.repetition import repeats_itself
from gape.modalities import Columns, Records
from gape.modalities.base import Groups
from gape.runs.folder.layout import Layout
from gape.runs.settings import Settings

__all__ = ["MARK", "Evaluation", "Measure", "RoundScores", "Scoring", "evaluate"]

MARK = (
    "NOT differentially private: scored by private records. Do not publish this, or use it to choose what to publish."
)


@dataclass(frozen=True)
class RoundScores:
    """Scores of the samples after a round; round 0 is the start."""

    round: int
    texts: int
    recall: float
    mean_nearest_distance: float
    wasserstein1: float
    lineages: int  # number of samples of the start with descendants
    largest: int  # number of samples in the largest lineage


@dataclass(frozen=True)
class Evaluation:
    """All measures, in groups, with remarks on how to read them. NOT differentially private."""

    synthetic: str  # what was scored, in words
    scored_by: str  # the records it was scored by, in words
    in_sample: bool  # whether these records voted, or may have
    groups: Groups
    rounds: tuple[RoundScores, ...]  # empty unless a run with rounds was scored
    remarks: tuple[str, ...]
    settings: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Return the evaluation as plain values, marked as not private."""
        return {"differentially_private": False, "remark": MARK, **asdict(self)}

    def _repr_html_(self) -> str:
        """Return what a notebook shows: every measure, with a warning that they are not private."""
        tables = (
            as_table(["", "value"], [[measure.name, f"{measure.value:.4g}"] for measure in measures], caption=group)
            for group, measures in self.groups.items()
        )
        remarks = map(as_paragraph, (f"{self.synthetic}, scored by {self.scored_by}.", *self.remarks))
        return as_paragraph(MARK, alarming=True) + Markup("").join([*remarks, *tables])

    def value(self, name: str) -> float:
        """Return the measure of this name."""
        for measures in self.groups.values():
            for measure in measures:
                if measure.name == name:
                    return measure.value
        raise InputError(f"there is no measure {name!r}; there are {', '.join(self._names())}")

    def _names(self) -> list[str]:
        return [measure.name for measures in self.groups.values() for measure in measures]


def evaluate(
    synthetic: object,
    private: object,
    *,
    text: str | None = None,
    label: str | None = None,
    held_out: object = None,
    scoring: Scoring | None = None,
    real_baseline: bool | None = None,
    out: str | Path | None = None,
    nearest: str | Path | None = None,
    progress: Callable[[str], None] | None = None,
    **settings: Any,
) -> Evaluation:
    """Score synthetic records by private ones. NOT differentially private: for those who may see the private data.

    `synthetic` is the folder of a run, a file, or anything else that `load_texts` reads. `private` are the records that
    voted, and `held_out` records that did not vote. Held-out records, if given, do the scoring, because records that
    voted are nearer to what they chose. `text` and `label` name columns; for rows of a table outside a run, `schema` is
    the path of the schema. With `label`, a classifier is trained on the synthetic records and tested on the real ones.
    `real_baseline` scores as many private records in the same way; for tables that is the default if there are enough.
    `settings` are those of the embedder, by default the run's. The result is written to `out`, by default
    internal/evaluation.json of a run. `nearest` is a file for a picture of the images that are nearest to a private
    one, beside it: it shows private images.
    """
    report, scoring = progress or (lambda _: None), scoring or Scoring()
    columns, asked = Columns(text, label), Settings.of(settings)
    samples = read_synthetic(synthetic, columns, str(asked.modality), asked.schema)
    path = _destination(samples, out)
    if nearest is not None:
        refuse_nearest(nearest, samples.modality)
    chosen = asked if samples.run is None else _agreed(samples, settings)
    voters = read_real(private, samples, columns)
    withheld = None if held_out is None else read_real(held_out, samples, columns)
    _require_enough(len(voters if withheld is None else withheld), scoring)
    points = embed_all(samples, voters, withheld, chosen, report)
    target = label or (chosen.label if samples.run is not None else None)
    inputs = _Inputs(samples, voters, withheld, points, target, scoring)
    report("scoring")
    groups = _measure(inputs)
    beside_real = _scores_real(inputs) if real_baseline is None else real_baseline
    if beside_real:
        report("scoring as many real records")
        groups = _with_baseline(groups, inputs)
    evaluation = Evaluation(
        samples.source,
        *_scored_by(samples, chosen, voters, withheld),
        groups,
        _rounds(points, samples.families, scoring, report),
        (*_remarks(samples, voters, withheld), *_on_repetition(groups)),
        {**asdict(scoring), "embedder": points.embedder, "real_baseline": beside_real},
    )
    if path is not None:
        write_json(path, evaluation.as_json(), mode=0o600)
    if nearest is not None:
        show_nearest(nearest, samples.modality, (voters.content, points.private), (samples.content, points.synthetic))
    return evaluation


def _agreed(samples: Synthetic, values: dict[str, Any]) -> Settings:
    """Return the settings of a run, which its embedder is made from."""
    given = {name: value for name, value in values.items() if value is not None}
    for name in ("schema", "modality"):
        if name in given:
            raise InputError(f"the {name} of {samples.source} is that of the run, got {given[name]!r}; leave it out")
    if samples.run is None:
        raise RunError(f"{samples.source} is not a run; name the folder of one")
    return samples.run.agreed(["embedder"], **given)


def _require_enough(records: int, scoring: Scoring) -> None:
    if records <= scoring.k:
        raise InputError(
            f"{records} records are too few to score by their {scoring.k} nearest other records; use more records or "
            "a lower k"
        )


@dataclass(frozen=True, eq=False)
class _Inputs:
    """What an evaluation is computed from. The repr of records and points shows none of them."""

    samples: Synthetic
    voters: Records
    withheld: Records | None  # records that did not vote, if there are any
    points: Embedded
    target: str | None  # the label to predict
    scoring: Scoring

    @property
    def records(self) -> Records:
        """The records to score by."""
        return self.voters if self.withheld is None else self.withheld

    def draw_voters(self) -> tuple[Indices, Indices]:
        """Draw as many voters as there are samples, and return them and the rest."""
        order = np.random.default_rng([self.scoring.seed, *b"baseline"]).permutation(len(self.voters))
        return order[: len(self.samples.content)], order[len(self.samples.content) :]


def _measure(inputs: _Inputs) -> Groups:
    samples, voters, withheld, points = inputs.samples, inputs.voters, inputs.withheld, inputs.points
    kind, records, target, scoring = samples.modality, inputs.records, inputs.target, inputs.scoring
    held_out = None if withheld is None or points.held_out is None else (withheld.content, points.held_out)
    groups: Groups = {
        "Nearness": nearness(kind.nouns, points.scoring, points.synthetic, scoring),
        **kind.measures(records.content, samples.content, scoring),
        "Agreement": kind.agreement((records.content, points.scoring), (samples.content, points.synthetic), scoring),
        "Memorisation": memorisation(
            kind, (voters.content, points.private), held_out, (samples.content, points.synthetic), scoring
        ),
        "Usefulness": _usefulness(inputs),
    }
    if records.labels is not None and samples.labels is not None:
        taught = samples.labels.tolist(), kind.features(samples.content, points.synthetic, target)
        tested = records.labels.tolist(), kind.features(records.content, points.scoring, target)
        groups["Usefulness"] += label_usefulness(tested, taught, scoring)
    return {name: measures for name, measures in groups.items() if measures}


def _usefulness(inputs: _Inputs) -> tuple[Measure, ...]:
    """Measure what the samples teach, beside as many private records; no record serves both training and testing."""
    samples, voters, withheld = inputs.samples, inputs.voters, inputs.withheld
    drawn, rest = inputs.draw_voters()
    tested = withheld.content if withheld is not None else voters.content[rest if len(rest) else drawn]
    known = voters.content[drawn] if withheld is not None or len(rest) else voters.content[:0]
    start = samples.rounds[0][: len(samples.content)] if samples.rounds else samples.content[:0]
    return samples.modality.usefulness(tested, samples.content, start, known, inputs.scoring)


def _scores_real(inputs: _Inputs) -> bool:
    """Whether to score real records without being asked: the modality wants it, and enough records are left."""
    _, rest = inputs.draw_voters()
    enough = inputs.withheld is not None or len(rest) > inputs.scoring.k
    return inputs.samples.modality.beside_real and enough


def _with_baseline(groups: Groups, inputs: _Inputs) -> Groups:
    """Score as many private records as there are samples, by held-out records or by the remaining private ones."""
    voters, withheld, points = inputs.voters, inputs.withheld, inputs.points
    kind, target, scoring = inputs.samples.modality, inputs.target, inputs.scoring
    drawn, rest = inputs.draw_voters()
    if withheld is None:
        _require_enough(len(rest), scoring)
    records, real = (voters, points.private[rest]) if withheld is None else (withheld, points.scoring)
    content = records.content[rest] if withheld is None else records.content
    measured: Groups = {
        "Nearness": nearness(kind.nouns, real, points.private[drawn], scoring),
        **kind.measures(content, voters.content[drawn], scoring),
        "Agreement": kind.agreement((content, real), (voters.content[drawn], points.private[drawn]), scoring),
    }
    if "Usefulness" in groups and records.labels is not None and voters.labels is not None:
        labels = records.labels[rest] if withheld is None else records.labels
        taught = voters.labels[drawn].tolist(), kind.features(voters.content[drawn], points.private[drawn], target)
        measured["Usefulness"] = label_usefulness(
            (labels.tolist(), kind.features(content, real, target)), taught, scoring
        )
    return {name: with_real_values(measures, measured.get(name, ())) for name, measures in groups.items()}


def _rounds(
    points: Embedded, families: Sequence[Indices], scoring: Scoring, report: Callable[[str], None]
) -> tuple[RoundScores, ...]:
    """Score the samples of each round by the same records; W1 uses as many points in each round."""
    rng = np.random.default_rng([scoring.seed, *b"rounds"])
    real = points.scoring[rng.permutation(len(points.scoring))[: scoring.sample]]
    rounds = []
    for turn, (samples, family) in enumerate(zip(points.rounds, families, strict=True)):
        report(f"scoring round {turn}")
        drawn = samples[_subsample(len(samples), scoring.sample, rng)]
        (inside,) = balls(points.scoring, samples, scoring.k)
        distance = mean_nearest_distance(points.scoring, samples)
        lineages = len(family), int(family[0])
        rounds.append(RoundScores(turn, len(samples), inside.recall, distance, wasserstein1(real, drawn), *lineages))
    return tuple(rounds)


def _subsample(size: int, most: int, rng: np.random.Generator) -> Indices:
    return np.arange(size) if size <= most else rng.permutation(size)[:most]


def _scored_by(samples: Synthetic, chosen: Settings, voters: Records, withheld: Records | None) -> tuple[str, bool]:
    if withheld is not None:
        return f"{len(withheld):,} records that did not vote", False
    known = samples.run is not None and bool(chosen.data) and Path(chosen.data).name == Path(voters.source).name
    origin = "the records that voted" if known else "which voted if the samples were made from them"
    return f"{len(voters):,} private records, {origin}: IN-SAMPLE and too favourable; give held-out records", True


def _remarks(samples: Synthetic, voters: Records, withheld: Records | None) -> list[str]:
    remarks, nouns = [], samples.modality.nouns
    shared = (
        0
        if withheld is None
        else len(set(samples.modality.keys(voters.content)) & set(samples.modality.keys(withheld.content)))
    )
    if shared and samples.modality.has_words:
        remarks.append(
            f"{nouns.capitalize()} that are both among the private and among the held-out records: {shared}."
        )
    if len(samples.content) < 100:
        remarks.append(
            f"{len(samples.content)} {nouns} are few: recall and W1 depend on their number; see the baseline."
        )
    if samples.modality.caution:
        remarks.append(samples.modality.caution)
    if voters.labels is not None and samples.labels is None:
        remarks.append(f"The synthetic {nouns} have no labels, so nothing can be trained on them.")
    return remarks


def _on_repetition(groups: Groups) -> list[str]:
    """Warn if texts repeat one another more than records do."""
    measures = groups.get("Repetition", ())
    repeating = next((measure for measure in measures if measure.name == "repeating texts"), None)
    if repeating is None or repeating.real is None or not repeats_itself(repeating.value, repeating.real):
        return []
    shared = f"{repeating.value:.0%} share eight words in a row with another one"
    return [f"The texts repeat one another: {shared}, against {repeating.real:.0%} of as many records."]


def _destination(samples: Synthetic, out: str | Path | None) -> Path | None:
    """Return where to write the result: never among the files that a run publishes."""
    if out is None:
        usual = None if samples.run is None else samples.run.layout.evaluation
        if usual is not None:
            require_writable_file(usual)
        return usual
    path = Path(out)
    require_writable_file(path)
    if Layout(path.resolve().parents[1]).release == path.resolve().parent and Layout(path.resolve().parents[1]).is_run:
        raise PrivacyError(
            f"{path} lies among the files that a run publishes, and an evaluation is not private; name another file"
        )
    if path.exists() and not _is_evaluation(path):
        raise InputError(f"{path} exists and is not an evaluation, so it is not overwritten; name another file")
    return path


def _is_evaluation(path: Path) -> bool:
    try:
        return {"scored_by", "groups"} <= dict(read_json(path)).keys()
    except (RunError, TypeError, ValueError):
        return False
