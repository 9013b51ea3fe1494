"""What keeps texts from repeating one another: the default, what it was before, AugPE, and one part removed at a time.

    python experiments/varied_text/run.py reddit gape before --private FILE --model DIR --embedder DIR --out FOLDER

One call runs variants on one dataset, at every epsilon with every seed, into OUT/DATASET; what is there is kept. Texts
are cut to 100 words; a tenth of them does not vote and scores. NOT differentially private: it scores by
private texts, for data that may be looked at.
"""

import argparse
import math
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[2]))  # the root of the repository, to run this as a file

from experiments.varied_text.finer import Finer, FinerLabels
from experiments.varied_text.listed import Continuing

from gape._support.fingerprint import dataset_fingerprint
from gape.core.protocols import Embedder, Generator, Selector, TopicGenerator
from gape.core.types import Points
from gape.embedders.cached import Cached
from gape.embedders.sentence_transformers import SentenceTransformer
from gape.evaluation.compare import ComparisonProgress, Grid, Known, Method, Parts, Study, compare
from gape.evaluation.compare.grid import Cell
from gape.evolution.plan import Plan
from gape.generators.labels import LabelledEmbedder, LabelledGenerator, PerLabel, labelled
from gape.generators.prompted import PromptedText
from gape.generators.prompts import Prompts, generic, load
from gape.generators.resampled import ResampledText
from gape.generators.topic_survey import TopicSurvey, times_for
from gape.language.request import LanguageModel
from gape.modalities import Records, load_texts
from gape.runs.advice import usual_delta
from gape.runs.generator import told_in_requests
from gape.runs.resolve import VARIATIONS
from gape.runs.selector import threshold_of
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking
from gape.selection.regions import RegionalRanking
from gape.selection.remembering import Remembering
from gape.selection.separation import paper_separation
from gape.selection.subsampling import Subsampling

SAMPLES, ROUNDS, WORDS, HELD_OUT = 500, 6, 100, 0.1


@dataclass(frozen=True)
class Dataset:
    """Where texts and labels are in a file, and what is asked for."""

    column: str
    prompts: str
    label: str | None = None
    words: int = WORDS  # of a text, about
    domain: str | None = None  # of the prompts `generic`


DATASETS = {
    "pubmed": Dataset("abstract", "pubmed"),
    "reddit": Dataset("text", "reddit"),
    "reddit-few": Dataset("text", "reddit"),  # posts of a few subreddits: experiments/topic_survey
    "yelp": Dataset("text", "yelp", "label2"),
    "goemotions": Dataset("text", "generic", words=20, domain="short comments on an internet forum"),
}


@dataclass(frozen=True)
class Variant:
    """What writes, and what selects."""

    operator: dict[str, Any] = field(default_factory=dict)  # of the writer; of PromptedText with "by"
    scales: tuple[float, ...] = VARIATIONS["resample"][0]
    copies: int = VARIATIONS["resample"][1]
    selector: str = "gape"
    bare: bool = False  # whether the model is given the paper's prompts and nothing else
    start: int = 1  # the size of the start in multiples of m, unless it is wide
    distinct: bool = True  # of the selection
    last_pass: bool = True
    openings: str = "now"
    keep: bool = True
    wide: bool = True  # whether the first round votes on a start as large as a round, as it is
    remembers: bool = True  # what earlier votes said of candidates
    rule: Callable[[Plan, tuple[str, ...] | None], Selector] | None = None  # of plan and labels; not of the package
    votes: float | None = 1.0  # of a record, in multiples of the default; None: one vote
    writer: type[ResampledText] = ResampledText
    survey: float = 0.0  # share of the budget that a survey of topics has
    asking: type[TopicSurvey] = TopicSurvey


# How texts were varied before, and from which start.
_ENDS = {"beginnings": 0.0, "spans": 0.5, "whole_from": math.inf}
_ENDS_SCALES = (0.1, 0.2, 0.3, 0.4, 0.55, 0.7, 0.9)
_PLAIN: dict[str, Any] = {"distinct": False, "last_pass": False, "wide": False}
_REPHRASE: dict[str, Any] = {
    "operator": {"by": "rephrase", "distinct": False},
    "scales": (1.0,),
    "copies": 7,
    "votes": None,
    **_PLAIN,
}

