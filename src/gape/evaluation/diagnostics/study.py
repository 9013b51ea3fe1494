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
    Moments,
    PointEstimate,
    Reachability,
    WarmStart,
    doubling_dimension,
    intrinsic_dimension,
    moments,
    reachability,
    warm_start,
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
    moments: tuple[Moments, ...]
    distances: tuple[float, ...]  # from the sample to its target


@dataclass(frozen=True)
class Diagnosis:
    """What can be expected of Private Evolution with a generator and an embedder."""

    ambient: int  # the dimension of the embedding
    variations: int
    doubling: PointEstimate  # of the samples drawn
    scales: tuple[ScaleDiagnosis, ...]
    start: WarmStart
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
        conditions = (self._on_bias(best), self._on_start())
        if covered < _PROGRESS:
            still = (
                f"The best of {_COMPETING} variations covers {covered:.1%} of the distance to a target: Private "
                "Evolution will hardly move. Try other scales, another way to vary, or a model that can write more "
                "kinds of text."
            )
            return directions, still, *conditions
        rounds = int(np.ceil(np.log(2) / -np.log1p(-min(covered, 0.9))))
        moving = (
            f"At scale {best.scale:g} the best of {_COMPETING} variations covers {covered:.1%} of the distance to a "
            f"target, so samples move: at this pace the distance is halved after {_rounds(rounds)}."
        )
        advice = (
            f"More rounds share one budget: {_rounds(min(max(rounds, 4), 10))} are a good first choice, and as many "
            "samples as get votes well above the noise, which `gape plan` works out."
        )
        return directions, moving, advice, *conditions

    def _on_bias(self, measured: ScaleDiagnosis) -> str:
        """Compare the variations at one scale with the paper's VariationAPI, which has no bias."""
        seen = measured.moments
        bias = float(np.median([each.bias for each in seen]))
        variance = float(np.median([each.variance for each in seen]))
        share = float(np.median([each.bias / away for each, away in zip(seen, measured.distances, strict=True)]))
        found = (
            f"The mean of the variations at scale {measured.scale:g} lies {bias:.3g} from the sample, {share:.0%} of "
            f"the distance to its target, and their total variance is {variance:.3g}."
        )
        biased = sum(each.biased for each in seen)
        if not biased:
            return f"{found} No bias can be told from zero, as the paper's lemmas require."
        return (
            f"{found} For {biased} of {len(seen)} samples that bias is not chance. The paper's lemmas assume none, so "
            "they do not cover this generator."
        )

    def _on_start(self) -> str:
        """Compare the start with what the theorem of cluster discovery assumes."""
        start = self.start
        measured = (
            f"Of {start.targets} targets, {start.share:.0%} have one of {start.samples} first samples within R/8 for "
            f"R = {start.separation:.3g}; all of them would from R = {start.separation_needed:.3g} on."
        )
        if start.share == 1:
            return f"{measured} The warm start that the theorem on clusters assumes holds for these targets."
        return f"{measured} The theorem on clusters assumes such a warm start for each cluster."


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
    separation: float | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Diagnosis:
    """Measure variations of a few random samples at every scale.

    Of each of `texts` samples, `variations` variations are written at each scale. Its target is one of the
    other samples drawn, a public stand-in for a record: what is measured then costs no privacy. With `targets`, (n, d),
    it is one of these instead; where they are private the result is NOT differentially private. The start is compared
    with `targets`, or one half of the samples drawn with the other, at R = `separation` (`warm_start`). `progress` is
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
    half = len(points) // 2
    first, aims = (points[:half], points[half:]) if targets is None else (points, targets)
    return Diagnosis(
        points.shape[1],
        variations,
        doubling_dimension(points, rng),
        tuple(found),
        warm_start(first, aims, separation),
        private_targets=targets is not None,
    )


def _measured(
    sample: Points, varied: Points, pool: Points, rng: np.random.Generator
) -> tuple[IntrinsicDimension, Reachability, float, Moments, float]:
    away = distances(sample[None, :], pool)[0]
    others = np.flatnonzero(away > 0)
    if not len(others):
        raise InputError("every target coincides with the sample; give other targets")
    target = int(rng.choice(others))
    gaps: Floats = distances(varied, pool[[target]])[:, 0]
    whole = max(1, len(gaps) // _COMPETING)
    best = [group.min() for group in np.array_split(gaps[: whole * _COMPETING], whole)]
    covered = 1 - np.minimum(best, away[target]).mean() / away[target]
    return (
        intrinsic_dimension(sample, varied),
        reachability(varied, pool[target], rng),
        float(covered),
        moments(sample, varied),
        float(away[target]),
    )
