from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from hashlib import blake2b
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from contracts.generator import GeneratorContract
from contracts.selector import SelectorContract
from gape._support.files import read_json
from gape.core.errors import InputError
from gape.core.protocols import Candidates, Selection, Selector
from gape.core.types import Floats, NoisyVotes, Points, Samples
from gape.evolution.plan import Plan
from gape.evolution.state import State
from gape.generators.labels import LABELLED, LabelledEmbedder, LabelledGenerator, PerLabel, labelled
from gape.modalities import contents_of
from gape.modalities.arrow import samples_from_arrow, samples_to_arrow
from gape.privacy.ledger import Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.runs.run import run
from gape.selection.local_search import Gape
from gape.selection.ranking import Ranking
from gape.selection.remembering import Remembering
from gape.voting.electorate import LocalElectorate
from gape.voting.nearest import nearest

LABELS = ("rose", "tulip", "weed")
SHARES = (0.6, 0.3, 0.1)


@dataclass(frozen=True)
class Words:
    """Writes a few words out of its own stock."""

    stock: str

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        return self._texts([self._words(4, rng) for _ in range(count)])

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        return self._texts([[*text.split()[1:], *self._words(1, rng)] for text in samples])

    def _words(self, count: int, rng: np.random.Generator) -> list[str]:
        return [f"{self.stock}{i}" for i in rng.integers(100, size=count)]

    @staticmethod
    def _texts(words: Sequence[Sequence[str]]) -> Samples:
        texts = np.empty(len(words), dtype=object)
        texts[:] = [" ".join(some) for some in words]
        return texts


@cache
def direction(word: str) -> Points:
    seed = int.from_bytes(blake2b(word.encode(), digest_size=8).digest())
    return np.random.default_rng(seed).normal(size=6).astype(np.float32)


@dataclass(frozen=True)
class Bags:
    """Embeds a text as the mean direction of its words, of length 1."""

    def embed(self, samples: Samples) -> Points:
        sums = np.array([sum(direction(word) for word in text.split()) for text in samples], dtype=np.float32)
        points: Points = sums / np.linalg.norm(sums, axis=1, keepdims=True)
        return points


GENERATOR = LabelledGenerator({label: Words(label[0]) for label in LABELS})
EMBEDDER = LabelledEmbedder(Bags(), LABELS)
SELECT = PerLabel(Ranking(), LABELS)
PLAN = Plan(epsilon=4.0, delta=1e-5, rounds=2, samples=30, copies=2, seed=4)


def private_records(count: int = 2_000) -> Samples:
    rng = np.random.default_rng(8)
    labels = rng.choice(LABELS, size=count, p=SHARES)
    # Texts say nothing about the label here: it alone must decide who gets the vote.
    return labelled(labels, Words("x").random(count, rng))


class TestLabelledGenerator(GeneratorContract):
    def make(self) -> LabelledGenerator:
        return GENERATOR


@dataclass(frozen=True)
class Marked:
    """Selects by label among candidates that get a label each in turn."""

    selector: Selector

    def __call__(self, votes: NoisyVotes, points: Points, size: int, rng: np.random.Generator) -> Selection:
        marks = 2 * np.eye(2, dtype=np.float32)[np.arange(len(points)) % 2]
        return PerLabel(self.selector, ("a", "b"))(votes, np.concatenate([points, marks], axis=1), size, rng)


class TestPerLabelRanking(SelectorContract):
    def make(self) -> Selector:
        return Marked(Ranking())


class TestPerLabelGape(SelectorContract):
    def make(self) -> Selector:
        return Marked(Gape(separation=3.0, threshold=1.0))


def test_a_random_start_has_every_label_alike() -> None:
    samples = GENERATOR.random(11, np.random.default_rng(0))
    assert samples.dtype == LABELLED
    assert samples["label"].tolist() == ["rose"] * 4 + ["tulip"] * 4 + ["weed"] * 3
    assert all(word.startswith(label[0]) for label, text in samples for word in text.split())
    assert len(GENERATOR.random(0, np.random.default_rng(0))) == 0


@dataclass(frozen=True)
class Around:
    """Vectors around a point."""

    centre: float

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        return (self.centre + 0.1 * rng.normal(size=(count, 3))).astype(np.float32)

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        return (samples + scales[:, None] * rng.normal(size=samples.shape)).astype(np.float32)


