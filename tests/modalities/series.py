"""A modality of a package outside gape: daily curves of a meter, with their own reader, generator and embedder."""

import os
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from gape.core.errors import InputError
from gape.core.protocols import Embedder, Generator
from gape.core.types import Floats, Points, Samples
from gape.metrics.measure import Measure, Scoring
from gape.modalities import Columns, Modality, Records
from gape.modalities.base import Groups

_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True)
class Shape:
    """How many values a curve has, and between which bounds they lie."""

    length: int
    least: float
    most: float

    def clipped(self, curves: Samples) -> Samples:
        return np.clip(curves, self.least, self.most).astype(np.float32)


@dataclass(frozen=True)
class CurveGenerator:
    """Waves of random height and time of day; a variation adds another, smaller wave."""

    shape: Shape

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        return self.shape.clipped(self._waves(count, rng) + (self.shape.least + self.shape.most) / 2)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        time.sleep(float(os.environ.get("CURVES_SLOW", "0")))  # so that a test can kill the process in time
        return self.shape.clipped(samples + scales[:, None] * self._waves(len(samples), rng))

    def _waves(self, count: int, rng: np.random.Generator) -> Floats:
        hours = np.arange(self.shape.length) / self.shape.length
        height, shift = rng.normal(size=(count, 1)), rng.random((count, 1))
        return (self.shape.most - self.shape.least) / 2 * height * np.sin(2 * np.pi * (hours - shift))


@dataclass(frozen=True)
class CurveEmbedder:
    """Root mean squared difference of two curves, as a share of the range."""

    shape: Shape

    def embed(self, samples: Samples) -> Points:
        share = (samples - self.shape.least) / (self.shape.most - self.shape.least)
        points: Points = (share / np.sqrt(self.shape.length)).astype(np.float32)
        return points


class Curves(Modality):
    """One curve a day, as a line of a CSV file."""

    name = "curves"
    noun = "curve"
    defaults: ClassVar[Mapping[str, Any]] = {"generator": name, "embedder": name, "rounds": 4}
    unused = ("text", "label", "labels", "variation", "prompts", "domain", "topics", "words", "corpus_text")
    scales = (0.1, 0.3, 0.6)
    per_second = 10_000.0
    written_by = "none: waves drawn within the bounds"
    compared_by = "their root mean squared difference"

    def __init__(self, schema: str | Path | None = None) -> None:
        self._shape = None if schema is None else Shape(**tomllib.loads(Path(schema).read_text()))

    @property
    def shape(self) -> Shape:
        if self._shape is None:
            raise InputError("curves need a schema with length, least and most; name it as schema")
        return self._shape

    def describe(self) -> dict[str, str]:
        return {"schema": repr(self.shape)}

    def read(self, source: object, columns: Columns) -> Records:
        try:
            curves = np.loadtxt(str(source), delimiter=",", ndmin=2)
        except (OSError, ValueError) as error:
            raise InputError(f"{source} is not a file of curves ({type(error).__name__}); name one") from None
        if curves.shape[1] != self.shape.length:
            raise InputError(f"{source} has curves of {curves.shape[1]} values; the schema says {self.shape.length}")
        return Records.of_vectors(self.shape.clipped(curves), str(source))

    def generator(self) -> Generator:
        return CurveGenerator(self.shape)

    def embedder(self) -> Embedder:
        return CurveEmbedder(self.shape)

    def lines(self, samples: Samples) -> list[str]:
        low, high = samples.min(axis=1, keepdims=True), samples.max(axis=1, keepdims=True)
        bars = ((samples - low) / np.maximum(high - low, 1e-9) * (len(_BARS) - 1)).round().astype(int)
        return ["".join(_BARS[bar] for bar in curve) for curve in bars]

    def measures(self, real: Samples, synthetic: Samples, scoring: Scoring) -> Groups:
        apart = float(np.abs(real.mean(axis=0) - synthetic.mean(axis=0)).mean())
        return {"Curves": (Measure("mean curve distance", apart, "between the mean curves, over all hours"),)}
