import math
from typing import Any

import numpy as np
import pytest

from gape._support.geometry import distances
from gape.core.errors import InputError
from gape.core.types import Points
from gape.embedders.identity import IdentityEmbedder
from gape.evolution.evolve import evolve
from gape.evolution.presets import Preset, beyond_worst_case, gape_with_guarantee
from gape.evolution.state import State
from gape.evolution.theory import plan_gape, plan_worst_case
from gape.generators.vectors import GaussianGenerator, StartFromBox, StartFromSet
from gape.privacy.accounting import noise_scale, paper_noise_scale
from gape.privacy.ledger import Account, Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.selection.bounded_lipschitz import BoundedLipschitz, BoundedLipschitzResult, bounded_lipschitz_distance
from gape.selection.local_search import Gape
from gape.voting.electorate import LocalElectorate

GAUSSIAN: dict[str, Any] = {"effective_rank": 2, "anticoncentration": 0.18}
CLUSTERS: dict[str, Any] = {
    "samples": 4, "separation": 100.0, "diameter": 0.02, "failure_probability": 0.1, **GAUSSIAN,
}  # fmt: skip
UNCOVERED: dict[str, Any] = {"without_guarantee": True}  # the theorems ask for far more data or rounds than tests have


def worst_case(*given: Any, seed: int = 0, without_guarantee: bool = False, **constants: Any) -> Preset:
    return beyond_worst_case(plan_worst_case(*given, **constants), seed=seed, without_guarantee=without_guarantee)


def clustered(*given: Any, seed: int = 0, without_guarantee: bool = False, **constants: Any) -> Preset:
    return gape_with_guarantee(plan_gape(*given, **constants), seed=seed, without_guarantee=without_guarantee)


def run(preset: Preset, private: Points, generator: GaussianGenerator) -> list[State]:
    """Run a preset on vectors, and return S(0), ..., S(T)."""
    account = Account(Ledger(":memory:", Budget(preset.plan.epsilon, preset.plan.delta)), "run")
    history = evolve(
        preset.plan,
        generator,
        IdentityEmbedder(),
        LocalElectorate(private),
        preset.selector,
        account,
        noise=SeededNoise(4),
    )
    return [state for state in history if state.proposal is None]


class TestBeyondWorstCase:
    def test_parameters_worked_out_by_hand(self) -> None:
        plan = worst_case(2000, 2.0, 1e-5, rounds=4, doubling_dimension=2, **GAUSSIAN, **UNCOVERED).plan
        assert plan.rounds == 4
        assert plan.sigma == noise_scale(2.0, 1e-5, 4) == 5.64021
        assert plan.samples == plan.initial == 355  # 2000 / 5.64021 = 354.6
        # alpha^2 = sigma^(2/k) = 0.0028201, 200 lambda / (c alpha^2) = 2222.2 / 0.0028201 = 787993, 2^19 < it < 2^20
        assert plan.scales == tuple(2.0**-level for level in range(21))
        assert (plan.copies, plan.keep, plan.neighbours) == (1, True, "replace")
        assert plan.candidates == 355 * 22

    def test_alpha_depends_on_the_doubling_dimension(self) -> None:
        plan = worst_case(2000, 2.0, 1e-5, rounds=4, doubling_dimension=8, **GAUSSIAN, **UNCOVERED).plan
        # alpha^2 = 0.0028201^(1/4) = 0.23045, 2222.2 / 0.23045 = 9643, 2^13 < it < 2^14
        assert plan.scales[-1] == 2.0**-14
        assert plan.samples == 355

    def test_rounds_are_those_of_the_theorem(self) -> None:
        preset = worst_case(10_000, 0.5, 1e-6, doubling_dimension=3, effective_rank=1, anticoncentration=2, seed=9)
        assert preset.plan.rounds == 852  # 100 log 5002 = 851.76
        assert preset.plan.sigma < paper_noise_scale(0.5, 1e-6, 852)
        assert preset.plan.samples == math.ceil(10_000 / preset.plan.sigma)
        assert preset.plan.seed == 9
        assert preset.selector == BoundedLipschitz(10_000)

    def test_more_noise_than_data_leaves_one_sample(self) -> None:
        plan = worst_case(10, 0.1, 1e-6, rounds=50, doubling_dimension=2, **GAUSSIAN, **UNCOVERED).plan
        assert plan.samples == 1
        assert plan.scales[-1] == 2.0**-12  # alpha = 1, 2222.2 < 2^12

    def test_a_run_approaches_the_data(self) -> None:
        rng = np.random.default_rng(0)
        private = np.clip(0.5 + 0.02 * rng.standard_normal((400, 2)), 0, 1).astype(np.float32)
        preset = worst_case(400, 8.0, 1e-5, rounds=3, doubling_dimension=2, **GAUSSIAN, **UNCOVERED)
        generator = GaussianGenerator.isotropic(StartFromBox((0.0, 0.0), (0.7, 0.7)), 2)
        states = run(preset, private, generator)
        w1 = [transport(private, state.synthetic) for state in states]
        assert w1[0] > 0.2
        assert w1[-1] < w1[0] / 2
        for state in states[1:]:
            assert len(state.synthetic) == preset.plan.samples
            assert isinstance(state.selection, BoundedLipschitzResult)
            assert abs(state.selection.gap) < 1e-9
            assert state.selection.distance > 0


