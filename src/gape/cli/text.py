"""`gape plan`, `gape run`, `gape resume`: synthetic records from private ones."""

import math
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gape._support.parallel import cores
from gape.cli.flags import takes_changes, takes_settings
from gape.cli.live import watching
from gape.cli.models import fetch_missing, models_of
from gape.cli.shared import duration_in_words, errors_in_one_line, output, print_statement, resumable
from gape.evolution.plan import Plan
from gape.language.locate import KINDS
from gape.privacy.accounting import stated
from gape.runs.advice import LONG, Outlook, calls_of, faster_engine, outlook
from gape.runs.electorate import Here, open_private, refuse_shared_corpus, unit_of, units_of
from gape.runs.embedder import make_embedder
from gape.runs.folder.stored import SettingsFolder, ledger_of
from gape.runs.generator import describe_writer, make_model, make_prompts, writes
from gape.runs.labels import is_a_cell
from gape.runs.method import method_in_words
from gape.runs.resolve import make_plan, resolved
from gape.runs.settings import Settings
from gape.runs.synthesize import SyntheticTexts, early, resume_in, run_in, settings_to_resume
from gape.voting.store import VectorFolder

_SHOWN_TEXTS, _SHOWN_CHARACTERS, _SHOWN_TOPICS = 3, 300, 12


@errors_in_one_line()
@takes_settings
def plan(settings: Settings) -> None:
    """Show what a run would do: noise, votes, model calls, tokens, cost and time. Spends and sends nothing.

    Takes the flags of `gape run`.
    """
    with watching() as progress:
        private = open_private(settings, report=lambda doing: progress(early(settings, doing)))
    settings = resolved(settings, private)
    if not isinstance(private, VectorFolder):  # for vectors, the corpus would have to be embedded
        refuse_shared_corpus(settings, private, lambda: make_embedder(settings))
    chosen = make_plan(settings)
    embedded = isinstance(private, VectorFolder)
    expected = outlook(chosen, units_of(private), describe_writer(settings), cores=cores(), embedded=embedded)
    if chosen.by_survey:
        expected = replace(expected, seconds=settings.records.survey_seconds(len(private), chosen.samples))
    console = output()
    _print_plan(console, settings, private, chosen, expected)
    own = settings.records.remarks(settings.generator, settings.labels) if settings.own_generator else []
    faster = [faster_engine(settings.generator)] if (expected.seconds or 0) > LONG else []
    for remark in (*own, *expected.remarks, *_ledger_remarks(settings, chosen), *filter(None, faster)):
        console.print(f"- {remark}", markup=False)


@errors_in_one_line()
@takes_settings
def run(
    settings: Settings,
    out: Annotated[Path | None, typer.Option(help="Folder of the run. Defaults to runs/ and the name of DATA.")] = None,
) -> None:
    """Make synthetic records from private ones, under a differential privacy guarantee.

    Private records stay on this machine, or with the workers of --engine. They only vote on candidates that a generator
    has written. `gape resume` resumes a stopped run. `gape plan` shows what to expect.
    """
    folder = SettingsFolder(out or Path("runs") / (Path(settings.data).name.partition(".")[0] or "run"))
    folder.refuse_foreign()  # before models are fetched
    _fetch_models(settings)
    with resumable(folder.path), watching(faster_engine(settings.generator)) as progress:
        result = run_in(folder, settings, progress=progress)
    _print_result(output(), folder, result)


@errors_in_one_line()
@takes_changes(
    *(
        "data",
        "ledger",
        "engine",
        "workers",
        "generator",
        "also",
        "prompts",
        "base_url",
        "key_variable",
        "key_file",
        "api_version",
    ),
    *("concurrency", "embedding_price", "image_price", "max_cost", "max_tokens_total", "max_images"),
    *("painter", "painter_base_url", "painter_key_variable", "exact_votes_may_leave", "corpus_may_share"),
    *("embedder", "embedder_base_url", "embedder_key_variable", "private_text_may_leave"),
)
def resume(
    run: Annotated[Path, typer.Argument(help="Folder of the run.")],
    changes: dict[str, Any],
) -> None:
    """Resume a stopped run with its original settings.

    No stored answer is requested again, and no round is paid for twice. Flags can change what may differ when a run is
    resumed: the paths of data and ledger, keys, caps, the engine. Consent must be given again each time. For a run
    folder from somebody else, give everything that reaches outside it, such as --data and --base-url: addresses and
    paths in the folder are not trusted.
    """
    folder = SettingsFolder(run)
    if not folder.finished:
        _fetch_models(settings_to_resume(folder, changes))
    with resumable(run), watching() as progress:
        result = resume_in(folder, changes, progress=progress)
    _print_result(output(), folder, result)


