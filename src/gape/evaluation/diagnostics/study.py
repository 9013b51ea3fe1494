"""Diagnose a generator: write many variations of a few samples, and predict how Private Evolution will do with them."""

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

# Number of further samples to draw targets from.
_POOL = 100

# Variations compete in groups of this size, as in a round; the progress of the best one is averaged over groups.
_COMPETING = 7

# If a round covers less than this share of the distance, noise hides the progress.
_PROGRESS = 0.01


@dataclass(frozen=True)
class ScaleDiagnosis:
    """Measures of the variations at one scale, one for each sample that was varied."""

    scale: float
    dimensions: tuple[IntrinsicDimension, ...]
    reach: tuple[Reachability, ...]
    progress: tuple[float, ...]  # share of the distance to its target that the best of seven variations covers
    moments: tuple[Moments, ...]
    distances: tuple[float, ...]  # from the sample to its target


@dataclass(frozen=True)
class Diagnosis:
    """What to expect of Private Evolution with a generator and an embedder."""

    ambient: int  # dimension of the embedding
    variations: int
    doubling: PointEstimate  # doubling dimension of the samples drawn
    scales: tuple[ScaleDiagnosis, ...]
    start: WarmStart
    private_targets: bool  # if so, this is NOT differentially private

    @property
    def best(self) -> ScaleDiagnosis:
        """The scale whose variations cover the largest share of the distance."""
        return max(self.scales, key=lambda at_scale: float(np.mean(at_scale.progress)))

    @property
    def verdict(self) -> tuple[str, ...]:
        """The conclusions in plain words."""
        best, covered = self.best, float(np.mean(self.best.progress))
        dimension = int(np.median([intrinsic.dimension for intrinsic in best.dimensions]))
        ranks = [reach.effective_rank.value for reach in best.reach]
        directions = (
            f"Variations move in about {dimension} of the embedding's {self.ambient} directions at scale "
            f"{best.scale:g}, and 1/{np.median(ranks):.3g} of their variance is in the direction of a target."
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
            f"target, so samples move: at this pace the distance is halved after {_in_rounds(rounds)}."
        )
        advice = (
            f"All rounds share one budget: {_in_rounds(min(max(rounds, 4), 10))} are a good first choice. `gape plan` "
            "says how many samples the votes can tell apart."
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
            return f"{found} No bias differs measurably from zero, as the paper's lemmas require."
        return (
            f"{found} For {biased} of {len(seen)} samples that bias is not chance. The paper's lemmas assume none, so "
            "they do not cover this generator."
        )

    def _on_start(self) -> str:
        """Compare the start with what the theorem of cluster discovery assumes."""
        start = self.start
        measured = (
            f"Of {start.targets} targets, {start.share:.0%} have one of {start.samples} initial samples within R/8 for "
            f"R = {start.separation:.3g}; all of them would have one if R were {start.separation_needed:.3g}."
        )
        if start.share == 1:
            return f"{measured} The warm start that the theorem on clusters assumes holds for these targets."
        return f"{measured} The theorem on clusters assumes such a warm start for each cluster."


def _in_rounds(count: int) -> str:
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
    """Measure variations of a few random samples at each scale.

    For each of `texts` samples, `variations` variations are written at each scale. Its target is one of the other
    samples drawn, a public stand-in for a record, so this costs no privacy. With `targets`, (n, d), the target is one
    of them instead; if they are private, the result is NOT differentially private. The start is compared with
    `targets`, or one half of the samples drawn with the other, at R = `separation` (`warm_start`). `progress` receives
    the number of finished groups of variations and their total.
    """
    if texts < 1 or variations < 3 or not scales:
        raise InputError(
            f"a diagnosis needs at least one text, 3 variations and one scale, got {texts}, {variations} and {scales}"
        )
    samples = generator.random(texts + _POOL, rng)
    points = embedder.embed(samples)
    pool = points[texts:] if targets is None else targets
    diagnosed = []
    for turn, scale in enumerate(scales):
        groups = []
        for index in range(texts):
            copies = samples[np.full(variations, index)]
            varied = embedder.embed(generator.vary(copies, np.full(variations, scale), rng))
            groups.append(_measure(points[index], varied, pool, rng))
            if progress:
                progress(turn * texts + index + 1, len(scales) * texts)
        diagnosed.append(ScaleDiagnosis(scale, *(tuple(measures) for measures in zip(*groups, strict=True))))
    half = len(points) // 2
    first, aims = (points[:half], points[half:]) if targets is None else (points, targets)
    return Diagnosis(
        points.shape[1],
        variations,
        doubling_dimension(points, rng),
        tuple(diagnosed),
        warm_start(first, aims, separation),
        private_targets=targets is not None,
    )


def _measure(
    sample: Points, varied: Points, pool: Points, rng: np.random.Generator
) -> tuple[IntrinsicDimension, Reachability, float, Moments, float]:
    gaps_to_pool = distances(sample[None, :], pool)[0]
    others = np.flatnonzero(gaps_to_pool > 0)
    if not len(others):
        raise InputError("every target coincides with the sample; use other targets")
    target = int(rng.choice(others))
    gaps: Floats = distances(varied, pool[[target]])[:, 0]
    whole = max(1, len(gaps) // _COMPETING)
    best = [group.min() for group in np.array_split(gaps[: whole * _COMPETING], whole)]
    covered = 1 - np.minimum(best, gaps_to_pool[target]).mean() / gaps_to_pool[target]
    return (
        intrinsic_dimension(sample, varied),
        reachability(varied, pool[target], rng),
        float(covered),
        moments(sample, varied),
        float(gaps_to_pool[target]),
    )