def transport(private: Points, synthetic: Points) -> float:
    """W1 between two sets of points of a domain of diameter 1, which is their bounded-Lipschitz distance."""
    signed = np.concatenate([np.full(len(private), 1 / len(private)), np.full(len(synthetic), -1 / len(synthetic))])
    return bounded_lipschitz_distance(np.concatenate([private, synthetic]), signed)


class TestGapeWithGuarantee:
    def test_parameters_worked_out_by_hand(self) -> None:
        preset = clustered(2000, 1.0, 1e-5, rounds=3, **CLUSTERS, **UNCOVERED)
        plan = preset.plan
        assert plan.sigma == noise_scale(1.0, 1e-5, 3) == 9.13918
        # -log2 100^2 = -13.29; log2(200 * 2 / (0.18 * 0.0004)) = log2 5555555.6 = 22.41
        assert plan.scales == tuple(2.0**-level for level in range(-13, 24))
        assert plan.copies == 49  # 4 log(3 * 3 * 2000 / 0.1) = 48.40
        assert (plan.samples, plan.keep, plan.candidates) == (4, True, 4 * (1 + 37 * 49))
        assert isinstance(preset.selector, Gape)
        assert preset.selector.separation == 100.0
        # 9.13918 sqrt(2 log(6 * 3 * 7256 / 0.1)) = 9.13918 * 5.30708
        assert preset.selector.threshold == pytest.approx(48.5023, abs=1e-4)

    def test_rounds_are_those_of_the_theorem(self) -> None:
        preset = clustered(2000, 1.0, 1e-5, seed=5, **CLUSTERS, **UNCOVERED)
        assert preset.plan.rounds == 4732  # 50 * 2 / 0.18 * log 5000 = 4731.8
        assert preset.plan.copies == 78  # 4 log(3 * 4732 * 2000 / 0.1) = 77.86
        assert preset.plan.seed == 5

    def test_every_cluster_is_found(self) -> None:
        rng = np.random.default_rng(0)
        centres = np.array([[0.0, 0.0], [100.0, 0.0], [0.0, 150.0]])
        private = (centres[np.repeat([0, 1, 2], [1500, 900, 600])] + rng.uniform(-0.007, 0.007, (3000, 2))).astype(
            np.float32
        )
        preset = clustered(3000, 40.0, 1e-5, rounds=3, **CLUSTERS, **UNCOVERED)
        warm = (centres + np.array([[8.0, 5.0], [-6.0, 9.0], [3.0, -10.0]])).astype(np.float32)  # within R / 8
        states = run(preset, private, GaussianGenerator.isotropic(StartFromSet(warm), 2))
        coverage = [float(distances(private, state.synthetic).min(axis=1).max()) for state in states]
        assert coverage[0] > 9
        assert coverage[-1] < 100 * 0.02 * 2 / 0.18  # the theorem's 100 lambda r / c = 22.2
        assert coverage[-1] < coverage[0] / 4


class TestRefusals:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("records", 0),
            ("records", 2.5),
            ("epsilon", 0.0),
            ("epsilon", float("inf")),
            ("epsilon", float("nan")),
            ("delta", 0.0),
            ("rounds", 0),
            ("doubling_dimension", 1.5),
            ("doubling_dimension", float("inf")),
            ("effective_rank", 0.5),
            ("effective_rank", float("nan")),
            ("anticoncentration", 0.0),
            ("anticoncentration", 2.1),
        ],
    )
    def test_beyond_worst_case(self, name: str, value: float) -> None:
        good = {"records": 100, "epsilon": 1.0, "delta": 1e-5, "doubling_dimension": 2, "rounds": 2, **GAUSSIAN}
        with pytest.raises(InputError, match=name):
            worst_case(**{**good, name: value})

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("records", -1),
            ("samples", 0),
            ("separation", 0.0),
            ("separation", float("inf")),
            ("diameter", 0.0),
            ("diameter", float("nan")),
            ("effective_rank", 0.0),
            ("anticoncentration", 3.0),
            ("failure_probability", 0.0),
            ("failure_probability", 1.0),
        ],
    )
    def test_gape_with_guarantee(self, name: str, value: float) -> None:
        good = {"records": 100, "epsilon": 1.0, "delta": 1e-5, "rounds": 2, **CLUSTERS}
        with pytest.raises(InputError, match=name):
            clustered(**{**good, name: value})

    def test_what_the_theorem_does_not_cover_needs_a_word(self) -> None:
        with pytest.raises(InputError, match=r"= 88\.8889 apart, not 88; .* without_guarantee=True"):
            clustered(100, 1.0, 1e-5, rounds=2, **{**CLUSTERS, "separation": 88.0})
        with pytest.raises(InputError, match="does not cover this setting: it takes at least"):
            worst_case(10**9, 1.0, 1e-5, rounds=2, doubling_dimension=2, **GAUSSIAN)
        assert worst_case(10**9, 1.0, 1e-5, doubling_dimension=2, **GAUSSIAN).plan.rounds > 2
