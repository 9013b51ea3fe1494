"""Synthetic records from private ones: in one call, or in a folder from which the run can be resumed."""

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, cast

import pyarrow as pa

from gape._support.html import as_paragraph, as_table
from gape.core.errors import InputError
from gape.core.types import Samples
from gape.distributed.cluster import RayModel
from gape.embedders.cached import CACHED, Cached
from gape.embedders.watched import watched
from gape.evolution.last_pass import LastPass
from gape.language.request import LanguageModel
from gape.language.spending import Purse
from gape.modalities import Modality, Records
from gape.privacy.noise import Noise
from gape.privacy.statement import PrivacyStatement
from gape.runs.electorate import (
    Private,
    make_electorate,
    refuse_shared_corpus,
    require_embedder,
)
from gape.runs.embedder import make_embedder
from gape.runs.engine import engaged, workers_of
from gape.runs.folder.stored import SettingsFolder
from gape.runs.generator import (
    Listener,
    generator_kind,
    make_model,
    make_prompts,
    remembering,
    require_votes_may_leave,
    whole_generator,
    writes,
)
from gape.runs.labels import candidate_embedder
from gape.runs.progress import Progress, Tracker
from gape.runs.reach import OUTSIDE, Use
from gape.runs.resolve import make_plan, resolved
from gape.runs.run import run
from gape.runs.selector import keeps_distinct, make_selector
from gape.runs.settings import OPERATIONAL, Settings
from gape.runs.spending import EmbeddingTally, make_purse
from gape.selection.rehearsal import rehearse

_SHOWN, _SHOWN_CHARACTERS = 10, 500  # of a result in a notebook