def _fetch_models(settings: Settings) -> None:
    """Fetch missing models, once it is clear that the run is possible."""
    if not all(weights.fetched for weights in models_of(settings)):
        if not settings.on_ray:  # otherwise only the workers read the data
            resolved(settings, open_private(settings))
        fetch_missing(settings)


def _print_plan(console: Console, settings: Settings, private: Here, chosen: Plan, expected: Outlook) -> None:
    unit = unit_of(private)
    blank = f", {private.dropped} blank rows left out" if private.dropped else ""
    users = f" of {expected.units} users" if unit == "user" else ""
    variations = len(chosen.scales) * chosen.copies
    what = settings.records.nouns
    kept = f" and the {settings.records.noun} itself" if chosen.keep else ""
    public = f"; the number of {unit}s is taken as public" if chosen.neighbours == "replace" else ""
    varied = f" ({settings.variation})" if settings.variation else ""
    painted = f", painter {settings.painter}" if settings.painter else ""
    rows = {
        "data": f"{private.source}: {len(private)} records{users}{blank}",
        "guarantee": f"epsilon {chosen.epsilon:g}, delta {stated(chosen.delta, 3)}, for one {unit} "
        f"({chosen.neighbours}){public}"
        if math.isfinite(chosen.epsilon)
        else "none: epsilon inf is NOT PRIVATE",
        "noise": _noise(chosen),
        "votes": _votes(chosen, unit),
        what: f"{chosen.samples} samples; {variations} variations of each{kept}: "
        f"{chosen.samples * (variations + int(chosen.keep))} candidates a round"
        if chosen.rounds
        else f"{chosen.samples} {what}",
        "method": str(method_in_words(settings)),
        "parts": f"generator {settings.generator}{varied}{painted}, embedder {settings.embedder}",
        "work": f"{expected.calls:,} model answers, about {expected.prompt_tokens:,} tokens read and "
        f"{expected.completion_tokens:,} written"
        if expected.calls
        else "no language model is asked",
    }
    if expected.images:
        images = f"{expected.images:,} images of {settings.draws}"
        rows["work"] = f"{rows['work']}; {images}" if expected.calls else images
    if topics := _topics(settings):
        rows["topics"] = topics
    if expected.embedded_tokens:
        rows["embedding"] = f"about {expected.embedded_tokens:,} tokens read by {settings.embedder}"
    if cost := _cost(settings, expected):
        rows["cost"] = cost
    if settings.batch:
        batches = sum(calls > 0 for calls in calls_of(chosen))
        rows["time"] = f"{batches} batches or more, one after another; the service answers each within a day"
    if expected.seconds is not None:
        rows["time"] = f"about {duration_in_words(expected.seconds)} on this machine (an estimate)"
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 0))
    for name, value in rows.items():
        table.add_row(name, escape(value))
    console.print(table)
    console.print()


def _cost(settings: Settings, expected: Outlook) -> str:
    """Say what services will cost; nothing if there is none."""
    writing, embedding = settings.generator.startswith("openai:"), bool(expected.embedded_tokens)
    drawing = bool(expected.images)
    if not expected.cost:
        return "not known: give the prices" if writing or embedding or drawing else ""
    halved = ", at the half price of batches" if settings.batch else ""
    unknown = [
        name
        for name, missing in (
            ("embeddings", embedding and not settings.embedding_price),
            ("answers", writing and not any(settings.prices)),
            ("images", drawing and not settings.image_price),
        )
        if missing
    ]
    return f"about {expected.cost:.2f}{halved}" + (f", without {unknown[0]}: give their price" if unknown else "")


