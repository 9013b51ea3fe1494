import importlib
import itertools
import subprocess
import sys
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from gape._support.parallel import cuda
from gape.core.types import Floats, Indices, Points
from gape.voting import device as module
from gape.voting import field
from gape.voting import nearest as voting
from gape.voting.device import DeviceVoters, Winners
from gape.voting.field import distinct_rows
from gape.voting.nearest import Voters, nearest, nearest_votes, reference_nearest
from gape.voting.several import reference_several_nearest, several_nearest
from gape.voting.tops import engine

COARSE = st.integers(-2, 2).map(float)  # ties everywhere
FINE = st.floats(-100, 100, width=32)
WILD = st.floats(-(2.0**50), 2.0**50, width=32)  # norms that differ by many orders, and subnormals


@pytest.fixture(params=sorted({"cpu", cuda() or "cpu"}))
def device(request: pytest.FixtureRequest) -> str:
    """Torch computes the same on every device; a GPU is used as well where there is one."""
    return str(request.param)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Steps this small take longer on many threads than on one."""
    torch = importlib.import_module("torch")
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Groups of few candidates, several steps for everything, and pairs that are compared as soon as there are some."""
    monkeypatch.setattr(module, "GROUP", 16)
    monkeypatch.setattr(module, "_SCRATCH", 2**16)
    monkeypatch.setattr(module, "_PAIRS", 100)


@st.composite
def sides(draw: st.DrawFn) -> tuple[Points, Points]:
    """Private points (n, d) and candidates (v, d)."""
    d = draw(st.integers(1, 5))
    elements = draw(st.sampled_from([COARSE, FINE, WILD]))
    private, candidates = (draw(arrays(np.float32, (draw(st.integers(1, 40)), d), elements=elements)) for _ in range(2))
    return private, candidates


def gaussian(shape: tuple[int, int], seed: int = 0) -> Points:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def lattice(d: int) -> Points:
    return np.array(list(itertools.product([-1, 0, 1], repeat=d)), dtype=np.float32)


def winners(
    private: Points,
    candidates: Points,
    device: str = "cpu",
    rows: Indices | None = None,
    memory: int = 2**31,
    count: int = 1,
) -> Winners:
    voters, distinct = DeviceVoters(private, device, memory=memory), distinct_rows(candidates)
    return voters.nearest(candidates, distinct, rows, count=min(count, len(distinct)))


@given(sides(), st.integers(1, 7))
@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_equals_the_reference(small: None, points: tuple[Points, Points], count: int) -> None:
    found = winners(*points, memory=2**12, count=count).indices
    np.testing.assert_array_equal(found, reference_several_nearest(*points, count))
    np.testing.assert_array_equal(found[:, 0], reference_nearest(*points))


@pytest.mark.parametrize(("n", "v", "d"), [(1, 1, 1), (1, 600, 3), (300, 1, 3), (200, 700, 1), (50, 300, 1000)])
@pytest.mark.parametrize("count", [1, 2, 64])
def test_shapes(device: str, n: int, v: int, d: int, count: int) -> None:
    private, candidates = gaussian((n, d)), gaussian((v, d), seed=1)
    found = winners(private, candidates, device, count=count)
    np.testing.assert_array_equal(found.indices, reference_several_nearest(private, candidates, count))


