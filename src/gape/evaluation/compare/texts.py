"""Compare methods from the settings of a run: the same data, generators, embedders and presets as `gape run`."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from hashlib import sha256
from pathlib import Path

from gape.core.errors import InputError
from gape.core.protocols import Embedder, Generator, Selector
from gape.core.types import Points
from gape.embedders.cached import CACHED, Cached
from gape.embedders.privacy import require_private_embedding
from gape.embedders.watched import watched
from gape.evaluation.compare import Comparison, ComparisonProgress, Grid, Known, Method, Parts, Study, compare
from gape.evaluation.compare.folder import CompareFolder
from gape.evaluation.compare.grid import check_scoring
from gape.evolution.plan import Plan
from gape.generators.labels import labelled
from gape.generators.prompts import Prompts
from gape.language.request import Completion, LanguageModel
from gape.modalities import Records
from gape.runs.advice import usual_delta
from gape.runs.electorate import read_records, refuse_shared_corpus, text_fingerprint, units_of
from gape.runs.embedder import candidate_embedder, make_embedder
from gape.runs.generator import (
    Listener,
    make_generator,
    make_model,
    make_prompts,
    public_texts,
    remembering,
    require_votes_may_leave,
    writes,
)
from gape.runs.resolve import make_plan, resolved
from gape.runs.selector import estimates_votes, keeps_distinct, make_selector, remembers_votes, votes_suit_noise
from gape.runs.settings import CHOICES, OPERATIONAL, PRESETS, Settings
from gape.selection.local_search import CENTRES

METHODS = ("gape", "augpe", "subsamplepe")
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0)
SEEDS = 3

_MOST_CACHED = 250_000  # embeddings; with MiniLM they take 390 MB

# Settings that vary between cells, that the plan already holds, or that do not change a result.
_NOT_COMMON = (
    OPERATIONAL | {"epsilon", "seed", "preset", "selector", "prompts", "text"} | {part.name for part in fields(Plan)}
)


@dataclass(frozen=True)
class ComparisonScoring:
    """The held-out share, and how samples are scored (see `Study`)."""

    held_out: float = 0.2
    scored: int = 2000
    k: int = 3
    blur: float = 0.05

    def __post_init__(self) -> None:
        check_scoring(self.held_out, self.scored, self.k, self.blur)


@dataclass(frozen=True)
class TextSelector:
    """Makes the selector that the settings name, for the plan of a cell."""

    settings: Settings

    def __call__(self, plan: Plan, units: int) -> Selector:  # noqa: ARG002  (some rules need it)
        """Make the selector."""
        return make_selector(self.settings, plan)

    def __repr__(self) -> str:
        chosen = self.settings
        if chosen.selector == "gape-paper":
            return f"gape-paper(separation={chosen.separation!r})"
        if chosen.selector != "gape":
            return chosen.selector
        votes = "remembered" if remembers_votes(chosen) else "estimated" if estimates_votes(chosen) else "noisy"
        distinct = ", distinct" if keeps_distinct(chosen) else ""
        return f"gape(separation={chosen.separation!r}) of {votes} votes, at least {CENTRES} centres{distinct}"


@dataclass(frozen=True)
class TextBuilder:
    """Makes a worker's generator, and the embedder of its candidates, from the shared model and embedder."""

    settings: Settings
    prompts: Prompts

    def __call__(self, model: LanguageModel | None, embedder: Embedder) -> tuple[Generator, Embedder]:
        """Make both."""
        generator = make_generator(self.settings, model, self.prompts, embedder)
        return generator, candidate_embedder(self.settings, embedder)


