"""`gape diagnose`: measure whether a generator's variations spread enough for Private Evolution."""

import importlib.util
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from gape._support.files import read_json, require_writable_folder, write_json
from gape.cli.flags import takes_settings
from gape.cli.models import fetch_missing
from gape.cli.shared import errors_in_one_line, notes, output
from gape.core.errors import InputError
from gape.core.types import Points
from gape.embedders.cached import Cached
from gape.embedders.privacy import require_private_embedding
from gape.evaluation.diagnostics import Diagnosis, PointEstimate, diagnose
from gape.evaluation.plots import bias_figure, decay_figure, dimension_figure
from gape.runs.electorate import read_records
from gape.runs.embedder import make_embedder
from gape.runs.generator import Listener, make_generator, make_model, make_prompts, remembering
from gape.runs.resolve import variations_of
from gape.runs.settings import Settings
from gape.runs.spending import make_purse

_GROUP = "Diagnosis"
_FIGURES = ("dimension.png", "decay.png", "bias.png")


@errors_in_one_line()
@takes_settings
def diagnose_generator(
    settings: Settings,
    texts: Annotated[int, typer.Option(help="Number of random texts to vary.", rich_help_panel=_GROUP)] = 3,
    variations: Annotated[
        int, typer.Option(help="Variations of each text at each scale; the paper uses 3000.", rich_help_panel=_GROUP)
    ] = 100,
    out: Annotated[Path, typer.Option(help="Folder for the results.", rich_help_panel=_GROUP)] = Path("diagnosis"),
) -> None:
    """Measure how a generator's variations spread, and say whether Private Evolution can make progress with it.

    Also compares them with what the paper's theorems assume: no bias, a total variance, a warm start. Takes those flags
    of `gape run` that choose the generator and the embedder. Without DATA only the generator is used, and no privacy
    budget is spent. With DATA the private texts are the targets: for research only, NOT differentially private, and
    marked as such. To resume after a stop, repeat the command.
    """
    _refuse_foreign(out)
    if settings.also is not None:
        raise InputError(f"a diagnosis has one generator, got also {', '.join(settings.also)!r}; leave it out")
    fetch_missing(settings)
    variation, scales, _ = variations_of(settings)
    settings = settings.with_values(variation=variation, scales=scales)
    answers = out / "answers.sqlite"
    purse = make_purse(settings, answers)
    embedder = make_embedder(settings, purse)
    targets = _targets(settings, embedder) if settings.data else None
    out.mkdir(parents=True, exist_ok=True, mode=0o700)
    cached = Cached(embedder)
    terminal = notes()
    columns = (TextColumn("Varying"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bare = make_model(settings, answers, purse=purse)
    with (
        Progress(*columns, console=terminal, transient=True) if terminal.is_terminal else nullcontext() as bar,
        remembering(bare, answers, Listener(lambda _: None, lambda _: None)) as model,
    ):
        task = bar.add_task("", total=None) if bar else None
        seen = diagnose(
            make_generator(settings, model, make_prompts(settings, model, cached), cached),
            cached,
            scales,
            np.random.default_rng(settings.seed),
            texts=texts,
            variations=variations,
            targets=targets,
            separation=settings.separation,
            progress=lambda done, total: (
                bar.update(task, completed=done, total=total) if bar and task is not None else None
            ),
        )
    write_json(out / "diagnosis.json", _as_data(seen))
    if importlib.util.find_spec("matplotlib") is not None:
        decay_figure(out / "decay.png", seen)
        dimension_figure(out / "dimension.png", seen)
        bias_figure(out / "bias.png", seen)
    _print(output(), out, seen)


def _refuse_foreign(out: Path) -> None:
    """Refuse a folder that cannot be written, or has files other than those of a diagnosis, finished or stopped."""
    names = {path.name for path in out.iterdir()} if out.is_dir() else set()
    names -= {name for name in names if name.startswith("answers.sqlite")}
    if "diagnosis.json" in names and "verdict" in read_json(out / "diagnosis.json"):
        names -= {"diagnosis.json", *_FIGURES}
    if names:
        raise InputError(f"{out} contains {min(names)}, which no diagnosis writes; choose another folder")
    require_writable_folder(out)


def _targets(settings: Settings, embedder: Any) -> Points:
    require_private_embedding(embedder)
    points: Points = embedder.embed(read_records(settings).content)
    return points


def _as_data(seen: Diagnosis) -> dict[str, Any]:
    """Return the diagnosis as JSON data, marked if it used private data."""
    data = asdict(seen) | {"verdict": seen.verdict}
    for scale in data["scales"]:
        for spread in scale["dimensions"]:
            spread["singular_values"] = spread["singular_values"].tolist()
    return {"NOT PRIVATE": "computed from private data, without noise"} | data if seen.private_targets else data


def _print(console: Console, out: Path, seen: Diagnosis) -> None:
    if seen.private_targets:
        console.print("NOT PRIVATE: the targets are private texts, and no noise covers them.", style="bold red")
    table = Table("scale", "directions", "effective rank", "anticoncen-\ntration", "covered by\nthe best of 7")
    for measured in seen.scales:
        counts = sorted(spread.dimension for spread in measured.dimensions)
        table.add_row(
            f"{measured.scale:g}",
            f"{counts[len(counts) // 2]} ({counts[0]} to {counts[-1]})",
            _median([reach.effective_rank for reach in measured.reach]),
            _median([reach.anticoncentration for reach in measured.reach]),
            f"{np.mean(measured.progress):.1%}",
        )
    console.print(table)
    console.print(
        f"Directions: how many of {seen.ambient} explain 80% of the variance. Medians over texts, with the smallest "
        f"and the largest value. Doubling dimension of the random texts: {seen.doubling.value:.2g} (up to "
        f"{seen.doubling.high:.2g}).",
        markup=False,
    )
    console.print(_moments_table(seen))
    console.print(
        f"Bias: distance of the mean of {seen.variations} variations from their sample, beside what chance gives "
        "without a bias. tr Cov: their total variance, the paper's s². Both in the embedding; medians over texts.",
        markup=False,
    )
    for sentence in seen.verdict:
        console.print(f"- {sentence}", markup=False)
    for file in ("diagnosis.json", *_FIGURES):
        if (out / file).exists():
            console.print(str(out / file), markup=False)


def _moments_table(seen: Diagnosis) -> Table:
    """Return the mean and the variance of the variations, against the paper's VariationAPI."""
    table = Table("scale", "bias", "by chance", "bias found for", "tr Cov")
    for measured in seen.scales:
        moments = measured.moments
        bias, error, variance, spread = np.median(
            [(text.bias, text.bias_error, text.variance, text.variance_error) for text in moments], axis=0
        )
        texts = f"{sum(text.biased for text in moments)} of {len(moments)} texts"
        table.add_row(f"{measured.scale:g}", f"{bias:.3g}", f"{error:.2g}", texts, f"{variance:.3g} (± {spread:.1g})")
    return table


def _median(estimates: list[PointEstimate]) -> str:
    """Format the median over texts, with the range that all 95% intervals span."""
    median = float(np.median([estimate.value for estimate in estimates]))
    low, high = min(estimate.low for estimate in estimates), max(estimate.high for estimate in estimates)
    return f"{median:.3g} ({low:.3g} to {high:.3g})"