def hard_cases() -> dict[str, tuple[Points, Points]]:
    rng = np.random.default_rng(0)
    near = gaussian((100, 64)) + np.float32(0.01) * gaussian((100, 64), seed=1)
    nudged = near.copy()
    columns = rng.integers(64, size=100)
    nudged[np.arange(100), columns] = np.nextafter(nudged[np.arange(100), columns], np.float32(9))
    orders = (10.0 ** rng.uniform(-17, 17, size=(200, 1))).astype(np.float32)
    distant = gaussian((300, 32), seed=1)
    distant[7] *= 1e6
    equal = gaussian((100, 8)).astype(np.float64)
    equal *= (1 + 3e-8 * rng.normal(size=(100, 1))) / np.linalg.norm(equal, axis=1, keepdims=True)
    cases: dict[str, tuple[NDArray[Any], NDArray[Any]]] = {
        "equal candidates": (gaussian((60, 8)), gaussian((50, 8))[rng.integers(50, size=400)]),
        "a lattice": (np.concatenate([lattice(4) / 2, np.zeros((20, 4))]), lattice(4)[rng.permutation(81)]),
        "as near to all": (np.full((20, 300), 0.25), np.eye(300)),
        "the last bit": (gaussian((100, 64)), np.concatenate([near, nudged])),
        "norms of all orders": (gaussian((200, 6)) * orders, gaussian((200, 6), seed=1) * orders[::-1]),
        "zeros": (np.zeros((5, 4)), np.concatenate([np.zeros((2, 4)), gaussian((30, 4))])),
        "near the mean of equal norms": (1e-7 * gaussian((300, 8)), np.concatenate([equal, -equal])),
        "one place": (gaussian((30, 4)), np.ones((40, 4))),
        "negative zeros": (np.array([[0.0, 1.0]]), np.array([[-0.0, 1.0], [0.0, 1.0]])),
        "farther than float64 sees": (1e9 * gaussian((50, 7)), 1e-6 * gaussian((60, 7), seed=1)),
        "one distant candidate": (gaussian((200, 32)), distant),
        "far from the origin": (1e4 + 0.01 * gaussian((200, 16)), 1e4 + 0.01 * gaussian((200, 16), seed=1)),
    }
    for scale in (1e-44, 1e-40, 1e-25, 1e16):
        cases[f"scale {scale}"] = (scale * gaussian((60, 9)), scale * gaussian((60, 9), seed=1))
    return {name: (a.astype(np.float32), b.astype(np.float32)) for name, (a, b) in cases.items()}


@pytest.mark.parametrize("name", hard_cases())
@pytest.mark.parametrize("steps", ["one", "many"])
@pytest.mark.parametrize("count", [1, 3, 20])
def test_hard_cases(device: str, name: str, steps: str, count: int, request: pytest.FixtureRequest) -> None:
    if steps == "many":
        request.getfixturevalue("small")
    private, candidates = hard_cases()[name]
    memory = 2**31 if steps == "one" else 2**14
    found = winners(private, candidates, device, memory=memory, count=count)
    np.testing.assert_array_equal(found.indices, reference_several_nearest(private, candidates, count))


def test_halves_exclude_nearly_all_groups(device: str) -> None:
    private, candidates = gaussian((1000, 64)), gaussian((4096, 64), seed=1)
    private /= np.linalg.norm(private, axis=1, keepdims=True)
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    found = winners(private, candidates, device)
    np.testing.assert_array_equal(found.indices[:, 0], nearest(private, candidates))
    assert found.groups == 16
    assert 1000 <= found.looked_at < 1100
    assert found.compared == 0


def test_for_several_winners_hardly_more_groups_than_winners_are_looked_at(device: str) -> None:
    private, candidates = gaussian((1000, 64)), gaussian((4096, 64), seed=1)
    private /= np.linalg.norm(private, axis=1, keepdims=True)
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    found = winners(private, candidates, device, count=3)
    np.testing.assert_array_equal(found.indices, several_nearest(private, candidates, 3))
    assert 2000 <= found.looked_at < 3200
    assert 3000 <= found.compared < 3100  # to put them in order


def test_only_what_is_as_near_is_compared(device: str) -> None:
    private, candidates = np.float32(0.5) * lattice(3), lattice(3)
    found = winners(private, candidates, device)
    squares = ((private[:, None] - candidates) ** 2).sum(2)
    ties = (squares == squares.min(1)[:, None]).sum(1)
    assert found.compared == ties[ties > 1].sum()


