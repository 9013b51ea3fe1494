"""More samples from a finished run, at no cost to privacy."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from gape.core.errors import InputError, RunError
from gape.core.protocols import ConditionalGenerator, Generator, SurveyGenerator
from gape.core.types import Samples
from gape.embedders.cached import Cached
from gape.runs.conditions import Cells, choose_sources, read_condition, wanted_cells
from gape.runs.embedder import make_embedder
from gape.runs.folder.stored import SettingsFolder
from gape.runs.generator import Listener, make_model, make_prompts, remembering, whole_generator, writes
from gape.runs.reach import Use
from gape.runs.run import describe
from gape.runs.selector import keeps_distinct
from gape.runs.settings import Settings
from gape.runs.spending import make_purse

_TRIES = 3  # for a sample with given values


def expand(
    run: str | Path | SettingsFolder,
    count: int,
    progress: Callable[[int], None] | None = None,
    *,
    where: Sequence[str] = (),
    **settings: Any,
) -> Samples:
    """Return `count` samples: those of a finished run and further variations of them.

    With conditions, such as `where=["stars=1"]` or `where=["stars=1:3|5:1"]`, they have these values in these shares,
    whatever the run has (`gape.runs.conditions`): samples of the run that fit, and variations written to fit. Rows that
    fit a survey are drawn again from its answers, all of them.

    Only data that may be published is read, so the guarantee covers all of them at no further cost. Recall rises,
    because more of the private data has a sample nearby. Precision falls, because no votes have selected the new
    samples. `progress` receives the number of texts written. The generator must be the one that the run recorded. For a
    folder from somebody else, `settings` give its address: generator, base_url, key_variable and so on.
    """
    folder = SettingsFolder.of(run)
    record, _, _ = folder.published()
    if record.settings is None:
        raise RunError(f"{folder.path} is not the folder of a run; name a folder that `gape run` wrote")
    by_model = writes(record.settings)
    uses: tuple[Use, ...] = ("generator",) if by_model else ("generator", "embedder")
    chosen = folder.agreed(uses, **settings)
    plan = record.plan
    samples = record.samples(record.last)
    surveyed = plan.by_survey
    conditions = [read_condition(text, _columns(chosen, samples)) for text in where]
    if count <= len(samples) and not conditions:
        raise InputError(f"count must be more than the {len(samples)} samples of the run, got {count}; raise it")
    written = 0

    def note(_: object) -> None:
        nonlocal written
        written += 1
        if progress:
            progress(written)

    embedder = None if by_model else Cached(make_embedder(chosen, make_purse(chosen, folder.layout.answers)))
    rng = np.random.default_rng([plan.seed, plan.rounds + 1, *b"expand"])
    listener = Listener(note, lambda _: None)
    answers = folder.layout.answers
    with ExitStack() as stack:
        model = stack.enter_context(remembering(make_model(chosen, answers), answers, listener))
        prompts = make_prompts(chosen, model)
        recorded = record.parts["generator"]
        generator = stack.enter_context(whole_generator(chosen, model, answers, listener, prompts, embedder, recorded))
        if (given := describe(generator)) != recorded:
            # Another generator could write private texts, and these would carry the guarantee.
            raise RunError(
                f"{folder.path} was made by the generator {recorded:.200}, not {given:.200}; give the "
                "one it was made by, with its model, prompts or corpus unchanged"
            )
        if conditions:
            return _fitting(generator, chosen, samples, wanted_cells(conditions, count, rng), max(plan.scales), rng)
        if surveyed and isinstance(generator, SurveyGenerator):
            return generator.informed(record.answers(), plan.sigma).random(count, rng)
        turns = -(-(count - len(samples)) // len(samples))
        some = np.concatenate([rng.permutation(len(samples)) for _ in range(turns)])[: count - len(samples)]
        # New texts if they should be distinct; otherwise every sample once before the next scale.
        usual = (max(plan.scales),) if keeps_distinct(chosen) else plan.scales
        scales = np.resize(np.repeat(usual, len(samples)), len(some))
        return np.concatenate([samples, generator.vary(samples[some], scales, rng)])


def _columns(settings: Settings, samples: Samples) -> Mapping[str, Sequence[str]]:
    """Return the possible values of each column that a condition can be on: choices of a schema, or the labels."""
    labels = {settings.label or "label": settings.labels or ()} if samples.dtype.names else {}
    return {**settings.records.choices(), **labels}


def _fitting(
    generator: Generator,
    settings: Settings,
    samples: Samples,
    wanted: Sequence[Cells],
    scale: float,
    rng: np.random.Generator,
) -> Samples:
    """Return samples with the wanted cells: those of a run that have them, and variations of the others.

    A variation that the model does not deliver in `_TRIES` tries is left out.
    """
    if not isinstance(generator, ConditionalGenerator):
        raise InputError(
            f"the generator {settings.generator} cannot write {settings.records.nouns} with given values; leave out "
            "where, and select among the result"
        )
    columns = [name for name, _ in wanted[0]] if wanted else []
    known = [tuple(row.items()) for row in _cells(settings, samples, columns)]
    sources = choose_sources(known, wanted, rng)
    made, missing = [samples[sources.kept]], np.arange(len(sources.varied))
    for _ in range(_TRIES):
        cells = [dict(sources.wanted[index]) for index in missing]
        varied = generator.vary_to(samples[sources.varied[missing]], np.full(len(missing), scale), cells, rng)
        fits = np.array(
            [row == want for row, want in zip(_cells(settings, varied, columns), cells, strict=True)], dtype=bool
        )
        made.append(varied[fits])
        missing = missing[~fits]
        if not len(missing):
            break
    return np.concatenate(made)


def _cells(settings: Settings, samples: Samples, columns: Sequence[str]) -> list[dict[str, str]]:
    """Return the values of some columns, sample by sample."""
    values = [settings.records.labels(samples, name) for name in columns]
    known = [column.tolist() for column in values if column is not None]
    return [dict(zip(columns, row, strict=True)) for row in zip(*known, strict=True)]
