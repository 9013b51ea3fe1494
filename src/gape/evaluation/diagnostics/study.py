"""A generator under study: many variations of a few samples, and what they say of Private Evolution with it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from gape._support.geometry import distances
from gape.core.errors import InputError
from gape.core.protocols import Embedder, Generator
from gape.core.types import Floats, Points
from gape.evaluation.diagnostics.measures import (
    IntrinsicDimension,
    PointEstimate,
    Reachability,
    doubling_dimension,
    intrinsic_dimension,
    reachability,
)

# Samples drawn besides those that are varied, for targets.
_POOL = 100

# A sample and its variations compete as in a round: the best of so many variations, on average over groups of them.
_COMPETING = 7

# Less than this share of the distance covered in a round is not seen under noise.
_PROGRESS = 0.01


@dataclass(frozen=True)
class ScaleDiagnosis:
    """What the variations at one scale do, for each sample that was varied."""

    scale: float
    dimensions: tuple[IntrinsicDimension, ...]
    reach: tuple[Reachability, ...]
    progress: tuple[float, ...]  # the share of the distance to its target that the best of seven variations covers


@dataclass(frozen=True)
class Diagnosis:
    """What can be expected of Private Evolution with a generator and an embedder."""

    ambient: int  # the dimension of the embedding
    variations: int
    doubling: PointEstimate  # of the samples drawn
    scales: tuple[ScaleDiagnosis, ...]
    private_targets: bool  # then this is NOT differentially private

    @property
    def best(self) -> ScaleDiagnosis:
        """The scale whose variations cover most of the way."""
        return max(self.scales, key=lambda each: float(np.mean(each.progress)))

    @property
    def verdict(self) -> tuple[str, ...]:
        """Say in plain words what it means."""
        best, covered = self.best, float(np.mean(self.best.progress))
        dimension = int(np.median([each.dimension for each in best.dimensions]))
        ranks = [each.effective_rank.value for each in best.reach]
        directions = (
            f"Variations move in about {dimension} of the embedding's {self.ambient} directions at scale "
            f"{best.scale:g}, and the direction of a target has one part in {np.median(ranks):.3g} of their variance."
        )
        if covered < _PROGRESS:
            still = (
                f"The best of {_COMPETING} variations covers {covered:.1%} of the distance to a target: Private "
                "Evolution will hardly move. Try other scales, another way to vary, or a model that can write more "
                "kinds of text."
            )
            return directions, still
        rounds = int(np.ceil(np.log(2) / -np.log1p(-min(covered, 0.9))))
        moving = (
            f"At scale {best.scale:g} the best of {_COMPETING} variations covers {covered:.1%} of the distance to a "
            f"target, so samples move: at this pace the distance is halved after {_rounds(rounds)}."
        )
        advice = (
            f"More rounds share one budget: {_rounds(min(max(rounds, 4), 10))} are a good first choice, and as many "
            "samples as get votes well above the noise, which `gape plan` works out."
        )
        return directions, moving, advice


def _rounds(count: int) -> str:
    return f"{count} rounds" if count > 1 else "one round"


def diagnose(
    generator: Generator,
    embedder: Embedder,
    scales: tuple[float, ...],
    rng: np.random.Generator,
    *,
    texts: int = 3,
    variations: int = 3000,
    targets: Points | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Diagnosis:
    """Measure variations of a few random samples at every scale.

    Of each of `texts` samples, `variations` variations are written at each scale. Its target is one of the
    other samples drawn, a public stand-in for a record: what is measured then costs no privacy. With `targets`, (n, d),
    it is one of these instead; where they are private the result is NOT differentially private. `progress` is
    told how many of the groups of variations are there, of how many.
    """
    if texts < 1 or variations < 3 or not scales:
        raise InputError(
            f"a diagnosis takes at least one text, 3 variations and one scale, got {texts}, {variations} and {scales}"
        )
    samples = generator.random(texts + _POOL, rng)
    points = embedder.embed(samples)
    pool = points[texts:] if targets is None else targets
    found = []
    for turn, scale in enumerate(scales):
        groups = []
        for place in range(texts):
            copies = samples[np.full(variations, place)]
            varied = embedder.embed(generator.vary(copies, np.full(variations, scale), rng))
            groups.append(_measured(points[place], varied, pool, rng))
            if progress:
                progress(turn * texts + place + 1, len(scales) * texts)
        found.append(ScaleDiagnosis(scale, *(tuple(each) for each in zip(*groups, strict=True))))
    return Diagnosis(
        points.shape[1], variations, doubling_dimension(points, rng), tuple(found), private_targets=targets is not None
    )


def _measured(
    sample: Points, varied: Points, pool: Points, rng: np.random.Generator
) -> tuple[IntrinsicDimension, Reachability, float]:
    away = distances(sample[None, :], pool)[0]
    others = np.flatnonzero(away > 0)
    if not len(others):
        raise InputError("every target coincides with the sample; give other targets")
    target = int(rng.choice(others))
    gaps: Floats = distances(varied, pool[[target]])[:, 0]
    whole = max(1, len(gaps) // _COMPETING)
    best = [group.min() for group in np.array_split(gaps[: whole * _COMPETING], whole)]
    covered = 1 - np.minimum(best, away[target]).mean() / away[target]
    return intrinsic_dimension(sample, varied), reachability(varied, pool[target], rng), float(covered)