def errors(private: Points, candidates: Points, device: str, engine: Any = None) -> tuple[Floats, Floats]:
    """Return how far tops are from the true best scores, and how far they may be: (n,), for one group."""
    voters = DeviceVoters(private, device, memory=2**31)
    if engine:
        voters._engine = engine
    field = voters._field(candidates, np.arange(len(candidates)))
    rows = voters._round(voters._points, field)
    n = len(private)
    tops, residual, norms, centre = (
        value.cpu().numpy().astype(np.float64)
        for value in (voters._tops(rows, field)[0, :n], rows.residual[:n], rows.norms[:n], field.centre)
    )
    a, b = private - centre, candidates - centre
    true = (a @ b.T - (b**2).sum(1) / 2).max(1)
    by_residual, by_rounded, base = (float(value) for value in (field.by_residual, field.by_rounded, field.base))
    return np.abs(tops - true), residual * by_residual + norms * by_rounded + base


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_the_bounds_enclose_the_true_scores(device: str, scale: float) -> None:
    rng = np.random.default_rng(0)
    spread = scale * 10.0 ** rng.uniform(-4, 0, size=(200, 1))
    private, candidates = ((spread[:r] * (rng.normal(size=(r, 100)) + 0.5)).astype(np.float32) for r in (150, 200))
    off, allowed = errors(private, candidates, device)
    assert (off <= allowed).all()
    assert (allowed < 0.01 * np.linalg.norm(private, axis=1) * np.linalg.norm(candidates, axis=1).max()).any()


@pytest.mark.parametrize("part", ["private", "candidates"])
def test_the_bounds_hold_where_all_roundings_go_the_same_way(device: str, part: str) -> None:
    """Halves between 1,024 and 2,048 are whole numbers, so that each of these is rounded by 0.49."""
    rounded, whole = np.full((1, 300), 1500.49, dtype=np.float32), np.full((1, 300), 1024.0, dtype=np.float32)
    private, one = (rounded, whole) if part == "private" else (whole, rounded)
    off, allowed = errors(private, np.concatenate([one, -one]), device)
    assert 0.5 * allowed < off <= allowed