def _votes(chosen: Plan, unit: str) -> str:
    """Say for how many candidates a record votes, how many votes a user has, and what a survey asks."""
    if chosen.answers:
        most, share = sum(chosen.answers), sum(chosen.answers) / chosen.counted
        answers = "one answer" if most == 1 else f"at most {most} answers"
        asked = f"each {unit} gives {answers} to the survey, {share:.0%} of the privacy budget"
        return f"{asked}; {_votes(replace(chosen, answers=()), unit)}" if chosen.rounds else asked
    count = chosen.votes_per_record
    cast = "each record votes for its nearest candidate"
    if count > 1:
        cast = f"each record votes for its {count} nearest candidates"
    limit = "one vote" if chosen.votes_per_unit == 1 else f"{chosen.votes_per_unit} votes"
    return cast if unit == "record" else f"{cast}; at most {limit} per {unit} and round"


def _noise(chosen: Plan) -> str:
    releases = len(chosen.answers)
    survey = f"in {releases} releases of a survey" if releases > 1 else "in a survey" if releases else ""
    rounds = f"in each of {chosen.rounds} rounds" if chosen.rounds > 1 else "in one round" if chosen.rounds else ""
    where = " and ".join(filter(None, (survey, rounds)))
    counts = "each count" if survey else "the votes of each candidate"
    return f"sigma {chosen.sigma:.4g} on {counts}, {where}"


def _topics(settings: Settings) -> str:
    """Return the topics of the first texts; nothing if no model writes them.

    If the model is on this machine, it is asked for the topics of a domain now. The run will ask for the same.
    """
    if not writes(settings):
        return ""
    named = settings.prompts is not None or settings.topics is not None or settings.bare_prompts
    asked_for = settings.domain is not None and not named
    here = settings.generator.partition(":")[0] in KINDS and all(part.fetched for part in models_of(settings))
    if asked_for and not here:
        return "the model is asked for them when the run begins; --topics sets them"
    model = make_model(settings, Path()) if asked_for else None
    embedder = make_embedder(settings) if asked_for and settings.embedder == "minilm" else None
    topics = make_prompts(settings, model, embedder).rules.get("topic", ())
    shown = ", ".join(topics[:_SHOWN_TOPICS])
    more = ", ..." if len(topics) > _SHOWN_TOPICS else ""
    by = "; the model named them, and --topics sets your own" if asked_for else ""
    return f"{len(topics)}: {shown}{more}{by}" if topics else ""


def _ledger_remarks(settings: Settings, chosen: Plan) -> list[str]:
    standing = ledger_of(settings)
    if standing is None:
        return []
    budget, spent, fits = standing.budget, standing.epsilon, standing.fits(chosen)
    remark = f"Earlier runs have spent epsilon {stated(spent, 3)} of the data's budget of {budget.epsilon:g}."
    if fits or settings.budget_epsilon is not None:
        return [remark]
    return [f"{remark} This run exceeds the rest: raise --budget-epsilon if the owner of the data agrees."]


def _print_result(console: Console, folder: SettingsFolder, result: SyntheticTexts) -> None:
    settings = folder.settings()
    asked, what = settings.samples or 0, settings.kind.nouns
    fewer = f" instead of {asked}, because there were no more different candidates" if len(result) < asked else ""
    console.print(f"{len(result)} synthetic {what}{fewer}, for instance:", style="bold")
    for index, text in enumerate(result.texts[:_SHOWN_TEXTS]):
        label = f"{result.labels[index]}: " if result.labels and not is_a_cell(settings, settings.records) else ""
        short = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS].rsplit(maxsplit=1)[0] + " ..."
        console.print(f"- {label}{short}", markup=False)
    print_statement(console, result.privacy)
    console.print("\nFiles", style="bold")
    console.print(
        f"{folder.layout.release}: synthetic.parquet and its privacy statement, ready to publish", markup=False
    )
    console.print(
        f"{folder.layout.internal}: what is needed to inspect or resume the run; keep it private", markup=False
    )
    name = quote(str(folder.path))
    form = settings.kind.exported
    how = "as CSV" if form == "csv" else "as files"
    console.print(f"`gape export {name} --format {form}` writes the {what} {how}.", markup=False)
    console.print(f"`gape report {name}` writes an HTML report.", markup=False)
    if not result.privacy.private:
        console.print("NOT PRIVATE: do not publish it.", style="bold red")