def compare_texts(
    settings: Settings,
    folder: str | Path,
    *,
    methods: Sequence[str] = METHODS,
    epsilons: Sequence[float] = EPSILONS,
    seeds: int = SEEDS,
    scoring: ComparisonScoring | None = None,
    jobs: int = 1,
    source: object = None,
    progress: Callable[[ComparisonProgress], None] | None = None,
) -> Comparison:
    """Compare methods on private records, in a folder that the same call resumes. NOT differentially private.

    A method is a preset or a selector. A preset sets its selector, and whether survivors compete with their variations.
    Size, rounds, variations and start come from the settings and are the same for all methods; with `preset` in the
    settings, all methods use those of its authors. Seeds count up from `settings.seed`. `source` is data in memory.
    For `jobs` see `compare`.
    """
    _refuse_what_a_cell_decides(settings)
    require_votes_may_leave(settings, "votes with seeded noise")
    scoring = scoring or ComparisonScoring()
    records = read_records(settings, source)
    refuse_shared_corpus(settings, records, lambda: make_embedder(settings))
    chosen = _common(settings, records, tuple(epsilons), scoring)
    named = _methods(chosen, methods, by_noise=votes_suit_noise(settings))
    grid = Grid(named, tuple(map(float, epsilons)), tuple(range(chosen.seed, chosen.seed + seeds)))
    study = Study(
        make_plan(chosen),
        scoring.held_out,
        scoring.scored,
        scoring.k,
        scoring.blur,
        described=_described_settings(chosen),
    )
    watch = _Watch(progress or (lambda _: None))
    return compare(
        folder,
        grid,
        study,
        _load_parts(chosen, records, CompareFolder(folder).answers, watch, jobs * study.plan.candidates),
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


def _methods(settings: Settings, names: Sequence[str], *, by_noise: bool) -> tuple[Method, ...]:
    known = dict.fromkeys([*PRESETS, *CHOICES["selector"]])
    methods = []
    for name in names:
        if name not in known:
            raise InputError(f"methods must be among {', '.join(known)}, got {name!r}")
        preset = PRESETS.get(name, {})
        selector = preset.get("selector", "gape") if name in PRESETS else name
        changes = {"keep": preset["keep"]} if "keep" in preset else {}
        kinds = len(settings.labels or ("",)) if by_noise and selector == "gape" else None
        chosen = settings.with_values(selector=selector, distinct=preset.get("distinct", settings.distinct))
        methods.append(Method(name, TextSelector(chosen), changes, kinds, last_pass=keeps_distinct(chosen)))
    return tuple(methods)


def _described_settings(settings: Settings) -> dict[str, str]:
    """Describe the further settings that cells must share, by name, or by content where a name says too little."""
    described = {
        setting.name: str(value)
        for setting in fields(settings)
        if setting.name not in _NOT_COMMON and (value := getattr(settings, setting.name)) is not None
    }
    if writes(settings):
        prompts = make_prompts(settings, None)
        return described | {"prompts": f"{prompts.name}, {sha256(repr(prompts).encode()).hexdigest()[:12]}"}
    described |= settings.records.describe()
    if settings.generator == settings.modality:
        return described
    return described | {"generator": f"corpus of {public_texts(settings)!r}"}


@contextmanager
def _load_parts(settings: Settings, records: Records, answers: Path, watch: _Watch, at_once: int) -> Iterator[Parts]:
    """Load the models and embed the private records, once; up to `at_once` candidates may await scoring."""
    embedder = make_embedder(settings)
    require_private_embedding(embedder)
    private = _embedded(settings, records, watched(embedder, watch.embedded))
    with remembering(make_model(settings, answers), answers, Listener(lambda _: None, watch.answered)) as model:
        prompts = make_prompts(settings, model, embedder)
        cached = Cached(embedder, min(max(CACHED, at_once), _MOST_CACHED))
        made_by = {"embedder": repr(embedder)} | ({} if model is None else {"model": model.name})
        known = Known(
            units=None if records.users is None else [str(user) for user in records.users],
            texts=records.content.tolist() if settings.records.has_words else None,
            labels=None if settings.labels is None or records.labels is None else records.labels.tolist(),
            marks=len(settings.labels or ()),
        )
        yield Parts(private, cached, TextBuilder(settings, prompts), model, known, made_by)


def _embedded(settings: Settings, records: Records, embedder: Embedder) -> Points:
    if settings.labels is None or records.labels is None:
        return embedder.embed(records.content)
    return candidate_embedder(settings, embedder).embed(labelled(records.labels, records.content))