def cut(values: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """Cut values off at the 24th bit of numbers with these exponents."""
    quantum = np.ldexp(1.0, exponents - 24)
    result: np.ndarray = np.trunc(values / quantum) * quantum
    return result


def matrix_unit(halves: Any, inverse: Any, candidates: Any, group_inverse: Any, lift: Any, out: Any) -> None:
    """Sum as the plainest matrix units do: four products at a time, each term and the sum cut off."""
    torch: Any = importlib.import_module("torch")
    left, right = (side.double().numpy() for side in (halves, candidates))
    total = np.zeros((len(left), len(right)))
    for k in range(0, left.shape[1], 4):
        terms = np.stack([total, *(left[:, i, None] * right[None, :, i] for i in range(k, k + 4))])
        total = cut(terms, np.frexp(np.abs(terms).max(0))[1]).sum(0)
        total = cut(total, np.frexp(np.abs(total))[1])
    products = torch.from_numpy(total.astype(np.float32)).view(len(left), len(group_inverse), -1)
    scores = products * (inverse[:, None] * group_inverse)[:, :, None] + lift.view(len(group_inverse), -1)
    out[:] = scores.amax(2).T


def test_the_bounds_hold_for_sums_that_are_cut_off() -> None:
    whole = np.random.default_rng(0).integers(1025, 2047, size=(20, 512)).astype(np.float32)
    off, allowed = errors(whole, np.concatenate([whole, -whole]), "cpu", matrix_unit)
    assert (off <= allowed).all()
    assert (off > 0.05 * allowed).all()


@pytest.mark.parametrize("seed", range(5))
def test_sums_that_are_cut_off_change_no_winner(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With d = 200 and all coordinates positive every cut goes the same way, and the winners are a hair apart."""
    monkeypatch.setattr(module, "GROUP", 16)
    rng = np.random.default_rng(seed)
    centre = rng.uniform(0.5, 1, size=200)
    private = (1 + rng.uniform(0, 1, size=(40, 200))).astype(np.float32)
    spread = np.repeat(rng.normal(size=(4, 200)), 16, axis=0) + 1e-5 * rng.normal(size=(64, 200))
    candidates = (centre + spread).astype(np.float32)
    voters = DeviceVoters(private, "cpu", memory=2**31)
    monkeypatch.setattr(voters, "_engine", matrix_unit)
    found = voters.nearest(candidates, np.arange(64))
    np.testing.assert_array_equal(found.indices[:, 0], reference_nearest(private, candidates))


def test_some_of_the_records_in_any_order(device: str) -> None:
    private, candidates = gaussian((300, 5)), gaussian((80, 5), seed=1)
    rows = np.random.default_rng(0).integers(300, size=500)
    expected = reference_nearest(private, candidates)[rows]
    np.testing.assert_array_equal(winners(private, candidates, device, rows).indices[:, 0], expected)
    np.testing.assert_array_equal(nearest(Voters(private), candidates, rows), expected)


def test_points_that_must_not_be_written_to(device: str) -> None:
    private, candidates = gaussian((30, 4)), gaussian((20, 4), seed=1)
    private.flags.writeable = candidates.flags.writeable = False
    found = winners(private, candidates, device).indices[:, 0]
    np.testing.assert_array_equal(found, reference_nearest(private, candidates))


def test_voters_use_the_device_where_the_work_is_worth_it_and_stay_on_it(
    device: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    private, voters = gaussian((500, 6)), Voters(gaussian((500, 6)))
    monkeypatch.setattr(voting, "cuda", lambda: device)
    monkeypatch.setattr(DeviceVoters, "_free", lambda self: 2**31)
    nearest(voters, gaussian((40, 6), seed=1))
    assert voters._by_device is None
    monkeypatch.setattr(voting, "_WORTH", 500 * 40 * 6)
    held: list[DeviceVoters | None] = []
    for seed in (1, 2):
        candidates = gaussian((40, 6), seed)
        expected = np.bincount(reference_nearest(private, candidates), minlength=40)
        np.testing.assert_array_equal(nearest_votes(voters, candidates), expected)
        held.append(voters._by_device)
        several = several_nearest(voters, candidates, 4, np.array([7, 3, 7]))
        np.testing.assert_array_equal(several, reference_several_nearest(private[[7, 3, 7]], candidates, 4))
        assert voters._by_device is held[-1]
    assert held[0] is held[1]
    kept = held.pop()
    assert kept is not None
    gone = weakref.ref(kept)
    held.clear()
    del kept
    assert gone() is not None
    del voters
    assert gone() is None


def test_where_memory_is_short_the_processor_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise importlib.import_module("torch").OutOfMemoryError("none left")

    monkeypatch.setattr(DeviceVoters, "_free", lambda self: 2**31)
    monkeypatch.setattr(DeviceVoters, "_round", fail)
    monkeypatch.setattr(voting, "cuda", lambda: "cpu")
    monkeypatch.setattr(voting, "_WORTH", 1)
    private, candidates = gaussian((50, 6)), gaussian((40, 6), seed=1)
    voters = Voters(private)
    with pytest.warns(
        RuntimeWarning, match="^the GPU has too little free memory for the votes, so they are counted on"
    ):
        found = nearest(voters, candidates)
    np.testing.assert_array_equal(found, reference_nearest(private, candidates))
    np.testing.assert_array_equal(nearest(voters, candidates), found)  # and says so once
    np.testing.assert_array_equal(several_nearest(voters, candidates, 1)[:, 0], found)


def test_small_work_does_not_import_torch() -> None:
    code = (
        "import sys, numpy as np; from gape.voting import nearest_votes; "
        "nearest_votes(np.ones((50, 3)), np.ones((9, 3))); sys.exit('torch' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_processor_needs_no_kernels() -> None:
    torch = importlib.import_module("torch")
    assert engine(torch, "cpu").__module__ == "gape.voting.tops"


def test_distinct_candidates_are_the_first_of_their_kind() -> None:
    drawn = np.random.default_rng(0).integers(300, size=2000)
    candidates = gaussian((300, 7))[drawn]
    expected = np.sort(np.unique(drawn, return_index=True)[1])
    np.testing.assert_array_equal(distinct_rows(candidates), expected)
    assert distinct_rows(np.array([[0.0], [-0.0], [1.0]], dtype=np.float32)).tolist() == [0, 2]


def test_rows_with_the_same_key_that_differ_are_both_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field, "_keys", lambda Y: np.zeros(len(Y), dtype=np.uint64))
    candidates = np.array([[1.0], [2.0], [1.0], [3.0]], dtype=np.float32)
    assert distinct_rows(candidates).tolist() == [0, 1, 3]
