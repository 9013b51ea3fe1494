"""Text runs whose data is read, whose votes are counted and whose texts are written by workers: as by one process."""

import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from command import gape, one_line_error
from gape.core.errors import BudgetError, InputError, PrivacyError
from gape.privacy.ledger import Ledger
from gape.privacy.noise import SeededNoise
from gape.runs import electorate, engine
from gape.runs.embedding import embed_texts
from gape.runs.folder.stored import SettingsFolder
from gape.runs.progress import Progress
from gape.runs.settings import Settings
from gape.runs.synthesize import SyntheticTexts, resume, run_text
from made_up import CANARIES, STARS, leaks, private_rows, public_texts, write_corpus, write_csv
from small_model import FOLDER

RAY = {"engine": "ray", "workers": 2}
WRITTEN = {"generator": f"hf:{FOLDER}", "scales": [0.6], "words": 12, "prompts": "yelp"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_csv(tmp_path / "reviews[1].csv", private_rows())  # a name, not a pattern


def chosen(data: Path, **values: Any) -> Settings:
    corpus = data.parent / "public.txt"
    if not corpus.exists():
        write_corpus(corpus)
    small = {"epsilon": 4.0, "samples": 6, "rounds": 2, "scales": [0.4, 0.8]}
    small |= {} if "schema" in values else {"text": "review"}
    return Settings.of(small, {"data": str(data), "generator": f"corpus:{corpus}", **values})


def apart(data: Path, name: str, **values: Any) -> SyntheticTexts:
    """Run in a folder and with a ledger of its own, with noise that can be repeated."""
    settings = chosen(data, ledger=str(data.parent / f"{name}.sqlite"), **values)
    made = run_text(settings, data.parent / name, noise=SeededNoise(7))
    return replace(made, privacy=replace(made.privacy, ledger=""))  # every ledger has a name of its own


def rounds(folder: Path) -> dict[str, bytes]:
    """All that a run has on disk of its rounds: candidates, noisy votes and what was selected."""
    inside = folder / "internal" / "rounds"
    return {str(path.relative_to(inside)): path.read_bytes() for path in inside.rglob("*") if path.is_file()}


def charged(path: Path) -> list[Any]:
    ledger = Ledger(str(path))
    releases = list(ledger.releases())
    ledger.close()
    return releases


def stop_in_round_two(now: Progress) -> None:
    if now.doing == "voting" and now.round == 2:
        raise KeyboardInterrupt


@pytest.mark.slow
@pytest.mark.usefixtures("ray_here")
class TestTheSameAsInOneProcess:
    @pytest.mark.parametrize(
        "values",
        [{}, {"user": "who", "votes_per_unit": 2}, {"label": "stars", "labels": STARS, "samples": 9}],
        ids=["records", "users", "labels"],
    )
    def test_votes_samples_statement_and_ledger(
        self, data: Path, values: dict[str, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here = apart(data, "here", **values)

        def refuse(*_: object) -> None:
            raise AssertionError("this process reads no private text")

        monkeypatch.setattr(electorate, "read_records", refuse)
        there = apart(data, "there", **values, **RAY)
        assert there == here
        files = rounds(data.parent / "there")
        assert any(path.startswith("002/") for path in files)
        assert files == rounds(data.parent / "here")
        assert charged(data.parent / "there.sqlite") == charged(data.parent / "here.sqlite") != []
        assert leaks(data.parent, data) == []

    def test_rows_with_texts(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        schema, public = data.parent / "reviews.toml", data.parent / "public.csv"
        schema.write_text('[stars]\nchoices = ["low", "mid", "high"]\n[review]\ntext = "reviews"\n')
        lines = [f"{STARS[i % 3]},{text}" for i, text in enumerate(public_texts())]
        public.write_text("\n".join(["stars,review", *lines]) + "\n")
        rows = {"schema": str(schema), "generator": f"corpus:{public}", "user": "who"}
        here = apart(data, "here", **rows)
        monkeypatch.setattr(electorate, "read_records", None)
        assert apart(data, "there", **rows, **RAY) == here
        assert rounds(data.parent / "there") == rounds(data.parent / "here")
        assert charged(data.parent / "there.sqlite") == charged(data.parent / "here.sqlite") != []
        assert leaks(data.parent, data) == []
        public.write_text(f'{public.read_text()}mid,"{private_rows()[5]["review"].upper()}"\n')
        with pytest.raises(PrivacyError, match="contains at least one private record"):
            apart(data, "shared", **rows, **RAY)

    def test_texts_that_workers_write(self, data: Path) -> None:
        here = apart(data, "here", **WRITTEN)
        assert apart(data, "there", **WRITTEN, **RAY) == here
        assert rounds(data.parent / "there") == rounds(data.parent / "here")

    @pytest.mark.parametrize(("first", "then"), [("ray", "local"), ("local", "ray")])
    def test_a_run_goes_on_with_another_engine(self, data: Path, first: str, then: str) -> None:
        whole = apart(data, "whole", **WRITTEN)
        settings, folder = chosen(data, **WRITTEN, engine=first, workers=2), data.parent / "run"
        with pytest.raises(KeyboardInterrupt):
            run_text(settings, folder, noise=SeededNoise(7), progress=stop_in_round_two)
        stored = SettingsFolder(folder).status().answers
        assert resume(folder, noise=SeededNoise(7), engine=then).texts == whole.texts
        assert rounds(folder) == rounds(data.parent / "whole")
        assert SettingsFolder(folder).status().answers == stored  # what was written is not written again

    def test_the_ledger_knows_the_data_whoever_reads_it(self, data: Path) -> None:
        run_text(chosen(data, **RAY), data.parent / "run")
        with pytest.raises(BudgetError, match="budget_epsilon"):
            run_text(chosen(data), data.parent / "again")
        with pytest.raises(BudgetError, match="budget_epsilon"):
            run_text(chosen(data, **RAY), data.parent / "again")
        write_csv(data, private_rows(91))
        with pytest.raises(PrivacyError, match="the data of 2 workers has changed, or is read in another way"):
            run_text(chosen(data, budget_epsilon=9.0, **RAY), data.parent / "again")
        assert not (data.parent / "again").exists()

    def test_by_command(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(data.parent)
        write_corpus(data.parent / "public.txt")
        small = ["--text", "review", "--samples", "6", "--rounds", "2", "--scales", "0.4,0.8", "--epsilon", "4"]
        done = gape("run", data.name, *small, "--generator", "corpus:public.txt", "--engine", "ray", "--out", "run")
        assert done.exit_code == 0
        assert "Start: workers read and embed the private texts" in done.stderr
        assert "differentially private" in done.stdout
        assert gape("resume", "run", "--engine", "local").stdout == done.stdout
        assert not any(canary in done.output for canary in CANARIES)

    def test_a_corpus_that_shares_a_record_of_a_worker_is_refused(self, data: Path) -> None:
        corpus = write_corpus(data.parent / "shared.txt")
        corpus.write_text(corpus.read_text() + private_rows()[41]["review"].upper() + "\n")
        with pytest.raises(PrivacyError, match="contains at least one private record"):
            apart(data, "run", generator=f"corpus:{corpus}", **RAY)
        assert not (data.parent / "run").exists()

    def test_what_a_worker_refuses_is_said_and_nothing_is_left(self, data: Path) -> None:
        with pytest.raises(InputError, match=r"on worker \d: .* has no column 'none'"):
            run_text(chosen(data, text="none", **RAY), data.parent / "run")
        service = {"embedder": "openai:e", "base_url": "http://127.0.0.1:9/v1"}
        with pytest.raises(PrivacyError, match=r"on worker \d: .*would send the private text"):
            run_text(chosen(data, **service, **RAY), data.parent / "run")
        write_csv(data, private_rows(1))
        with pytest.raises(InputError, match="part 1 of 2 has no records; use fewer workers"):
            run_text(chosen(data, **RAY), data.parent / "run")
        assert not (data.parent / "run").exists()
        assert not list(data.parent.glob("*ledger*"))


class TestRefusals:
    def test_before_anything_is_started(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(engine, "ray_cluster", lambda *_, **__: pytest.fail("a cluster is started"))
        with pytest.raises(InputError, match="name a file that they can see"):
            run_text(chosen(data, **RAY), data.parent / "run", source=["A text."])
        with pytest.raises(InputError, match="name a file that they can see"):
            run_text(Settings.of({"epsilon": 1.0}, RAY), data.parent / "run")
        with pytest.raises(InputError, match="epsilon must be given"):
            run_text(Settings.of({"data": str(data)}, RAY), data.parent / "run")
        with pytest.raises(InputError, match=r"there is no corpus none.txt"):
            run_text(chosen(data, generator="corpus:none.txt", **RAY), data.parent / "run")
        folder = embed_texts(chosen(data), data.parent / "vectors").path
        with pytest.raises(InputError, match="holds vectors, which vote from this machine's disk; use engine local"):
            run_text(chosen(folder, **RAY), data.parent / "run")
        assert not (data.parent / "run").exists()

    def test_without_ray_the_remedy_is_named(self, data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "ray", None)
        refused = gape("run", data, "--epsilon", math.inf, "--engine", "ray", "--out", data.parent / "run")
        assert "pip install 'gape[ray]'" in one_line_error(refused)
