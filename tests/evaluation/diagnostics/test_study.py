import numpy as np
import pytest

from gape.core.errors import InputError
from gape.embedders.identity import IdentityEmbedder
from gape.evaluation.diagnostics import diagnose
from gape.generators.vectors import GaussianGenerator, SnakingPath, StartFromBox

BOX = StartFromBox((0.0,) * 6, (1.0,) * 6)
PLANE = np.linalg.qr(np.random.default_rng(0).normal(size=(6, 2)))[0]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_a_gaussian_generator_is_what_it_is() -> None:
    seen = diagnose(
        GaussianGenerator.isotropic(BOX, 6), IdentityEmbedder(), (0.01, 0.04), rng(), texts=2, variations=2100
    )
    assert seen.ambient == 6
    assert [each.scale for each in seen.scales] == [0.01, 0.04]
    for each in seen.scales:
        assert [found.dimension for found in each.dimensions] == [5, 5]  # 5 of 6 equal directions hold 83%
        for reach in each.reach:
            assert reach.effective_rank.value == pytest.approx(6, rel=0.15)
            assert reach.reachable
        assert all(0 < share < 1 for share in each.progress)
        for found in each.moments:  # as Definition "variation-api" asks
            assert abs(found.variance - each.scale) <= 4 * found.variance_error
            assert not found.biased
        assert all(0 < away < 6**0.5 for away in each.distances)
    assert seen.best.scale == 0.04
    assert "No bias differs measurably from zero" in seen.verdict[3]
    assert (seen.start.samples, seen.start.targets) == (51, 51)
    assert 0 <= seen.start.share < 1
    assert "assumes such a warm start" in seen.verdict[4]
    assert "at this pace the distance is halved after" in seen.verdict[1]
    assert not seen.private_targets


def test_a_generator_that_moves_in_a_plane_stays_there() -> None:
    seen = diagnose(GaussianGenerator.low_rank(BOX, PLANE), IdentityEmbedder(), (0.01,), rng(), texts=2, variations=700)
    assert [found.dimension for found in seen.scales[0].dimensions] == [2, 2]


def test_the_winding_path_does_not_lead_to_what_lies_across() -> None:
    path = SnakingPath(segments=2, height=40.0, gap=6.0, start_at=20.0, spacing=0.001)
    across = np.array([[6.0, 20.0]], dtype=np.float32)  # on the next segment, level with the start
    seen = diagnose(path, IdentityEmbedder(), (1.0,), rng(), texts=1, variations=700, targets=across)
    assert seen.scales[0].progress[0] == 0
    assert seen.scales[0].reach[0].effective_rank.value > 1000  # hardly any of the variance leads there
    assert "will hardly move" in seen.verdict[1]
    assert seen.private_targets


def test_progress_is_the_best_of_seven_by_hand() -> None:
    class Steps(GaussianGenerator):
        """Varies by given steps along the first axis."""

        def vary(self, samples: np.ndarray, scales: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            steps = np.resize([0.1, 0.2, -0.3, 0.0, 0.05, -0.2, -0.1], len(samples))
            moved: np.ndarray = (
                samples + steps[:, None] * np.eye(samples.shape[1])[0] + 1e-6 * rng.normal(size=samples.shape)
            )
            return moved

    class Zero(StartFromBox):
        """Starts at the origin, every time."""

        def random(self, count: int, rng: np.random.Generator) -> np.ndarray:
            return np.stack([np.zeros(2), *rng.normal(size=(count - 1, 2))]).astype(np.float32)

    seen = diagnose(
        Steps(Zero((0.0, 0.0), (1.0, 1.0)), np.eye(2)), IdentityEmbedder(), (1.0,), rng(), texts=1, variations=70,
        targets=np.array([[1.0, 0.0]], dtype=np.float32),
    )  # fmt: skip
    assert seen.scales[0].progress[0] == pytest.approx(0.2, abs=1e-4)


def test_a_generator_that_drifts_is_biased() -> None:
    class Drifting(GaussianGenerator):
        """Varies around a tenth of the way to the middle of the box."""

        def vary(self, samples: np.ndarray, scales: np.ndarray, rng: np.random.Generator) -> np.ndarray:
            return super().vary(samples + 0.1 * (0.5 - samples), scales, rng)

    seen = diagnose(Drifting(BOX, np.eye(6)), IdentityEmbedder(), (0.01,), rng(), texts=3, variations=500)
    assert [found.biased for found in seen.scales[0].moments] == [True] * 3
    assert seen.scales[0].moments[0].variance == pytest.approx(0.01, rel=0.2)
    assert "For 3 of 3 samples that bias is not chance" in seen.verdict[-2]


def test_the_start_is_compared_with_the_targets_that_are_given() -> None:
    near = BOX.random(500, rng(5))
    seen = diagnose(
        GaussianGenerator.isotropic(BOX, 6), IdentityEmbedder(), (0.1,), rng(), texts=1, variations=10, targets=near,
        separation=20.0,
    )  # fmt: skip
    assert (seen.start.samples, seen.start.targets, seen.start.share) == (101, 500, 1.0)
    assert "holds for these targets" in seen.verdict[-1]


def test_groups_are_counted() -> None:
    told: list[tuple[int, int]] = []
    diagnose(
        GaussianGenerator.isotropic(BOX, 6), IdentityEmbedder(), (0.1, 0.2), rng(), texts=2, variations=10,
        progress=lambda done, of: told.append((done, of)),
    )  # fmt: skip
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_refusals() -> None:
    generator = GaussianGenerator.isotropic(BOX, 6)
    with pytest.raises(InputError, match="at least one text"):
        diagnose(generator, IdentityEmbedder(), (), rng())