def test_vectors_have_labels_as_texts_do(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    generator = LabelledGenerator({"low": Around(-1.0), "high": Around(1.0)})
    samples = generator.random(7, rng)
    assert contents_of(samples).shape == (7, 3)
    varied = generator.vary(samples, np.full(7, 0.01), rng)
    np.testing.assert_array_equal(varied["label"], ["low"] * 4 + ["high"] * 3)
    np.testing.assert_allclose(contents_of(varied), contents_of(samples), atol=0.1)
    assert (contents_of(varied) != contents_of(samples)).all()

    pq.write_table(pa.table({"sample": samples_to_arrow(samples)}), tmp_path / "samples.parquet")
    again = samples_from_arrow(pq.read_table(tmp_path / "samples.parquet")["sample"])
    assert again.dtype == samples.dtype
    np.testing.assert_array_equal(again, samples)


def test_variations_keep_label_and_place() -> None:
    rng = np.random.default_rng(1)
    samples = rng.permutation(GENERATOR.random(12, rng))
    varied = GENERATOR.vary(samples, np.ones(len(samples)), rng)
    assert varied["label"].tolist() == samples["label"].tolist()
    for (label, before), (_, after) in zip(samples, varied, strict=True):
        assert after.split()[:-1] == before.split()[1:]
        assert after.split()[-1].startswith(label[0])


def test_a_generator_that_loses_samples_is_refused() -> None:
    class Loses(Words):
        def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
            return samples[:1]

    generator = LabelledGenerator({"a": Loses("a")})
    samples = generator.random(3, np.random.default_rng(0))
    with pytest.raises(InputError, match="returned 1 variations of 3 samples"):
        generator.vary(samples, np.ones(len(samples)), np.random.default_rng(0))
    with pytest.raises(InputError, match="1 labels without a generator"):
        GENERATOR.vary(samples, np.ones(len(samples)), np.random.default_rng(0))


def test_any_candidate_of_its_label_is_nearer_than_all_others() -> None:
    """Even the opposite of a record, against the record itself under another label."""
    unit = direction("any") / np.linalg.norm(direction("any"))

    class Either:
        def embed(self, samples: Samples) -> Points:
            return np.array([unit * (1 if text == "same" else -1) for text in samples], dtype=np.float32)

    embedder = LabelledEmbedder(Either(), LABELS)
    record = embedder.embed(labelled(["tulip"], ["same"]))
    candidates = embedder.embed(labelled(["rose", "tulip", "weed"], ["same", "opposite", "same"]))
    assert nearest(record, candidates).tolist() == [1]
    away = np.linalg.norm(candidates - record, axis=1)
    assert away[1] == pytest.approx(2)
    assert away[[0, 2]] == pytest.approx(np.sqrt(8))


def test_a_record_votes_inside_its_label_and_elsewhere_only_if_that_is_gone() -> None:
    records = private_records()
    points = EMBEDDER.embed(records)
    candidates = GENERATOR.random(60, np.random.default_rng(2))
    winners = candidates[nearest(points, EMBEDDER.embed(candidates))]
    assert (winners["label"] == records["label"]).all()
    left = candidates[candidates["label"] != "weed"]
    winners = left[nearest(points, EMBEDDER.embed(left))]
    other = records["label"] != "weed"
    assert (winners["label"] == records["label"])[other].all()


def test_a_label_outside_the_set_is_refused_without_naming_it() -> None:
    with pytest.raises(InputError, match="outside the given set of 3 labels") as caught:
        EMBEDDER.embed(labelled(["rose", "zanzibar"], ["a", "b"]))
    assert "zanzibar" not in str(caught.value)


@pytest.mark.parametrize("size", [1.01, float("nan")])
def test_embeddings_too_long_for_the_labels_to_part_them_are_refused(size: float) -> None:
    class Long:
        def embed(self, samples: Samples) -> Points:
            return np.array([[size, 0]] * len(samples), dtype=np.float32)

    with pytest.raises(InputError, match="norms of at most 1"):
        LabelledEmbedder(Long(), LABELS).embed(labelled(["rose"], ["a"]))


def test_the_embedder_inside_decides_whether_private_text_may_leave() -> None:
    class Remote(Bags):
        private_text_may_leave = False

    assert not LabelledEmbedder(Remote(), LABELS).private_text_may_leave
    assert EMBEDDER.private_text_may_leave


@pytest.mark.parametrize("labels", [(), ("a", "a"), ("a", ""), "ab", {"a", "b"}, ("a", 1)])
def test_labels_must_be_distinct_texts_in_order(labels: tuple[str, ...]) -> None:
    for make in (lambda: PerLabel(Ranking(), labels), lambda: LabelledEmbedder(Bags(), labels)):
        with pytest.raises(InputError, match="labels must be"):
            make()
    with pytest.raises(InputError, match="labels must be"):
        LabelledGenerator({})


def test_samples_that_are_not_labelled_are_refused() -> None:
    texts = Words("a").random(2, np.random.default_rng(0))
    with pytest.raises(InputError, match="fields label and text"):
        EMBEDDER.embed(texts)
    with pytest.raises(InputError, match="fields label and text"):
        GENERATOR.vary(texts, np.ones(len(texts)), np.random.default_rng(0))
    with pytest.raises(InputError, match="2 labels for 1 texts"):
        labelled(["a", "b"], ["x"])


def candidates_of(*counts: int) -> Points:
    marks = 2 * np.repeat(np.eye(len(counts), dtype=np.float32), counts, axis=0)
    return np.concatenate([np.zeros((len(marks), 1), dtype=np.float32), marks], axis=1)


@pytest.mark.parametrize(
    ("votes", "size", "shares"),
    [
        ([60, 30, 10], 10, [6, 3, 1]),
        ([60, 30, 10], 3, [2, 1, 0]),
        ([50, 50, 0], 3, [2, 1, 0]),
        ([90, -40, 10], 10, [9, 0, 1]),
        ([0, 0, 0], 7, [3, 2, 2]),
        ([-5, 0, -1], 4, [2, 1, 1]),
        ([2**62 // 10, 2**62 // 10, 2**62 // 10], 9, [3, 3, 3]),
    ],
)
def test_shares_follow_the_noisy_votes(votes: list[int], size: int, shares: list[int]) -> None:
    points = candidates_of(10, 10, 10)
    spread = np.zeros(30, dtype=np.int64)
    spread[[0, 10, 20]] = votes
    result = SELECT(spread, points, size, np.random.default_rng(0))
    assert result.noisy_votes == dict(zip(LABELS, votes, strict=True))
    assert list(result.shares.values()) == list(result.sizes.values()) == shares
    assert np.bincount(result.indices // 10, minlength=3).tolist() == shares


def test_shares_follow_the_noisy_votes_of_all_rounds() -> None:
    points, names = candidates_of(2, 2, 2), np.array([f"text {i}" for i in range(6)], dtype=object)
    votes = np.array([10, 0, 40, 0, 0, -2])
    before = np.repeat([50.0, -10.0, 2.0], 2)  # what the rounds before counted for each label
    rule = SELECT.among(Candidates(names, np.zeros(6), label_votes=before))
    result = rule(votes, points, 9, np.random.default_rng(0))
    assert result.noisy_votes == {"rose": 10, "tulip": 40, "weed": -2}
    assert result.shares == {"rose": 6, "tulip": 3, "weed": 0}
    assert result.label_votes is not None
    assert result.label_votes.tolist() == np.array([60.0, 30.0, 0.0])[result.indices // 2].tolist()


def test_shares_follow_noisy_votes_where_the_rule_inside_believes_others() -> None:
    """Believed votes are drawn towards the mean of all candidates, and so towards equal shares."""
    rng = np.random.default_rng(0)
    points, truth = candidates_of(300, 300, 300), np.repeat([6.0, 2.0, 1.0], 300)
    votes = np.rint(truth + rng.normal(0, 3.0, 900)).astype(np.int64)
    select = PerLabel(Remembering(Ranking(), sigma=3.0), LABELS)
    names = np.array([f"text {i}" for i in range(900)], dtype=object)
    result = select.among(Candidates(names, np.zeros(900)))(votes, points, 90, rng)
    noise = 4 * 3.0 * np.sqrt(900) / truth.sum()
    assert np.abs(np.array(list(result.shares.values())) / 90 - np.array([6, 2, 1]) / 9).max() < noise + 1 / 90
    assert result.believed is not None
    assert result.believed.shape == result.indices.shape
    assert (result.believed >= 0).all()


def test_a_label_with_few_candidates_gets_no_more_and_the_others_no_more_for_it() -> None:
    result = SELECT(np.array([80, 10, 10, 0, 0]), candidates_of(1, 2, 2), 10, np.random.default_rng(0))
    assert result.shares == {"rose": 8, "tulip": 2, "weed": 0}
    assert result.sizes == {"rose": 1, "tulip": 2, "weed": 0}


def test_a_label_without_candidates_takes_no_part() -> None:
    result = SELECT(np.array([0, 0, 0, 0]), candidates_of(2, 0, 2), 3, np.random.default_rng(0))
    assert result.shares == {"rose": 2, "weed": 1}


def test_the_inner_selector_sees_one_label_and_says_what_it_did() -> None:
    select = PerLabel(Gape(separation=1.0, threshold=0.0), LABELS)
    result = select(np.array([5, 3, 2, 1]), candidates_of(2, 1, 1), 4, np.random.default_rng(0))
    assert result.details["rose"]["certified"] is True


@pytest.mark.parametrize("points", [np.zeros((4, 5)), candidates_of(2, 2), candidates_of(2, 2)[:, 1:]])
def test_candidates_embedded_otherwise_are_refused(points: Points) -> None:
    with pytest.raises(InputError, match="use LabelledEmbedder"):
        SELECT(np.ones(4, dtype=np.int64), points, 2, np.random.default_rng(0))


def test_a_user_with_many_records_moves_no_more_than_a_user_with_one() -> None:
    """Whatever labels they are of: one vote up and one down."""
    candidates = EMBEDDER.embed(GENERATOR.random(30, np.random.default_rng(3)))
    others, many = private_records(200), private_records(1_000)
    assert len(set(many["label"])) == 3

    def count(mine: Samples, turn: int) -> np.ndarray:
        users = [f"user {i}" for i in range(len(others))] + ["me"] * len(mine)
        points = EMBEDDER.embed(np.concatenate([others, mine]))
        return LocalElectorate(points, units=users).count(candidates, turn)

    for turn in (1, 2, 17):
        moved = count(many, turn) - count(many[:1], turn)
        assert np.abs(moved).sum() <= 2
        assert np.sqrt((moved**2).sum()) <= np.sqrt(2)
        assert count(many, turn).sum() == len(others) + 1


def labelled_run(folder: Path, ledger: Ledger, *, stop_at: int = -1, seed: int = 5) -> State:
    seen = 0

    def progress(state: State) -> None:
        nonlocal seen
        seen += 1
        if seen == stop_at:
            raise KeyboardInterrupt

    electorate = LocalElectorate(EMBEDDER.embed(private_records()))
    state, _ = run(
        folder, PLAN, GENERATOR, EMBEDDER, electorate, SELECT, ledger, noise=SeededNoise(seed), progress=progress
    )
    return state


def test_a_run_finds_the_shares_of_the_labels_within_its_noise(tmp_path: Path) -> None:
    truth = [(private_records()["label"] == label).mean() for label in LABELS]
    for seed in range(3):
        ledger = Ledger(":memory:", Budget(PLAN.epsilon, PLAN.delta))
        state = labelled_run(tmp_path / str(seed), ledger, seed=seed)
        assert len(state.synthetic) == PLAN.samples
        shares = [(state.synthetic["label"] == label).mean() for label in LABELS]
        noise = 4 * PLAN.sigma * np.sqrt(PLAN.candidates) / len(private_records())
        assert np.abs(np.subtract(shares, truth)).max() <= noise + 1 / PLAN.samples
        assert noise < 0.2


def test_a_run_publishes_labels_and_texts_and_keeps_its_diagnostics(tmp_path: Path) -> None:
    state = labelled_run(tmp_path / "run", Ledger(":memory:", Budget(PLAN.epsilon, PLAN.delta)))
    table = pq.read_table(tmp_path / "run" / "release" / "synthetic.parquet")
    assert table.column_names == ["label", "text"]
    assert table["label"].to_pylist() == state.synthetic["label"].tolist()
    assert table["text"].to_pylist() == state.synthetic["text"].tolist()
    selection = read_json(tmp_path / "run" / "internal" / "rounds" / "002" / "selection.json")
    assert selection["rule"] == "PerLabelSelection"
    assert sum(selection["sizes"].values()) == PLAN.samples
    assert set(selection["noisy_votes"]) == set(LABELS)


@pytest.mark.parametrize("stop_at", [1, 2, 3, 4])
def test_a_run_that_was_stopped_ends_as_it_would_have(tmp_path: Path, stop_at: int) -> None:
    budget = Budget(PLAN.epsilon, PLAN.delta)
    whole = labelled_run(tmp_path / "whole", Ledger(":memory:", budget))
    ledger = Ledger(tmp_path / "ledger", budget)
    with pytest.raises(KeyboardInterrupt):
        labelled_run(tmp_path / "run", ledger, stop_at=stop_at)
    resumed = labelled_run(tmp_path / "run", ledger)
    assert resumed.synthetic.dtype == LABELLED
    assert resumed.synthetic.tolist() == whole.synthetic.tolist()
    assert len(ledger.releases()) == PLAN.rounds


def test_plain_texts_are_published_as_text(tmp_path: Path) -> None:
    electorate = LocalElectorate(Bags().embed(private_records()["text"]))
    ledger = Ledger(":memory:", Budget(PLAN.epsilon, PLAN.delta))
    plan = replace(PLAN, samples=5, initial=0)
    state, _ = run(tmp_path / "run", plan, Words("a"), Bags(), electorate, Ranking(), ledger, noise=SeededNoise(0))
    table = pq.read_table(tmp_path / "run" / "release" / "synthetic.parquet")
    assert table.column_names == ["text"]
    assert table["text"].to_pylist() == state.synthetic.tolist()
