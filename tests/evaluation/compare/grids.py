"""A small grid of runs on made-up texts, and what its cells are made of."""

import json
import math
import os
import signal
from contextlib import nullcontext
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np

from gape.core.protocols import Embedder, Generator, Selector
from gape.core.types import Points, Samples
from gape.embedders.cached import Cached
from gape.evaluation.compare import (
    Comparison,
    Grid,
    Method,
    Parts,
    Study,
    compare,
)
from gape.evolution.plan import Plan
from gape.generators.corpus import CorpusText
from gape.generators.prompted import PromptedText
from gape.generators.prompts import load
from gape.language.request import LanguageModel
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking
from gape.selection.subsampling import Subsampling
from gape.voting.electorate import LocalElectorate
from made_up import private_rows, public_texts

PLAN = Plan(epsilon=1.0, delta=1e-3, rounds=2, samples=8, scales=(0.3, 0.7))
STUDY = Study(PLAN, scored=40)


class Words:
    """A light embedder: every word a fixed direction in 24 dimensions, a text their normed sum; it counts texts."""

    def __init__(self) -> None:
        self.embedded: list[str] = []

    def embed(self, samples: Samples) -> Points:
        self.embedded += samples.tolist()
        points = np.array([np.sum([_direction(word) for word in text.split()], axis=0) for text in samples])
        unit: Points = (points / np.linalg.norm(points, axis=1, keepdims=True)).astype(np.float32)
        return unit


def _direction(word: str) -> Any:
    return np.random.default_rng(list(blake2b(word.encode(), digest_size=8).digest())).standard_normal(24)


@dataclass(frozen=True)
class CorpusBuilder:
    texts: tuple[str, ...]

    def __call__(self, model: LanguageModel | None, embedder: Embedder) -> tuple[Generator, Embedder]:
        return CorpusText(self.texts, embedder), embedder


@dataclass(frozen=True)
class PromptsBuilder:
    def __call__(self, model: LanguageModel | None, embedder: Embedder) -> tuple[Generator, Embedder]:
        assert model is not None
        return PromptedText(model, load("forum")), embedder


@dataclass(frozen=True)
class Broken:
    error: Exception

    def __call__(self, model: LanguageModel | None, embedder: Embedder) -> tuple[Generator, Embedder]:
        raise self.error


@dataclass(frozen=True)
class Dying:
    """Ends the process it gets into, as the system does when memory runs out; not that of the tests."""

    parent: int

    def __call__(self, model: LanguageModel | None, embedder: Embedder) -> tuple[Generator, Embedder]:
        assert os.getpid() != self.parent
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


def ranking(plan: Plan, units: int) -> Selector:
    return Ranking()


def subsampling(plan: Plan, units: int) -> Selector:
    return Subsampling()


def gape_rule(plan: Plan, units: int) -> Selector:
    return Gape(math.inf, threshold=plan.sigma, spare=2.0, signed=False)


METHODS = (Method("gape", gape_rule), Method("augpe", ranking), Method("subsamplepe", subsampling, {"keep": False}))
GRID = Grid(METHODS, (1.0, math.inf), (0, 1))


def private_texts(count: int = 200) -> Samples:
    return np.array([row["review"] for row in private_rows(count)], dtype=object)


def private_points() -> Points:
    return Words().embed(private_texts())


def run_grid(
    folder: Path, grid: Grid = GRID, study: Study = STUDY, jobs: int = 1, embedder: Words | None = None, **more: Any
) -> Comparison:
    points = private_points()
    parts = Parts(points, Cached(embedder or Words()), more.pop("build", CorpusBuilder(tuple(public_texts()))))
    return compare(folder, grid, study, nullcontext(parts), LocalElectorate(points).fingerprint, jobs=jobs, **more)


def cells(folder: Path) -> dict[str, Any]:
    """All cells of a folder, without what a clock decides."""
    found = {path.stem: json.loads(path.read_text()) for path in (folder / "cells").glob("*.json")}
    for cell in found.values():
        del cell["seconds"], cell["processor_seconds"]
    return found