@dataclass(frozen=True)
class SyntheticTexts:
    """Synthetic records that may be published under their statement, with their labels if there are any.

    Records other than texts are shown as text; `table` contains them as they are published.
    """

    texts: list[str]
    labels: list[str] | None
    privacy: PrivacyStatement
    table: pa.Table

    def rows(self) -> list[dict[str, Any]]:
        """Return the published records as dictionaries."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def _repr_html_(self) -> str:
        """Return what a notebook shows: the first records and the guarantee."""
        names = self.table.column_names
        rows = [
            [str(row[name])[:_SHOWN_CHARACTERS] for name in names] for row in self.table.slice(0, _SHOWN).to_pylist()
        ]
        more = f", the first {_SHOWN}" if len(self) > _SHOWN else ""
        return as_table(names, rows, f"{len(self)} synthetic records{more}") + as_paragraph(
            self.privacy.text(), alarming=not self.privacy.private
        )

    def __len__(self) -> int:
        return len(self.texts)

    def __iter__(self) -> Iterator[str]:
        return iter(self.texts)


def synthesize(
    texts: object,
    *,
    epsilon: float,
    samples: int | None = None,
    folder: str | Path | None = None,
    progress: Callable[[Progress], None] | None = None,
    **settings: Any,
) -> SyntheticTexts:
    """Make synthetic texts that are (epsilon, delta)-differentially private for each record, or user, of `texts`.

    `texts` is a path, a list of texts, a frame, anything else that `load_texts` reads, or the path of a folder that
    `embed_texts` has filled. `settings` are those of `Settings`. With a `folder` the same call resumes the run; without
    one, nothing is left on disk.

    A ledger records what is spent: the file `ledger`, or else a file beside the data, or else, for data in memory, one
    in the folder. Data in memory without a folder has no ledger. Such calls do not know what earlier ones have spent,
    but their costs add up nevertheless.
    """
    is_path = isinstance(texts, str | Path)
    values = {"epsilon": epsilon, "samples": samples, "data": str(texts) if is_path else None}
    chosen = Settings.of(settings, values)
    source = None if is_path else texts
    if folder is not None:
        return run_text(chosen, folder, source=source, progress=progress)
    with tempfile.TemporaryDirectory(prefix="gape-") as temporary:
        if source is not None and chosen.ledger is None:
            chosen = chosen.with_values(ledger=":memory:")
        return run_text(chosen, Path(temporary) / "run", source=source, progress=progress)


def run_text(
    settings: Settings,
    folder: str | Path,
    *,
    source: object = None,
    progress: Callable[[Progress], None] | None = None,
    noise: Noise | None = None,
) -> SyntheticTexts:
    """Run synthesis in a folder, or resume the run in it, and return what it publishes.

    The private records are read from `source` or from the file of the settings and embedded once, in memory. Nothing of
    them is written, or sent anywhere except to an embedder that may see them. If the settings name a folder that
    `embed_texts` has filled, its vectors vote from disk. With the engine ray, the workers of a cluster read, vote and
    write. Both give the same result. A refused run leaves its folder unchanged. `noise` is for tests.
    """
    return run_in(SettingsFolder(folder), settings, source=source, progress=progress, noise=noise)


def run_in(
    folder: SettingsFolder,
    settings: Settings,
    *,
    source: object = None,
    progress: Callable[[Progress], None] | None = None,
    noise: Noise | None = None,
) -> SyntheticTexts:
    """Do what `run_text` does in a folder that is open already."""
    folder.refuse_foreign()
    report = progress or (lambda _: None)
    with engaged(settings, source, lambda doing: report(early(settings, doing))) as private:
        settings = folder.same_run(resolved(settings, private).anchored())
        if not folder.finished:
            return _run(folder, settings, private, report, noise)
    return _published(folder)


def resume(
    folder: str | Path,
    *,
    source: object = None,
    progress: Callable[[Progress], None] | None = None,
    noise: Noise | None = None,
    **changes: Any,
) -> SyntheticTexts:
    """Resume the run of a folder with its own settings, and return what it publishes.

    No stored answer is asked for again, and no round is paid for twice. `changes` are settings that may differ when a
    run is resumed, such as caps, keys, the engine and the path of the data. Consent must be given again in each
    process. If the folder is from somebody else, everything that reaches outside it must be given, such as base_url and
    data. Data that was in memory must be given again as `source`.
    """
    return resume_in(SettingsFolder(folder), changes, source=source, progress=progress, noise=noise)


def resume_in(
    folder: SettingsFolder,
    changes: Mapping[str, Any],
    *,
    source: object = None,
    progress: Callable[[Progress], None] | None = None,
    noise: Noise | None = None,
) -> SyntheticTexts:
    """Do what `resume` does in a folder that is open already."""
    _refuse_fixed(folder, changes)
    if folder.finished:
        return _published(folder)
    settings = settings_to_resume(folder, changes, in_memory=source is not None)
    return run_in(folder, settings, source=source, progress=progress, noise=noise)


def settings_to_resume(folder: SettingsFolder, changes: Mapping[str, Any], *, in_memory: bool = False) -> Settings:
    """Return the settings to resume a run with: its own, as far as they can be trusted, and the changes."""
    changes = {name: value for name, value in changes.items() if value is not None}
    _refuse_fixed(folder, changes)
    uses: list[Use] = ["generator", "embedder", "ledger", "engine"]
    if not in_memory:
        uses.append("data")
    # Whoever starts a run sets the budget; resuming a run must not raise it.
    settings = folder.agreed(uses, **changes).with_values(budget_epsilon=changes.get("budget_epsilon"))
    if not in_memory and not settings.data:
        raise InputError(f"the data of {folder.path} was in memory; give it again")
    return settings


def _refuse_fixed(folder: SettingsFolder, changes: Mapping[str, Any]) -> None:
    """Refuse changes of settings that must stay the same within a run."""
    stored = folder.settings()
    allowed = OPERATIONAL if folder.own else OPERATIONAL | set(OUTSIDE)
    given = {name for name, value in changes.items() if value is not None}
    for name in sorted(given - allowed):
        if changes[name] != getattr(stored, name, None):
            raise InputError(f"{name} cannot change within a run; start a new one in another folder")


def _run(
    folder: SettingsFolder,
    settings: Settings,
    private: Private,
    report: Callable[[Progress], None],
    noise: Noise | None,
) -> SyntheticTexts:
    """Run resolved settings to the end, from the current state of the folder."""
    plan = make_plan(settings, folder.begun_plan)
    selector = make_selector(settings, plan, folder.recorded("selector"))
    prices = (*settings.prices, settings.image_price)
    tracker = Tracker(
        plan, prices, report, writes=writes(settings) or bool(settings.services), pictures=bool(settings.draws)
    )
    require_votes_may_leave(settings)
    tally = EmbeddingTally(folder.layout)
    purse = make_purse(settings, folder.layout.answers, tally.tokens)
    embedder = make_embedder(settings, purse, tally)
    require_embedder(settings, private, embedder)
    refuse_shared_corpus(settings, private, lambda: embedder)
    with (
        _writer(settings, folder.layout.answers, tracker.waiting, purse) as bare,
        closing(folder.open_ledger(settings, plan, private)) as ledger,
    ):
        cached = Cached(embedder, max(CACHED, plan.candidates))  # only for public texts
        embeds = isinstance(private, Records) and not plan.by_survey
        doing = f"{'embedding' if embeds else 'opening'} the private {settings.records.nouns}"
        tracker.say(doing)
        if settings.labels is None:
            rehearse(selector, plan.candidates)
        electorate = make_electorate(
            settings, private, watched(embedder, lambda done, texts: tracker.say(doing, done / texts))
        )
        folder.write(settings)
        tally.save()
        listener = Listener(tracker.answered, tracker.asked)
        with remembering(bare, folder.layout.answers, listener) as model:
            asks_topics = settings.domain is not None and settings.topics is None and not settings.bare_prompts
            if asks_topics:
                tracker.say("choosing topics")
            prompts = make_prompts(settings, model, cached)
            if writes(settings) and not settings.bare_prompts:
                folder.write(settings.with_values(topics=prompts.rules.get("topic")))  # for a resumed run
            tracker.begin(folder.batches)
            comparing = candidate_embedder(settings, cached)
            recorded = folder.recorded("generator")
            with whole_generator(
                settings, model, folder.layout.answers, listener, prompts, cached, recorded
            ) as generator:
                state, statement = run(
                    folder.path,
                    plan,
                    generator,
                    comparing,
                    electorate,
                    selector,
                    ledger,
                    noise=noise,
                    progress=tracker.state,
                    modality=settings.records,
                    last_pass=LastPass(generator, comparing, max(plan.scales), wording=settings.records.wording)
                    if keeps_distinct(settings)
                    else None,
                )
    published = pa.table(settings.records.publish(state.synthetic))
    return _as_texts(settings.records, state.synthetic, statement, published)


@contextmanager
def _writer(
    settings: Settings, answers: Path, waiting: Callable[[int, int], None], purse: Purse
) -> Iterator[LanguageModel | None]:
    """Yield the language model: with Ray a copy on each worker, unless it is a service or no model writes."""
    if not settings.on_ray or generator_kind(settings) == "openai" or not writes(settings):
        yield make_model(settings, answers, waiting, purse)
        return
    make = partial(make_model, settings, answers)
    with RayModel(cast(Callable[[], LanguageModel], make), workers_of(settings)) as model:
        yield model


def early(settings: Settings, doing: str) -> Progress:
    """Return the progress while the amount of work is not known yet."""
    return Progress(doing, round=0, rounds=settings.rounds, written=0, texts=0, asked=0, tokens=0, cost=0.0)


def _published(folder: SettingsFolder) -> SyntheticTexts:
    record, statement, table = folder.published()
    return _as_texts(record.modality, record.samples(record.last), statement, table)


def _as_texts(modality: Modality, samples: Samples, statement: PrivacyStatement, table: pa.Table) -> SyntheticTexts:
    labels = samples["label"].tolist() if samples.dtype.names else None
    return SyntheticTexts(modality.lines(samples), labels, statement, table)
