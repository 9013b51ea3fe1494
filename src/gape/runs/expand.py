"""More samples from a finished run, at no cost to privacy."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gape.core.errors import InputError, RunError
from gape.core.protocols import SurveyGenerator
from gape.core.types import Samples
from gape.embedders.cached import Cached
from gape.runs.embedder import make_embedder
from gape.runs.folder.record import read_finished
from gape.runs.folder.stored import SettingsFolder
from gape.runs.generator import Listener, make_generator, make_model, make_prompts, remembering, writes
from gape.runs.reach import Use
from gape.runs.resolve import make_plan
from gape.runs.run import describe
from gape.runs.selector import keeps_distinct


def expand(run: str | Path, count: int, progress: Callable[[int], None] | None = None, **settings: Any) -> Samples:
    """Return `count` samples: those of a finished run and further variations of them.

    Rows that fit a survey are drawn again from its answers, all of them.

    Only data that may be published is read, so the guarantee covers all of them at no further cost. Recall rises,
    because more of the private data has a sample nearby. Precision falls, because no votes have selected the new
    samples. `progress` receives the number of texts written. The generator must be the one that the run recorded. For a
    folder from somebody else, `settings` give its address: generator, base_url, key_variable and so on.
    """
    folder = SettingsFolder(run)
    record, _, _ = read_finished(folder.path, folder.stored)
    if record.settings is None:
        raise RunError(f"{run} holds no run of `gape run`; name the folder of one")
    by_model = writes(record.settings)
    uses: tuple[Use, ...] = ("generator",) if by_model else ("generator", "embedder")
    chosen = folder.agreed(uses, **settings)
    plan = make_plan(chosen)
    samples = record.samples(record.last)
    surveyed = bool(plan.answers) and not plan.rounds
    if count <= len(samples):
        raise InputError(f"count must be more than the {len(samples)} samples of the run, got {count}; raise it")
    written = 0

    def note(_: object) -> None:
        nonlocal written
        written += 1
        if progress:
            progress(written)

    embedder = None if by_model else Cached(make_embedder(chosen))
    rng = np.random.default_rng([plan.seed, plan.rounds + 1, *b"expand"])
    listener = Listener(note, lambda _: None)
    with remembering(make_model(chosen, folder.layout.answers), folder.layout.answers, listener) as model:
        generator = make_generator(chosen, model, make_prompts(chosen, model), embedder)
        if (given := describe(generator)) != record.parts["generator"]:
            # Another generator could write private texts, and these would carry the guarantee.
            raise RunError(
                f"{run} was made by the generator {record.parts['generator']:.200}, not {given:.200}; give the one it "
                "was made by, with its model, prompts or corpus unchanged"
            )
        if surveyed and isinstance(generator, SurveyGenerator):
            return generator.informed(record.answers(), plan.sigma).random(count, rng)
        turns = -(-(count - len(samples)) // len(samples))
        some = np.concatenate([rng.permutation(len(samples)) for _ in range(turns)])[: count - len(samples)]
        # New texts if they should be distinct; otherwise every sample once before the next scale.
        usual = (max(plan.scales),) if keeps_distinct(chosen) else plan.scales
        scales = np.resize(np.repeat(usual, len(samples)), len(some))
        return np.concatenate([samples, generator.vary(samples[some], scales, rng)])
