"""Scores of texts by private records: right, marked, and never among what is published."""

import json
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parts
from gape.core.errors import InputError, PrivacyError, RunError
from gape.embedders.minilm import MiniLM
from gape.evaluation.evaluate import Evaluation, Scoring, evaluate
from gape.privacy.ledger import Ledger
from gape.privacy.noise import SeededNoise
from gape.runs.export import export
from gape.runs.folder.record import read_run
from gape.runs.settings import Settings
from gape.runs.synthesize import run_text
from made_up import STARS, leaks, private_rows, public_texts, write_corpus, write_csv


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with records that voted, records held out, and a finished run."""
    folder = tmp_path_factory.mktemp("evaluate")
    rows = private_rows(130)
    write_csv(folder / "reviews.csv", rows[:90])
    write_csv(folder / "others.csv", rows[90:])
    corpus = write_corpus(folder / "public.txt")
    small = {"epsilon": 4.0, "samples": 6, "rounds": 2, "scales": [0.4, 0.8], "text": "review"}
    settings = Settings.of(small, {"data": str(folder / "reviews.csv"), "generator": f"corpus:{corpus}"})
    run_text(settings, folder / "run", noise=SeededNoise(1))
    return folder


@pytest.fixture(scope="module")
def scored(here: Path) -> Evaluation:
    return evaluate(here / "run", here / "reviews.csv", held_out=here / "others.csv", real_baseline=True)


def texts_of(count: int) -> list[str]:
    return public_texts()[:count]


class TestRun:
    def test_scores_are_those_of_the_definitions(self, here: Path, scored: Evaluation) -> None:
        embedder = MiniLM()
        held_out = np.array([row["review"] for row in private_rows(130)[90:]], dtype=object)
        real = embedder.embed(held_out).astype(np.float64)
        radii = np.sort(np.linalg.norm(real[:, None] - real[None], axis=2), axis=1)[:, 3]
        release = evaluate_texts_of(here / "run")
        points = embedder.embed(np.array(release, dtype=object)).astype(np.float64)
        away = np.linalg.norm(real[:, None] - points[None], axis=2)
        assert scored.value("recall") == pytest.approx(np.mean(away.min(axis=1) <= radii))
        assert scored.value("precision") == pytest.approx(np.mean((away <= radii[:, None]).any(axis=0)))
        assert scored.value("mean nearest distance") == pytest.approx(away.min(axis=1).mean(), rel=1e-5)
        assert scored.value("coverage error") == pytest.approx(away.min(axis=1).max(), rel=1e-5)

    def test_every_round_is_scored_and_the_last_as_the_result(self, scored: Evaluation) -> None:
        assert [turn.round for turn in scored.rounds] == [0, 1, 2]
        assert scored.rounds[-1].recall == scored.value("recall")
        assert scored.rounds[-1].mean_nearest_distance == pytest.approx(scored.value("mean nearest distance"))
        assert scored.rounds[-1].wasserstein1 == pytest.approx(scored.value("W1"))
        assert scored.rounds[-1].mean_nearest_distance < scored.rounds[0].mean_nearest_distance

    def test_intervals_hold_their_values_and_the_baseline_is_there(self, scored: Evaluation) -> None:
        named = {each.name: each for measures in scored.groups.values() for each in measures}
        for name in ("recall", "precision", "mean nearest distance"):
            low, high = named[name].low, named[name].high
            assert low is not None
            assert high is not None
            assert low <= named[name].value <= high
        # Records are about as near to each other as they are, which texts of a corpus are not.
        assert named["mean nearest distance"].real is not None
        assert named["mean nearest distance"].real < named["mean nearest distance"].value
        assert named["texts that are records"].real is None

    def test_it_is_marked_and_stays_inside(self, here: Path, scored: Evaluation) -> None:
        written = json.loads((here / "run" / "internal" / "evaluation.json").read_text())
        assert written["differentially_private"] is False
        assert "NOT differentially private" in written["remark"]
        assert written["in_sample"] is False
        assert written["groups"]["Nearness"][0]["name"] == "recall"
        assert written["groups"]["Nearness"][0]["value"] == scored.value("recall")
        assert leaks(here / "run") == []
        export(here / "run", here / "exported", "hf")
        for folder in (here / "exported", here / "run" / "release"):
            assert not any("evaluation" in path.name or b"recall" in path.read_bytes() for path in files(folder))
        with pytest.raises(PrivacyError, match="lies among the files that a run publishes"):
            evaluate(here / "run", here / "reviews.csv", out=here / "run" / "release" / "scores.json")

    def test_records_that_voted_are_said_to_have_voted(self, here: Path, scored: Evaluation) -> None:
        inside = evaluate(here / "run", here / "reviews.csv", out=here / "in-sample.json")
        assert inside.in_sample
        assert "90 private records, the records that voted: IN-SAMPLE" in inside.scored_by
        assert not scored.in_sample
        assert scored.scored_by == "40 records that did not vote"
        assert json.loads((here / "in-sample.json").read_text())["in_sample"] is True
        with pytest.raises(InputError, match="there is no measure 'p-value of that'"):
            inside.value("p-value of that")  # nothing to compare with
        assert 0 < scored.value("p-value of that") <= 1

    def test_repetition_stands_beside_that_of_as_many_records(self, here: Path, scored: Evaluation) -> None:
        names = [each.name for each in scored.groups["Repetition"]]
        assert names[:4] == ["repeating texts", "distinct openings", "distinct pairs", "compression ratio"]
        assert all(each.real is not None for each in scored.groups["Repetition"])
        copies = [f"{public_texts()[0]} And so on and on until the end of it, number {i}." for i in range(40)]
        found = evaluate(copies, [row["review"] for row in private_rows(60)])
        assert found.value("repeating texts") == 1.0
        assert any("The texts repeat one another: 100%" in remark for remark in found.remarks)
        assert not any("repeat one another" in remark for remark in scored.remarks)

    def test_what_the_texts_teach_stands_beside_records_and_the_start(self, here: Path, scored: Evaluation) -> None:
        learnt, start = scored.groups["Usefulness"]
        assert (learnt.name, start.name) == ("next-word accuracy", "the same by the start")
        assert learnt.low is not None
        assert learnt.low <= learnt.value <= (learnt.high or 0)
        assert learnt.real is not None
        assert learnt.real > learnt.value  # which knows the very phrases of the other records
        in_sample = evaluate(here / "run", here / "reviews.csv")
        assert in_sample.groups["Usefulness"][0].real is not None

    def test_lineages_are_counted_round_by_round(self, here: Path, scored: Evaluation) -> None:
        record = read_run(here / "run")
        assert [turn.lineages for turn in scored.rounds] == [len(each) for each in record.families]
        assert [turn.largest for turn in scored.rounds] == [each[0] for each in record.families]
        assert [int(each.sum()) for each in record.families] == [turn.texts for turn in scored.rounds]
        last = np.unique(record.ways[0], return_counts=True)[1]  # the same, followed from the end
        assert sorted(last.tolist(), reverse=True) == record.families[-1].tolist()

    def test_a_seed_repeats_it(self, here: Path, scored: Evaluation) -> None:
        again = evaluate(here / "run", here / "reviews.csv", held_out=here / "others.csv", real_baseline=True)
        assert again == scored

    def test_an_unfinished_run_is_scored_as_far_as_it_is(self, here: Path, tmp_path: Path) -> None:
        class Stop(Exception):  # noqa: N818  (not an error)
            pass

        def stop(now: Any) -> None:
            if now.round == 2:
                raise Stop

        settings = Settings.of(
            {"data": str(here / "reviews.csv"), "text": "review", "generator": f"corpus:{here / 'public.txt'}"},
            {"epsilon": 4.0, "samples": 6, "rounds": 2, "ledger": ":memory:"},
        )
        with pytest.raises(Stop):
            run_text(settings, tmp_path / "run", progress=stop)
        found = evaluate(tmp_path / "run", here / "reviews.csv")
        assert "which is not finished: after round 1" in found.synthetic
        assert len(found.rounds) == 2

    def test_labels_of_a_run_are_learnt_from(self, here: Path, tmp_path: Path) -> None:
        settings = Settings.of(
            {"data": str(here / "reviews.csv"), "text": "review", "generator": f"corpus:{here / 'public.txt'}"},
            {"epsilon": float("inf"), "samples": 9, "rounds": 1, "ledger": ":memory:"},
            {"label": "stars", "labels": STARS},
        )
        run_text(settings, tmp_path / "run")
        found = evaluate(tmp_path / "run", here / "reviews.csv", held_out=here / "others.csv")
        assert 0 <= found.value("accuracy") <= 1
        assert "Usefulness" in found.groups


class TestFiles:
    def test_copies_are_found(self, here: Path) -> None:
        rows = [row["review"] for row in private_rows(130)]
        copies = evaluate(rows[:45], rows[:90], held_out=rows[90:])
        assert copies.value("texts that are records") == 45
        assert copies.value("median distance to closest record") == 0
        assert copies.value("closest record is private") == 1
        assert copies.value("p-value of that") < 0.01
        assert "look at the closest pairs" in str(copies.groups["Memorisation"])
        honest = evaluate(texts_of(45), rows[:90], held_out=rows[90:])
        assert honest.value("texts that are records") == 0
        assert honest.value("longest shared run") < copies.value("longest shared run")

    def test_exported_texts_have_the_columns_of_exports(self, here: Path, tmp_path: Path) -> None:
        export(here / "run", tmp_path / "made.csv", "csv")
        by_file = evaluate(tmp_path / "made.csv", here / "reviews.csv", text="review", held_out=here / "others.csv")
        by_run = evaluate(here / "run", here / "reviews.csv", held_out=here / "others.csv", out=tmp_path / "x.json")
        taught, start = by_run.groups["Usefulness"]
        assert start.name == "the same by the start"  # which a file does not have
        assert by_file.groups == {**by_run.groups, "Usefulness": (taught,)}
        assert by_file.rounds == ()
        assert sorted(path.name for path in tmp_path.iterdir()) == [
            "made.card.md", "made.csv", "made.privacy.json", "x.json",
        ]  # fmt: skip

    def test_labels_that_can_be_learnt_are_learnt(self) -> None:
        synthetic = [{"text": text, "label": "short" if len(text) < 34 else "long"} for text in public_texts()]
        real = [{**row, "text": row["text"].replace("The", "That")} for row in synthetic[::2]]
        found = evaluate(synthetic, real, text="text", label="label")
        assert found.value("accuracy") > 0.7
        short = [np.mean([row["label"] == "short" for row in rows]) for rows in (synthetic, real)]
        assert found.value("label distance") == pytest.approx(abs(short[0] - short[1]))
        assert "IN-SAMPLE" in found.scored_by

    def test_labels_of_one_side_are_a_remark(self, here: Path) -> None:
        found = evaluate(here / "run", here / "reviews.csv", label="stars", out=here / "remark.json")
        assert any("have no labels" in remark for remark in found.remarks)
        assert "accuracy" not in [each.name for each in found.groups["Usefulness"]]

    def test_records_on_both_sides_are_a_remark(self) -> None:
        rows = [row["review"] for row in private_rows(60)]
        found = evaluate(texts_of(120), rows[:40], held_out=rows[30:])
        assert any("held-out records: 10." in remark for remark in found.remarks)

    def test_a_sample_bounds_the_cost(self) -> None:
        rows = [row["review"] for row in private_rows(60)]
        found = evaluate(texts_of(30), rows, scoring=Scoring(sample=10))
        assert any("10 records against 10 texts" in each.says for each in found.groups["Nearness"])


def test_what_cannot_be_scored_is_refused(here: Path, tmp_path: Path) -> None:
    rows = [row["review"] for row in private_rows(60)]
    with pytest.raises(InputError, match="3 records are too few"):
        evaluate(texts_of(10), rows[:3])
    with pytest.raises(InputError, match="blur must be positive"):
        Scoring(blur=0)
    with pytest.raises(InputError, match="k and sample must be at least 1"):
        Scoring(k=0)
    with pytest.raises(InputError, match="is not a folder; make it first"):
        evaluate(texts_of(10), rows, out=tmp_path / "none" / "x.json")
    with pytest.raises(InputError, match="no column 'rewiew'"):
        evaluate(here / "run", here / "reviews.csv", text="rewiew")
    with pytest.raises(InputError, match="does not exist"):
        evaluate(tmp_path / "nothing.csv", rows)
    with pytest.raises(PrivacyError, match="would send the private text"):
        evaluate(texts_of(10), rows, embedder="openai:tiny", embedder_base_url="http://127.0.0.1:9/v1")
    with closing(Ledger(tmp_path / "ledger", parts.BUDGET)) as ledger:
        parts.small_run(tmp_path / "vectors", ledger)
    with pytest.raises(RunError, match="is not the folder of a run"):
        evaluate(tmp_path / "vectors", rows)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def evaluate_texts_of(run: Path) -> list[str]:
    import pyarrow.parquet as pq  # noqa: PLC0415

    texts: list[str] = pq.read_table(run / "release" / "synthetic.parquet")["text"].to_pylist()
    return texts
