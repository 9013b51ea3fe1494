import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gape.core.types import NoisyVotes, Points
from gape.report.charts import Line, line_chart
from gape.report.facts import guarantee
from gape.report.lineage import _shorten
from gape.report.plane import fit_plane
from gape.report.regions import Region, Regions, Voted, find_regions
from gape.report.signal import effective_candidates, measure_all
from gape.report.words import of_regions
from gape.runs.folder.record import Round, read_run
from report.runs import vector_run

SIGMA = 7.0


def round_of(votes: NoisyVotes) -> Round:
    v = len(votes)
    nothing = np.empty(0, dtype=object)
    return Round(nothing, np.empty(0, dtype=np.int64), np.zeros(v, dtype=np.int64), np.zeros(v), votes, {})


def noisy(counts: NoisyVotes, seed: int) -> NoisyVotes:
    rounded: NoisyVotes = np.rint(counts + SIGMA * np.random.default_rng(seed).standard_normal(len(counts))).astype(int)
    return rounded


def test_pure_noise_is_what_noise_alone_is_said_to_give() -> None:
    (signal,) = measure_all((round_of(noisy(np.zeros(20_000, dtype=np.int64), seed=1)),), SIGMA)
    assert signal.noise is not None
    for seen, expected in zip(signal.above, signal.by_noise, strict=True):
        # Whole votes: those above 2 sigma = 14 are from 15 on, half a vote further than the Gaussian's tail.
        assert 0.6 * expected < seen < 1.4 * expected + 10
    spread = np.sqrt(np.maximum(signal.noise, 1.0))
    assert (np.abs(signal.counts - signal.noise) < 6 * spread).all()
    assert signal.effective is None


@pytest.mark.parametrize("equal", [20, 100, 400])
def test_effective_candidates_are_found_under_noise(equal: int) -> None:
    counts = np.zeros(1000, dtype=np.int64)
    counts[:equal] = 20_000 // equal
    found = [effective_candidates(noisy(counts, seed), SIGMA) for seed in range(5)]
    assert all(each is not None and abs(each - equal) < 0.15 * equal for each in found)
    assert effective_candidates(counts, 0.0) == pytest.approx(equal)


def test_bins_hold_every_candidate_and_are_the_same_for_all_rounds() -> None:
    rounds = tuple(round_of(np.array(votes)) for votes in ([-500, 0, 3], [1_000_000, 2, 9]))
    for sigma in (SIGMA, 0.3):
        first, second = measure_all(rounds, sigma)
        assert np.array_equal(first.edges, second.edges)
        assert first.counts.sum() == second.counts.sum() == 3
        assert len(first.edges) < 60
    (plain,) = measure_all((round_of(np.array([0, 0, 7])),), 0.0)
    assert plain.counts[0] == 2
    assert plain.above == (1,)
    assert plain.noise is None


def clusters(sizes: tuple[int, ...], seed: int = 0) -> tuple[Points, np.ndarray[tuple[int], np.dtype[np.int64]]]:
    rng = np.random.default_rng(seed)
    own = np.repeat(np.arange(len(sizes)), sizes)
    centres = 10.0 * np.eye(len(sizes), 5)
    return (centres[own] + 0.3 * rng.standard_normal((len(own), 5))).astype(np.float32), own


def test_a_region_with_votes_and_few_samples_is_underrepresented() -> None:
    points, own = clusters((60, 60))
    texts = [("tea kettle" if place else "car engine") + f" with word{chr(97 + i % 26)}" for i, place in enumerate(own)]
    votes = noisy(np.where(own == 0, 90, 10), seed=2)
    samples = points[[0, 60, 61, 62, 63, 64, 65, 66, 67, 68]]
    regions = find_regions(Voted(points, texts, votes, 1.0), samples, [texts[i] for i in range(10)], SIGMA, seed=0)
    thin, full = regions.clusters
    assert (thin.verdict, full.verdict) == ("underrepresented", "overrepresented")
    assert thin.samples == pytest.approx(0.1)
    assert abs(thin.votes - 0.9) < 2 * thin.error
    assert sum(region.votes for region in regions.clusters) == pytest.approx(1)
    assert thin.typical == texts[0]


def test_shares_are_as_sure_as_they_say() -> None:
    points, own = clusters((200, 100))
    counts = np.where(own == 0, 6, 3)
    truth = 1200 / 1500
    hits = 0
    for seed in range(60):
        regions = find_regions(Voted(points, ["x"] * 300, noisy(counts, seed), 1.0), points[::40], ["x"] * 8, SIGMA, 0)
        first = max(regions.clusters, key=lambda region: region.votes)
        hits += abs(first.votes - truth) <= first.error
    assert 52 <= hits < 60  # two standard deviations are 57 of 60


def test_repeated_candidates_make_no_empty_regions_and_two_pages_agree() -> None:
    points = np.repeat(np.eye(3, dtype=np.float32), 40, axis=0)
    voted = Voted(points, ["x"] * 120, np.full(120, 50), 1.0)
    first, second = (find_regions(voted, points, ["x"] * 120, SIGMA, seed=0) for _ in range(2))
    assert [region.samples for region in first.clusters] == [pytest.approx(1 / 3)] * 3
    assert first == second


