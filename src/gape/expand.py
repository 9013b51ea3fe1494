"""More samples from a finished run, at no cost to privacy."""

from collections.abc import Callable
from pathlib import Path

import numpy as np

from gape.assembly import make_embedder, make_plan
from gape.errors import InputError
from gape.export import read_finished
from gape.files import holds_rows, lines_of
from gape.labels import labelled
from gape.text_folder import TextFolder
from gape.types import Samples, as_samples
from gape.writers import Listener, make_generator, make_model, make_prompts, remembering, writes


def expand(run: str | Path, count: int, progress: Callable[[int], None] | None = None) -> Samples:
    """Return `count` samples: those of a finished run, and further variations of them.

    It reads published data alone, so the guarantee of the run holds for all of them at no further cost. Recall rises,
    for more of what the private data contains is near one of them; precision falls, for no vote has judged the new
    ones. `progress` is told how many the model has written.
    """
    folder = TextFolder(run)
    made, _, table = read_finished(folder.path)
    settings = folder.settings()
    plan = make_plan(settings)
    texts = as_samples(lines_of(table) if holds_rows(made["parts"]) else table["text"].to_pylist())
    samples = texts if settings.labels is None else labelled(table["label"].to_pylist(), texts)
    if count <= len(samples):
        raise InputError(f"count must be more than the {len(samples)} samples that are there, got {count}")
    written = 0

    def note(_: object) -> None:
        nonlocal written
        written += 1
        if progress:
            progress(written)

    embedder = None if writes(settings) else make_embedder(settings)
    rng = np.random.default_rng([plan.seed, plan.rounds + 1, *b"expand"])
    listener = Listener(note, lambda _: None)
    with remembering(make_model(settings, folder.answers), folder.answers, listener) as model:
        generator = make_generator(settings, model, make_prompts(settings, model), embedder)
        turns = -(-(count - len(samples)) // len(samples))
        some = np.concatenate([rng.permutation(len(samples)) for _ in range(turns)])[: count - len(samples)]
        scales = np.resize(np.repeat(plan.scales, len(samples)), len(some))  # every sample once before the next scale
        return np.concatenate([samples, generator.vary(samples[some], scales, rng)])
