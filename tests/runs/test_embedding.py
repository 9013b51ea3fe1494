"""Private texts as vectors on disk: what is embedded, what is refused, and runs that vote from there."""

import json
import math
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gape.core.errors import BudgetError, InputError, PrivacyError, RunError
from gape.embedders.minilm import MiniLM
from gape.modalities import load_texts
from gape.modalities.arrow import samples_to_arrow
from gape.privacy.ledger import Ledger
from gape.privacy.noise import SeededNoise
from gape.runs import embedding
from gape.runs.electorate import make_electorate, open_private, read_records, require_embedder, text_fingerprint
from gape.runs.embedding import embed_texts
from gape.runs.resolve import resolved
from gape.runs.settings import Settings
from gape.runs.synthesize import resume, run_text, synthesize
from gape.voting.store import VectorFolder
from gape.voting.streamed import StreamedElectorate
from made_up import STARS, leaks, private_rows, public_texts, write_corpus, write_csv


@pytest.fixture(scope="module")
def minilm() -> MiniLM:
    return MiniLM()


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "reviews.csv", private_rows())


def chosen(data: Path, **values: Any) -> Settings:
    corpus = data.parent / "public.txt"
    if not corpus.exists():
        write_corpus(corpus)
    small = {"epsilon": 4.0, "samples": 6, "rounds": 2, "scales": [0.4, 0.8]}
    return Settings.of(small, {"data": str(data), "generator": f"corpus:{corpus}", **values})


def files(folder: Path) -> dict[str, tuple[int, bytes]]:
    return {path.name: (path.stat().st_mode, path.read_bytes()) for path in folder.iterdir()}