VARIANTS = {
    "gape": Variant(),
    "without-memory": Variant(remembers=False),
    "before": Variant({**_ENDS, "distinct": False}, _ENDS_SCALES, openings="before", remembers=False, **_PLAIN),
    "augpe": Variant(selector="ranking", **_REPHRASE),
    "subsamplepe": Variant(selector="subsampling", keep=False, **_REPHRASE),
    "gape-paper": Variant(selector="paper", bare=True, start=2, **_REPHRASE),
    "without-operator": Variant(_ENDS, _ENDS_SCALES),
    "without-families": Variant(distinct=False),
    "without-last-pass": Variant(last_pass=False),
    "without-start": Variant({"distinct": False}, openings="before", wide=False),
}


@dataclass(frozen=True)
class Select:
    """Makes the rule of a variant for the plan of a cell."""

    variant: Variant
    labels: tuple[str, ...] | None
    separation: float = math.inf  # the paper's R, of the paper's rule alone

    def __call__(self, plan: Plan, units: int) -> Selector:  # noqa: ARG002  (of other rules)
        """Make it."""
        rule: Selector
        if self.variant.rule is not None:
            return self.variant.rule(plan, self.labels)
        if self.variant.selector == "ranking":
            rule = Ranking()
        elif self.variant.selector == "subsampling":
            rule = Subsampling()
        elif self.variant.selector == "paper":
            rule = Gape.paper(self.separation, threshold_of(plan), certify=True)
        else:
            distinct = self.variant.distinct
            if self.variant.remembers:
                rule = Remembering(RegionalRanking(distinct=distinct), plan.sigma)
            else:
                rule = Gape.without_memory(plan.sigma, distinct=distinct)
        return rule if self.labels is None else PerLabel(rule, self.labels)


@dataclass(frozen=True)
class VotesStudy(Study):
    """A study whose methods have votes in multiples of the default, and a survey."""

    votes: Mapping[str, float] = field(default_factory=dict)
    surveys: Mapping[str, float] = field(default_factory=dict)

    def plan_of(self, cell: Cell, method: Method, units: int) -> Plan:
        """Return the plan of a cell."""
        plan = super().plan_of(cell, method, units)
        plan = plan.casting(max(1, round(self.votes.get(method.name, 1.0) * plan.votes_per_record)))
        if not (share := self.surveys.get(method.name)):
            return plan
        return replace(plan, answers=(times_for(share, plan.rounds * plan.votes_per_unit),), sigma=-1.0)


@dataclass(frozen=True)
class Build:
    """Makes what writes and what embeds in a worker."""

    variant: Variant
    prompts: Prompts
    label: str | None
    labels: tuple[str, ...] | None

    def __call__(self, model: LanguageModel | None, embedder: Embedder) -> tuple[Generator, Embedder]:
        """Make both."""
        if model is None:
            raise ValueError

        def writer(prompts: Prompts) -> Generator:
            made = PromptedText if "by" in self.variant.operator else self.variant.writer
            return made(model, prompts, **self.variant.operator)

        generator = writer(self.prompts)
        if self.labels is not None:
            column = str(self.label)  # told as when the stored runs were made
            writers = {label: writer(told_in_requests(self.prompts, {column: label})) for label in self.labels}
            made = FinerLabels if self.variant.writer is Finer else LabelledGenerator
            generator, embedder = made(writers), LabelledEmbedder(embedder, self.labels)
        if self.variant.survey and isinstance(generator, TopicGenerator):
            generator = self.variant.asking(generator, embedder)
        return generator, embedder


@contextmanager
def parts(build: Build, records: Records, asked: argparse.Namespace) -> Iterator[Parts]:
    """Load the models and embed the records, all at once: they may be looked at."""
    embedder = SentenceTransformer(asked.embedder)
    labels = labels_of(records)
    known = Known(
        texts=records.texts.tolist(),
        labels=None if records.labels is None else records.labels.tolist(),
        marks=len(labels or ()),
    )
    sampling = {name: getattr(asked, name) for name in ("repeat_penalty", "top_k", "top_p", "min_p")}
    model = Continuing(asked.model, batch=asked.batch, **sampling)
    yield Parts(
        private=embedded(embedder, records, labels),
        embedder=Cached(embedder, 250_000),
        build=build,
        model=model,
        known=known,
        made_by={"embedder": repr(embedder), "model": model.name},
    )


def prompts_of(variant: Variant, data: Dataset) -> Prompts:
    """Return the prompts of a dataset, with the openings that the variant begins texts with."""
    prompts = load(data.prompts) if data.domain is None else generic(data.domain)
    prompts = replace(prompts, words=data.words)
    if variant.bare:
        return prompts.bare()
    if variant.openings == "now":
        return prompts
    before = tomllib.loads(Path(__file__).with_name("before.toml").read_text(encoding="utf-8"))
    return replace(prompts, openings=tuple(before[data.prompts]))