def test_nothing_is_said_of_regions_where_noise_hides_all_votes() -> None:
    points, own = clusters((50, 50))
    votes = noisy(np.zeros(len(own), dtype=np.int64), seed=3)
    assert find_regions(Voted(points, [""] * 100, votes - 1, 1.0), points[:5], [""] * 5, 50.0, seed=0).clusters == ()


def test_a_small_gap_among_pictures_is_named_by_its_place_with_a_decimal() -> None:
    within = Region((), "data:,a", votes=0.2, error=0.15, samples=0.1, pictured=True)
    lacking = Region((), "data:,b", votes=0.009, error=0.004, samples=0.0, pictured=True)
    said = of_regions(Regions((within, lacking), 100, 1.0), "images")
    assert said.startswith(
        "One region is underrepresented. The largest gap is at number 2 of the list: 0.0% of the images"
    )
    assert said.endswith("for 0.9% ± 0.4 of the votes.")


def test_words_of_a_region_are_its_own() -> None:
    points, own = clusters((40, 40, 40))
    topics = ("nurse hospital ward", "guitar concert stage", "harbour sailing anchor")
    texts = [f"there were several people near {topics[place]}" for place in own]
    votes = np.full(120, 50)
    regions = find_regions(Voted(points, texts, votes, 1.0), points[::5], texts[::5], SIGMA, seed=0)
    # Each topic stands in a third of all texts, which is too common for words that tell; the rest is everywhere.
    assert all(region.words == () for region in regions.clusters)
    points, own = clusters((20,) * 6)
    rare = ("nurse", "guitar", "harbour", "tractor", "pillow", "orchid")
    texts = [f"there were several people near the {rare[place % 6]}" for place in own]
    regions = find_regions(Voted(points[:, :5], texts, np.full(120, 50), 1.0), points[::2], texts[::2], SIGMA, seed=0)
    assert {word for region in regions.clusters for word in region.words} <= set(rare)
    assert any(region.words for region in regions.clusters)


def test_the_plane_keeps_what_spreads_most() -> None:
    rng = np.random.default_rng(0)
    points = (rng.standard_normal((200, 6)) * [9, 5, 0.1, 0.1, 0.1, 0.1] + 3).astype(np.float32)
    plane = fit_plane(points)
    assert plane.shown > 0.99
    xs, ys = plane.to_grid(points)
    assert min(*xs, *ys) > 0
    assert max(*xs, *ys) < 10_000
    real = np.linalg.norm(points[0] - points[1])
    drawn = math.hypot(xs[0] - xs[1], ys[0] - ys[1]) * plane.side / 10_000
    assert drawn == pytest.approx(real, rel=0.05)
    assert fit_plane(points[:1]).to_grid(points[:1]) == [[5000], [5000]]
    assert fit_plane(points[:, :1]).to_grid(points[:, :1])[1] == [5000] * 200


@given(st.lists(st.text(max_size=400), max_size=20), st.integers(2_000, 6_000))
def test_shortened_texts_fit_and_keep_their_beginning(texts: list[str], most: int) -> None:
    short = _shorten(texts, most)
    assert len(short) == len(texts)
    for before, after in zip(texts, short, strict=True):
        assert after == before or before.startswith(after.removesuffix(" …"))
    longest = max((len(each) for each in short), default=0)
    if short != texts:
        assert all(after == before for before, after in zip(texts, short, strict=True) if len(before) < longest - 2)


@pytest.mark.parametrize(
    ("votes", "said"), [(1, "the candidate nearest to it"), (64, "the 64 candidates nearest to it")]
)
def test_the_mechanism_says_for_how_many_candidates_a_record_votes(tmp_path: Path, votes: int, said: str) -> None:
    folder = read_run(vector_run(tmp_path))
    plan = replace(folder.plan, votes_per_record=votes, votes_per_unit=votes)
    assert said in guarantee(replace(folder, begun=replace(folder.begun, plan=plan)))["Mechanism"]


def test_large_numbers_on_an_axis_are_written_out() -> None:
    drawn = line_chart([Line("effective", [11_000.0, 19_000.0], "l2")], "candidates", percent=False)
    assert ">20,000</text>" in drawn
    assert ">5,000</text>" in drawn
    assert "e+0" not in drawn


def test_a_reference_of_one_round_is_drawn_over_the_width() -> None:
    drawn = line_chart([Line("votes", [3.0], "l2"), Line("noise", [1.0], "l2 dashed")], "votes", percent=False)
    paths = re.findall(r'<path class="line l2( dashed)?" d="M([0-9.]+) [0-9.]+( L([0-9.]+) [0-9.]+)?">', drawn)
    assert [(dashed != "", end != "") for dashed, _, _, end in paths] == [(False, False), (True, True)]