class TestEmbedding:
    def test_a_folder_holds_vectors_and_nothing_that_can_be_read(self, data: Path, minilm: MiniLM) -> None:
        with data.open("a") as file:
            file.write(",low,somebody\n")
        told: list[int] = []
        settings = chosen(data, text="review", user="who", label="stars")
        folder = embed_texts(settings, data.parent / "vectors", progress=told.append)
        assert (len(folder), folder.dropped, folder.units, folder.unit) == (90, 1, 40, "user")
        assert told == [90]
        texts = load_texts(data, "review").texts
        np.testing.assert_array_equal(np.load(folder.path / "vectors-00000.npy"), minilm.embed(texts))
        assert leaks(folder.path) == []
        assert sorted(files(folder.path)) == ["gape-vectors.json", "labels.npy", "units.npy", "vectors-00000.npy"]
        assert {mode & 0o777 for mode, _ in files(folder.path).values()} == {0o600}
        assert folder.path.stat().st_mode & 0o777 == 0o700

    def test_batches_make_no_difference(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        settings = chosen(data, text="review", label="stars")
        whole = embed_texts(settings, data.parent / "whole")
        monkeypatch.setattr(embedding, "_TEXTS_AT_ONCE", 17)
        assert files(embed_texts(settings, data.parent / "parts").path) == files(whole.path)

    def test_killed_in_the_middle_it_goes_on_to_the_same_bytes(self, data: Path) -> None:
        settings = chosen(data, text="review", user="who", label="stars")
        whole = embed_texts(settings, data.parent / "whole")
        out = data.parent / "vectors"
        program = """
import os, signal
from gape.cli import main
from gape.runs import embedding as module
module._TEXTS_AT_ONCE = 16
append, calls = module.Filling.append, []

def killed(filling, *batch):
    append(filling, *batch)
    calls.append(batch)
    if len(calls) == 3:
        os.kill(os.getpid(), signal.SIGKILL)

module.Filling.append = killed
main()
"""
        flags = ["embed", str(data), "--text", "review", "--user", "who", "--label", "stars", "--out", str(out)]
        for done in (48, 90):  # the second time there are 42 left: three batches again
            ended = subprocess.run([sys.executable, "-c", program, *flags], capture_output=True, check=False)
            assert ended.returncode == -9
            assert json.loads((out / "partial" / "progress.json").read_text())["rows"] == done
            with pytest.raises(RunError, match="not complete yet; repeat `gape embed`"):
                open_private(chosen(out))
        assert files(embed_texts(settings, out).path) == files(whole.path)

    def test_the_same_call_opens_what_is_there_and_another_is_refused(self, data: Path) -> None:
        out = data.parent / "vectors"
        settings = chosen(data, text="review")
        before = files(embed_texts(settings, out).path)
        (out / "partial").mkdir()  # left by a process that was killed at its very end
        embed_texts(settings, out)
        assert files(out) == before
        with pytest.raises(RunError, match=r"was begun with columns .* not .*'label': 'stars'"):
            embed_texts(settings.with_values(label="stars"), out)
        with pytest.raises(RunError, match="was begun with ledger"):
            embed_texts(settings.with_values(ledger=str(data.parent / "other")), out)

    def test_what_was_begun_goes_on_with_the_same_data_only(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        out, settings = data.parent / "vectors", chosen(data, text="review")
        monkeypatch.setattr(embedding, "_TEXTS_AT_ONCE", 30)

        def interrupted(done: int) -> None:
            if done == 60:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            embed_texts(settings, out, progress=interrupted)
        rows = private_rows()
        for other in (rows[1:], rows[:59], [*rows[:59], {**rows[59], "review": "Another."}]):
            write_csv(data, other)
            with pytest.raises(RunError, match=r"the data differs from the records already in"):
                embed_texts(settings, out)
        with pytest.raises(RunError, match="was begun with columns"):
            embed_texts(settings.with_values(user="who"), out)
        write_csv(data, rows)
        assert len(embed_texts(settings, out)) == 90

    def test_another_folder_is_left_alone(self, data: Path) -> None:
        folder = data.parent / "mine"
        folder.mkdir()
        (folder / "thesis.txt").write_text("")
        with pytest.raises(RunError, match="is not a folder of vectors; name a new folder"):
            embed_texts(chosen(data, text="review"), folder)
        (folder / "partial").mkdir()
        with pytest.raises(RunError, match="is not a folder of vectors; name a new folder"):
            embed_texts(chosen(data, text="review"), folder)
        assert sorted(path.name for path in folder.iterdir()) == ["partial", "thesis.txt"]
        assert not list((folder / "partial").iterdir())

    def test_private_text_goes_nowhere_unless_its_owner_agrees(self, data: Path) -> None:
        service = chosen(data, text="review", embedder="openai:e", base_url="http://127.0.0.1:9/v1")
        with pytest.raises(PrivacyError, match="would send the private text to another machine"):
            embed_texts(service, data.parent / "vectors")
        assert not (data.parent / "vectors").exists()

    def test_errors_name_rows_and_no_content(self, data: Path) -> None:
        rows = private_rows(3)
        rows[2]["who"] = " "
        with pytest.raises(InputError, match=r"row 3 of reviews\.csv is empty in column 'who'"):
            embed_texts(chosen(write_csv(data, rows), text="review", user="who"), data.parent / "vectors")
        with pytest.raises(InputError, match="has no column 'none'"):
            embed_texts(chosen(data, text="none"), data.parent / "vectors")
        with pytest.raises(InputError, match="there is no data"):
            embed_texts(Settings.of(), data.parent / "vectors")


class TestGivenVectors:
    @pytest.fixture
    def parquet(self, data: Path, minilm: MiniLM) -> Path:
        rows = private_rows()
        points = minilm.embed(load_texts(data, "review").texts)
        table = {name: [row[name] for row in rows] for name in ("review", "stars", "who")}
        path = data.with_suffix(".parquet")
        pq.write_table(pa.table({"vector": samples_to_arrow(points), **table}), path, row_group_size=40)
        return path

    def test_they_are_as_if_embedded_here(self, data: Path, parquet: Path) -> None:
        columns = {"text": "review", "user": "who", "label": "stars"}
        here = embed_texts(chosen(data, **columns), data.parent / "here")
        given = embed_texts(chosen(parquet, **columns), data.parent / "given", vectors="vector")
        for name in ("vectors-00000.npy", "units.npy", "labels.npy"):
            assert (given.path / name).read_bytes() == (here.path / name).read_bytes()
        assert given.fingerprint(b"salt") == here.fingerprint(b"salt")

    def test_without_texts_the_data_is_known_by_its_vectors(self, data: Path, parquet: Path) -> None:
        bare = embed_texts(chosen(parquet), data.parent / "bare", vectors="vector")
        named = embed_texts(chosen(parquet, user="who"), data.parent / "named", vectors="vector")
        assert (len(bare), bare.unit, named.units) == (90, "record", 40)
        assert bare.fingerprint(b"salt") != named.fingerprint(b"salt")
        again = embed_texts(chosen(parquet), data.parent / "again", vectors="vector")
        assert bare.fingerprint(b"salt") == again.fingerprint(b"salt")

    def test_what_is_no_column_of_vectors_is_refused(self, data: Path, parquet: Path) -> None:
        out = data.parent / "vectors"
        with pytest.raises(InputError, match="has no column 'none'"):
            embed_texts(chosen(parquet), out, vectors="none")
        with pytest.raises(InputError, match="must hold fixed-size lists of floats, got string"):
            embed_texts(chosen(parquet), out, vectors="review")
        with pytest.raises(InputError, match=r"reviews\.csv cannot be read"):
            embed_texts(chosen(data), out, vectors="vector")
        short = data.with_name("short.parquet")
        pq.write_table(pa.table({"vector": samples_to_arrow(np.ones((3, 5), dtype=np.float32))}), short)
        with pytest.raises(InputError, match="minilm returns 384 numbers per text, not 5"):
            embed_texts(chosen(short), out, vectors="vector")
        assert not out.exists()
        holes = pa.array([[1.0] * 384, None], type=pa.list_(pa.float32(), 384))
        pq.write_table(pa.table({"vector": holes}), short)
        with pytest.raises(InputError, match="has empty cells"):
            embed_texts(chosen(short), out, vectors="vector")


class TestRuns:
    @pytest.mark.parametrize(
        "columns",
        [
            {"text": "review"},
            {"text": "review", "user": "who", "votes_per_unit": 2},
            {"text": "review", "label": "stars", "labels": STARS},
            {"text": "review", "user": "who", "label": "stars", "labels_are_public": True},
        ],
        ids=["records", "users", "labels", "users and labels"],
    )
    def test_from_disk_a_run_is_what_it_is_in_memory(self, data: Path, columns: dict[str, Any]) -> None:
        names = {name: value for name, value in columns.items() if name in {"text", "user", "label"}}
        folder = embed_texts(chosen(data, **names), data.parent / "vectors").path
        in_memory = run_text(chosen(data, **columns), data.parent / "one", noise=SeededNoise(7))
        data.unlink()  # it is not needed any more
        from_disk = run_text(chosen(folder, **columns, budget_epsilon=9.0), data.parent / "two", noise=SeededNoise(7))
        assert (from_disk.texts, from_disk.labels) == (in_memory.texts, in_memory.labels)
        assert set(from_disk.texts) <= set(public_texts())
        for turn in ("001", "002"):
            votes = [data.parent / run / "internal" / "rounds" / turn / "votes.parquet" for run in ("one", "two")]
            assert pq.read_table(votes[0]) == pq.read_table(votes[1])
        assert from_disk.privacy.epsilon == in_memory.privacy.epsilon
        with closing(Ledger(data.parent / "reviews.csv.gape-ledger.sqlite")) as ledger:
            assert len(ledger.releases()) == 4  # of both runs
        assert sorted(path.name for path in data.parent.glob("*ledger*")) == ["reviews.csv.gape-ledger.sqlite"]
        assert leaks(data.parent) == []

    def test_texts_and_vectors_have_one_budget(self, data: Path) -> None:
        folder = embed_texts(chosen(data, text="review"), data.parent / "vectors").path
        run_text(chosen(folder), data.parent / "one")
        with pytest.raises(BudgetError, match="budget_epsilon"):
            run_text(chosen(data, text="review"), data.parent / "two")
        with pytest.raises(BudgetError, match="budget_epsilon"):
            run_text(chosen(folder), data.parent / "two")

    def test_other_vectors_are_another_dataset_to_the_ledger(self, data: Path) -> None:
        folder = embed_texts(chosen(data, text="review"), data.parent / "vectors").path
        run_text(chosen(data, text="review"), data.parent / "one")
        write_csv(data, private_rows(60))
        other = embed_texts(chosen(data, text="review"), data.parent / "other").path
        with pytest.raises(PrivacyError, match="has changed, or is read in another way"):
            run_text(chosen(other, budget_epsilon=9.0), data.parent / "two")
        assert run_text(chosen(folder, budget_epsilon=9.0), data.parent / "two").texts

    def test_fingerprints_are_those_of_texts_under_any_salt(self, data: Path) -> None:
        for columns in ({"text": "review"}, {"text": "review", "user": "who"}):
            settings = chosen(data, **columns)
            folder = embed_texts(settings, data.parent / str(len(columns)))
            for salt in (b"one", b"another"):
                assert text_fingerprint(folder, salt) == text_fingerprint(read_records(settings), salt)
                assert StreamedElectorate(folder).fingerprint(salt) == folder.fingerprint(salt)
            assert folder.fingerprint(b"one") != folder.fingerprint(b"another")

    def test_a_stopped_run_goes_on_from_disk_to_the_same_result(self, data: Path) -> None:
        folder = embed_texts(chosen(data, text="review"), data.parent / "vectors").path
        expected = run_text(
            chosen(folder, ledger=str(data.parent / "other")), data.parent / "one", noise=SeededNoise(7)
        )

        def stop(progress: Any) -> None:
            if progress.doing == "voting" and progress.round == 2:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            run_text(chosen(folder), data.parent / "two", noise=SeededNoise(7), progress=stop)
        moved = folder.rename(data.parent / "elsewhere")
        assert resume(data.parent / "two", noise=SeededNoise(7), data=str(moved)).texts == expected.texts

    def test_in_one_call(self, data: Path) -> None:
        folder = embed_texts(chosen(data, text="review"), data.parent / "vectors").path
        corpus = f"corpus:{data.parent / 'public.txt'}"
        assert len(synthesize(folder, epsilon=math.inf, samples=5, rounds=1, generator=corpus)) >= 1

    def test_another_embedder_is_refused_in_one_sentence(self, data: Path, minilm: MiniLM) -> None:
        folder = embed_texts(chosen(data, text="review"), data.parent / "vectors")
        require_embedder(chosen(folder.path), folder, minilm)
        with pytest.raises(
            InputError, match=r"was embedded by minilm, MiniLM\(.*256\), not by MiniLM\(.*128\); run with"
        ):
            require_embedder(chosen(folder.path), folder, MiniLM(max_tokens=128))
        with pytest.raises(InputError, match="was embedded by minilm"):
            make_electorate(chosen(folder.path), folder, MiniLM(max_tokens=128))
        service = chosen(folder.path, embedder="openai:e", base_url="http://127.0.0.1:9/v1")
        with pytest.raises(InputError, match=r"not by OpenAIEmbedder\(model='e', base_url='http://127.0.0.1:9/v1'\)"):
            run_text(service, data.parent / "run")
        assert not list(data.parent.glob("*ledger*"))
        assert not (data.parent / "run").exists()

    @pytest.mark.parametrize(
        ("values", "message"),
        [
            ({"text": "stars"}, "was embedded with 'review' as text, not 'stars'"),
            ({"user": "who"}, "was embedded without one as user, not 'who'"),
            ({"label": "who", "labels": STARS}, "was embedded with 'stars' as label, not 'who'"),
            ({"label": "stars"}, "which labels occur is private"),
        ],
    )
    def test_data_is_read_as_it_was_embedded(self, data: Path, values: dict[str, Any], message: str) -> None:
        folder = embed_texts(chosen(data, text="review", label="stars"), data.parent / "vectors")
        with pytest.raises(InputError, match=message):
            resolved(chosen(folder.path, **values), folder)

    def test_labels_that_were_not_listed_are_refused_without_naming_them(self, data: Path, minilm: MiniLM) -> None:
        folder = embed_texts(chosen(data, text="review", label="stars"), data.parent / "vectors")
        settings = chosen(folder.path, label="stars", labels=["low"])
        with pytest.raises(InputError, match="a label outside the given set of 1 label;") as caught:
            make_electorate(settings, folder, minilm)
        assert "mid" not in str(caught.value)
        wide = make_electorate(chosen(folder.path, label="stars", labels=STARS), folder, minilm)
        assert wide.dimension == 384 + len(STARS)

    def test_where_texts_are_needed_that_is_said(self, data: Path) -> None:
        folder = embed_texts(chosen(data, text="review"), data.parent / "vectors")
        with pytest.raises(InputError, match="holds vectors, and here the texts are needed"):
            read_records(chosen(folder.path))

    def test_a_copy_that_others_may_read_is_refused(self, data: Path) -> None:
        folder = embed_texts(chosen(data, text="review"), data.parent / "vectors").path
        os.chmod(folder, 0o755)  # noqa: PTH101, S103  (what is refused)
        with pytest.raises(PrivacyError, match="is open to other users"):
            open_private(chosen(folder))

    def test_a_folder_of_texts_is_still_one_of_texts(self, tmp_path: Path) -> None:
        (tmp_path / "one.txt").write_text("A text.")
        assert not isinstance(open_private(Settings.of({"data": str(tmp_path)})), VectorFolder)