def labels_of(records: Records) -> tuple[str, ...] | None:
    """Return the labels that occur, which are no secret here."""
    return None if records.labels is None else tuple(sorted(set(records.labels.tolist())))


def embedded(embedder: SentenceTransformer, records: Records, labels: tuple[str, ...] | None) -> Points:
    """Embed the records."""
    together = embedder.for_public_samples()
    if labels is None or records.labels is None:
        return together.embed(records.texts)
    return LabelledEmbedder(together, labels).embed(labelled(records.labels, records.texts))


def separation_of(records: Records, asked: argparse.Namespace) -> float:
    """Compute the paper's R on private texts, as the paper does: at most 4,000 of them."""
    chosen = np.random.default_rng(0).permutation(len(records.texts))[:4000]
    points = SentenceTransformer(asked.embedder).for_public_samples().embed(records.texts[chosen])
    return paper_separation(points, asked.samples)


def read(path: str, data: Dataset, limit: int) -> Records:
    """Read the records, at most `limit` drawn at random, each cut to its first words."""
    records = load_texts(path, data.column, label=data.label)
    chosen = np.sort(np.random.default_rng(0).permutation(len(records.texts))[:limit])
    texts = np.array([" ".join(str(text).split()[:WORDS]) for text in records.texts[chosen]], dtype=object)
    return replace(records, content=texts, labels=None if records.labels is None else records.labels[chosen])


def main(variants: Mapping[str, Variant] = VARIANTS, description: str | None = __doc__) -> None:
    """Run what was asked for."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dataset", choices=tuple(DATASETS))
    parser.add_argument("variants", nargs="+", choices=tuple(variants))
    parser.add_argument("--private", required=True)
    parser.add_argument("--model", required=True, help="what the generator hf: takes")
    parser.add_argument("--embedder", required=True, help="what the embedder st: takes")
    parser.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 4.0])
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=3, help="how many")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--limit", type=int, default=10**9, help="use only so many private texts")
    parser.add_argument("--batch", type=int, default=2048, help="answers written at once")
    parser.add_argument("--repeat-penalty", type=float, default=1.05)
    parser.add_argument("--top-k", type=int, default=400)
    parser.add_argument("--top-p", type=float, default=0.95)
    parser.add_argument("--min-p", type=float, default=0.0)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--out", type=Path, required=True)
    asked = parser.parse_args()
    data = DATASETS[asked.dataset]
    records = read(asked.private, data, asked.limit)
    labels = labels_of(records)
    plan = Plan(
        epsilon=1.0,
        delta=usual_delta(round((1 - HELD_OUT) * len(records.texts))),
        rounds=asked.rounds,
        samples=asked.samples,
    )

    separation = math.inf
    if any(variants[name].selector == "paper" for name in asked.variants):
        separation = separation_of(records, asked)

    def method(name: str) -> Method:
        variant = variants[name]
        candidates = asked.samples * (len(variant.scales) * variant.copies + int(variant.keep))
        return Method(
            name,
            Select(variant, labels, separation),
            changes={
                "scales": variant.scales,
                "copies": variant.copies,
                "keep": variant.keep,
                "initial": candidates if variant.wide else variant.start * asked.samples,
                "vary_start": not variant.wide,
            },
            kinds=None if variant.votes is None else len(labels or ("",)),
            build=Build(variant, prompts_of(variant, data), data.label, labels),
            last_pass=variant.last_pass,
        )

    methods = tuple(map(method, asked.variants))
    seeds = tuple(range(asked.first_seed, asked.first_seed + asked.seeds))

    def progress(now: ComparisonProgress) -> None:
        if "done" in now.doing:
            print(f"{asked.dataset} {now.done:.1f} of {now.cells}: {now.doing}", flush=True)

    compare(
        asked.out / asked.dataset,
        Grid(methods, tuple(asked.epsilons), seeds),
        VotesStudy(
            plan,
            held_out=HELD_OUT,
            described={"prompts": data.prompts},
            votes={name: variants[name].votes or 1.0 for name in asked.variants},
            surveys={name: variants[name].survey for name in asked.variants},
        ),
        parts(cast(Build, methods[0].build), records, asked),
        lambda salt: dataset_fingerprint((text.encode() for text in records.texts), salt),
        jobs=asked.jobs,
        progress=progress,
    )


if __name__ == "__main__":
    main()
