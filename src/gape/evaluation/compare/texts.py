"""Compare methods from the settings of a run: the same data, generators, embedders and presets as `gape run`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gape.core.errors import InputError
from gape.embedders.cached import CACHED, Cached
from gape.embedders.privacy import require_private_embedding
from gape.embedders.watched import watched
from gape.evaluation.compare import Comparison, ComparisonProgress, Grid, Known, Parts, Study, compare
from gape.evaluation.compare.folder import CompareFolder
from gape.evaluation.compare.grid import check_scoring
from gape.evaluation.compare.methods import TextBuilder, described_settings, given, methods_named, usual_methods
from gape.language.request import Completion
from gape.modalities import Records
from gape.runs.advice import usual_delta
from gape.runs.electorate import read_records, refuse_shared_corpus, text_fingerprint, units_of
from gape.runs.embedder import make_embedder
from gape.runs.generator import Listener, make_model, make_prompts, remembering, require_votes_may_leave
from gape.runs.labels import embed_private
from gape.runs.presets import PRESETS
from gape.runs.resolve import make_plan, resolved
from gape.runs.selector import votes_suit_noise
from gape.runs.settings import Settings
from gape.runs.spending import make_purse

EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
SEEDS = 3

_MOST_CACHED = 250_000  # embeddings; with MiniLM they take 390 MB


@dataclass(frozen=True)
class ComparisonScoring:
    """The held-out share, and how samples are scored (see `Study`)."""

    held_out: float = 0.2
    scored: int = 2000
    k: int = 3
    blur: float = 0.05
    target: str | None = None  # column that a classifier trained on the samples predicts, for tables

    def __post_init__(self) -> None:
        check_scoring(self.held_out, self.scored, self.k, self.blur)


def compare_texts(
    settings: Settings,
    folder: str | Path,
    *,
    methods: Sequence[str] | None = None,
    epsilons: Sequence[float] = EPSILONS,
    seeds: int = SEEDS,
    scoring: ComparisonScoring | None = None,
    as_published: bool = False,
    jobs: int = 1,
    source: object = None,
    progress: Callable[[ComparisonProgress], None] | None = None,
) -> Comparison:
    """Compare methods on private records, in a folder that the same call resumes. NOT differentially private.

    A method is a preset or a selector, and `NAME:K` casts K votes per record. A preset sets its selector, and whether
    survivors compete with their variations. A selector casts as many votes as the default. Where records can answer a
    survey, `survey` is the method that does nothing else; `gape` is the same without rounds. For tables there are also
    `aim` and `mst` of OpenDP, with the same guarantee (extra marginals). Size, rounds, variations and start come from
    the settings and are the same for all methods; with `preset` in the settings, all methods use those of its authors.
    If `as_published`, a published method has the prompts, variations and start of its own preset, and only size and
    rounds are the same. There is no survey of topics. Seeds count up from `settings.seed`. `source` is data in memory.
    For `jobs` see `compare`.
    """
    _refuse_what_a_cell_decides(settings)
    if settings.survey < 1:  # a survey of topics changes the start, which is the same for all methods
        settings = settings.with_values(survey=0.0)
    if as_published and settings.preset != "gape":
        raise InputError(
            f"as_published gives each method the settings of its preset, got preset {settings.preset!r} for all of "
            "them; leave one of the two out"
        )
    require_votes_may_leave(settings, "votes with seeded noise")
    scoring = scoring or ComparisonScoring()
    if scoring.target is not None:
        settings.records.check_target(scoring.target)
    records = read_records(settings, source)
    refuse_shared_corpus(settings, records, lambda: make_embedder(settings))
    chosen = _common(settings, records, tuple(epsilons), scoring)

    def published(preset: str) -> Settings:
        common = {name: getattr(chosen, name) for name in ("epsilon", "delta", "samples", "rounds")}
        return resolved(Settings.of(given(settings), {"preset": preset, **common}), records)

    named = methods_named(
        usual_methods(settings) if methods is None else methods,
        chosen,
        by_noise=votes_suit_noise(settings),
        published=published if as_published else None,
    )
    if math.inf in epsilons and (without := [method.name for method in named if method.baseline is not None]):
        raise InputError(f"{without[0]} needs noise, got epsilon inf; leave one of the two out")
    grid = Grid(named, tuple(map(float, epsilons)), tuple(range(chosen.seed, chosen.seed + seeds)))
    study = Study(
        make_plan(chosen),
        scoring.held_out,
        scoring.scored,
        scoring.k,
        scoring.blur,
        described=described_settings(chosen) | ({} if scoring.target is None else {"target": scoring.target}),
    )
    watch = _Watch(progress or (lambda _: None))
    return compare(
        folder,
        grid,
        study,
        _load_parts(
            chosen, records, CompareFolder(folder).answers, watch, jobs * study.plan.candidates, scoring.target
        ),
        lambda salt: text_fingerprint(records, salt),
        jobs=jobs,
        progress=watch.moved,
    )


class _Watch:
    """Reports progress, also while texts are embedded or written, either of which can take an hour."""

    def __init__(self, progress: Callable[[ComparisonProgress], None]) -> None:
        self._progress, self._answers = progress, 0
        self._last = ComparisonProgress("starting", 0.0, 0)

    def moved(self, now: ComparisonProgress) -> None:
        self._last = now
        self._progress(now)

    def embedded(self, done: int, texts: int) -> None:
        self._progress(replace(self._last, detail=f"{done:,} of {texts:,}"))

    def answered(self, _: Completion) -> None:
        self._answers += 1
        self._progress(replace(self._last, doing="writing", detail=f"{self._answers:,} answers so far"))


def _refuse_what_a_cell_decides(settings: Settings) -> None:
    if settings.epsilon is not None:
        raise InputError(f"a comparison has several epsilons, got epsilon {settings.epsilon:g}; list them as epsilons")
    if settings.selector != PRESETS[settings.preset].get("selector", "gape"):
        raise InputError(f"a comparison has several methods, got selector {settings.selector!r}; list them as methods")
    if settings.also is not None:
        raise InputError(f"a comparison has one generator, got also {', '.join(settings.also)!r}; leave it out")
    if settings.ledger is not None or settings.budget_epsilon is not None:
        raise InputError("a comparison spends no budget, got a ledger or a budget; leave them out")


def _common(settings: Settings, records: Records, epsilons: Sequence[float], scoring: ComparisonScoring) -> Settings:
    """Resolve the settings; the default number of samples suits the median of the epsilons."""
    finite = [epsilon for epsilon in epsilons if 0 < epsilon < math.inf]
    units = units_of(records)
    voting = units - round(scoring.held_out * units)
    delta = usual_delta(voting) if settings.delta is None else settings.delta
    middle = statistics.median_low(finite) if finite else math.inf
    # If votes suit the noise, each method sets its own number, so the common one does not matter.
    votes = {"votes_per_record": 1, "votes_per_unit": 1} if votes_suit_noise(settings) else {}
    return resolved(settings.with_values(epsilon=middle, delta=delta, **votes), records)


@contextmanager
def _load_parts(
    settings: Settings, records: Records, answers: Path, watch: _Watch, at_once: int, target: str | None
) -> Iterator[Parts]:
    """Load the models and embed the private records, once; up to `at_once` candidates may await scoring."""
    kind = settings.records
    purse = make_purse(settings, answers)
    embedder = make_embedder(settings, purse)
    require_private_embedding(embedder)
    private = embed_private(settings, watched(embedder, watch.embedded), records.content, records.labels)
    bare = make_model(settings, answers, purse=purse)
    with remembering(bare, answers, Listener(lambda _: None, watch.answered)) as model:
        prompts = make_prompts(settings, model, embedder)
        cached = Cached(embedder, min(max(CACHED, at_once), _MOST_CACHED))
        made_by = {"embedder": repr(embedder)} | ({} if model is None else {"model": model.name})
        known = Known(
            units=None if records.users is None else [str(user) for user in records.users],
            texts=kind.wording(records.content) if kind.has_words else None,
            labels=None if settings.labels is None or records.labels is None else records.labels.tolist(),
            marks=len(settings.labels or ()),
            wording=kind.wording,
            content=records.content if kind.scored or kind.surveyed else None,
            score=partial(kind.scores, target=target) if kind.scored else None,
        )
        yield Parts(private, cached, TextBuilder(settings, prompts), model, known, made_by)
