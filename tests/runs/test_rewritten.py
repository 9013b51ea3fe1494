"""What the last pass has rewritten, on disk: kept, published, read back, and refused where it does not belong."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from gape._support.files import write_table
from gape.core.errors import RunError
from gape.core.types import Floats, Points, Samples, as_samples, texts_of
from gape.evolution.last_pass import LastPass
from gape.evolution.plan import Plan
from gape.evolution.state import State
from gape.generators.labels import labelled
from gape.modalities.arrow import samples_to_arrow
from gape.privacy.ledger import Budget, Ledger
from gape.privacy.noise import SeededNoise
from gape.runs.folder.layout import RoundFiles
from gape.runs.folder.record import read_run
from gape.runs.folder.rounds import read_rewritten
from gape.runs.run import run
from gape.selection.ranking import Ranking
from gape.voting.electorate import LocalElectorate

PLAN = Plan(epsilon=4.0, delta=1e-5, rounds=2, samples=3, scales=(0.2, 0.9), seed=1)


class Alike:
    """Writes texts that all begin alike, but at the largest scale texts of their own."""

    def __init__(self) -> None:
        self.calls = 0

    def __repr__(self) -> str:
        return "Alike()"

    def random(self, count: int, rng: np.random.Generator) -> Samples:
        return as_samples([f"Once upon a time there was {i}" for i in range(count)])

    def vary(self, samples: Samples, scales: Floats, rng: np.random.Generator) -> Samples:
        self.calls += 1
        ends = rng.integers(10**6, size=len(samples))
        return as_samples(
            [
                f"{end} is where story {end} of {end} begins" if (scales == 0.9).all() else f"{sample} and {end}"
                for sample, end in zip(samples, ends, strict=True)
            ]
        )


class Lengths:
    """Puts a text at its length."""

    def __repr__(self) -> str:
        return "Lengths()"

    def embed(self, samples: Samples) -> Points:
        return np.array([[len(text) / 1000] for text in texts_of(samples)], dtype=np.float32)


def small_run(folder: Path, ledger: Ledger, generator: Alike, plan: Plan = PLAN) -> State:
    electorate = LocalElectorate(np.linspace(0, 0.1, 50, dtype=np.float32)[:, None])
    last_pass = LastPass(generator, Lengths(), 0.9)
    parts = (generator, Lengths(), electorate, Ranking())
    state, _ = run(folder, plan, *parts, ledger, noise=SeededNoise(2), last_pass=last_pass)
    return state


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger", Budget(8.0, PLAN.delta))


def test_what_is_published_was_rewritten_and_the_rounds_stay_as_they_were(tmp_path: Path, ledger: Ledger) -> None:
    folder = tmp_path / "run"
    state = small_run(folder, ledger, Alike())
    assert state.synthetic[0].startswith("Once upon a time")
    assert all("is where story" in text for text in state.synthetic[1:])
    published = pq.read_table(folder / "release" / "synthetic.parquet")["text"].to_pylist()
    assert published == state.synthetic.tolist()
    last = folder / "internal" / "rounds" / "002"
    selected = pq.read_table(last / "synthetic.parquet")["sample"].to_pylist()
    assert all(text.startswith("Once upon a time") for text in selected)
    assert pq.read_table(last / "rewritten.parquet")["place"].to_pylist() == [1, 2]
    record = read_run(folder)
    assert record.finished
    assert record.samples(2).tolist() == published


def test_a_run_that_is_published_again_publishes_the_same(tmp_path: Path, ledger: Ledger) -> None:
    folder = tmp_path / "run"
    first = small_run(folder, ledger, Alike())
    (folder / "release" / "synthetic.parquet").unlink()
    generator = Alike()
    again = small_run(folder, ledger, generator)
    assert again.synthetic.tolist() == first.synthetic.tolist()
    assert generator.calls == 0


def test_an_extended_run_goes_on_from_what_was_selected(tmp_path: Path, ledger: Ledger) -> None:
    folder = tmp_path / "run"
    small_run(folder, ledger, Alike())
    state = small_run(folder, ledger, Alike(), PLAN.extended(3))
    record = read_run(folder)
    assert record.finished
    assert record.samples(3).tolist() == state.synthetic.tolist()
    assert all(text.startswith("Once upon a time") for text in record.samples(2))


@pytest.mark.parametrize(
    ("places", "texts"),
    [([3], ["too far"]), ([-1], ["before the first"]), ([1, 1], ["twice", "the same"])],
    ids=["beyond", "negative", "twice"],
)
def test_places_that_are_none_are_refused(tmp_path: Path, ledger: Ledger, places: list[int], texts: list[str]) -> None:
    folder = tmp_path / "run"
    small_run(folder, ledger, Alike())
    file = folder / "internal" / "rounds" / "002" / "rewritten.parquet"
    write_table(file, {"place": np.array(places), "sample": samples_to_arrow(as_samples(texts))})
    with pytest.raises(RunError, match=r"rewritten\.parquet does not belong to its round; restore it from a copy"):
        read_run(folder)


def test_another_label_is_refused(tmp_path: Path) -> None:
    samples = labelled(["a", "b"], as_samples(["one text", "another"]))
    for labels, known in ((["b"], True), (["a"], False)):
        found = labelled(labels, as_samples(["rewritten"]))
        write_table(tmp_path / "rewritten.parquet", {"place": np.array([1]), "sample": samples_to_arrow(found)})
        if known:
            rewritten = read_rewritten(RoundFiles(tmp_path), samples, None)
            assert rewritten is not None
            assert rewritten["text"].tolist() == ["one text", "rewritten"]
        else:
            with pytest.raises(RunError, match="has other labels than its round"):
                read_rewritten(RoundFiles(tmp_path), samples, None)


def test_a_changed_text_is_not_what_was_published(tmp_path: Path, ledger: Ledger) -> None:
    folder = tmp_path / "run"
    state = small_run(folder, ledger, Alike())
    file = folder / "internal" / "rounds" / "002" / "rewritten.parquet"
    changed = as_samples(["something else"])
    write_table(file, {"place": np.array([1]), "sample": samples_to_arrow(changed)})
    record = read_run(folder)
    assert not record.finished
    assert record.samples(2).tolist() != state.synthetic.tolist()


def test_a_run_of_before_has_none(tmp_path: Path, ledger: Ledger) -> None:
    folder = tmp_path / "run"
    small_run(folder, ledger, Alike())
    (folder / "internal" / "rounds" / "002" / "rewritten.parquet").unlink()
    record = read_run(folder)
    assert all(text.startswith("Once upon a time") for text in record.samples(2))
