"""The paper's GAPE in one flag: `--preset gape-paper`, from plan to card, with a small real language model."""

import json
import re
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import faulty_server
import gape
from command import gape as command
from command import one_line_error
from faulty_server import FaultyServer
from gape.language.request import Request
from gape.privacy.noise import SeededNoise
from gape.runs.folder.stored import SettingsFolder
from gape.runs.method import method_in_words
from gape.runs.progress import Progress
from gape.runs.selector import threshold_of
from gape.runs.settings import Settings
from gape.runs.synthesize import resume, run_text
from generators.writing import write
from made_up import private_rows, write_corpus, write_csv
from small_model import FOLDER

R = 3.0
SMALL = {"samples": 5, "rounds": 2, "copies": 2, "words": 12}
PROMPTS = """
domain = "short reports"
words = 12
random = ["Tell a short story."]
widen = "Topic: {topic}"
openings = ["Once"]
rephrase = ["Please rephrase the following sentences {tone}: {sample}"]
[rules]
topic = ["a dog", "a cat"]
tone = ["in a professional way"]
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GAPE_STATE", str(tmp_path / "state"))
    write_csv(tmp_path / "reviews.csv", private_rows(60))
    (tmp_path / "prompts.toml").write_text(PROMPTS)
    return tmp_path


def flags(here: Path, generator: str) -> list[object]:
    """Flags of a run of gape-paper that a small machine can do; the rest is the preset's."""
    names = {"generator": generator, "prompts": here / "prompts.toml", "separation": R, **SMALL}
    small = [part for name, value in names.items() for part in (f"--{name}", value)]
    return [here / "reviews.csv", "--text", "review", "--epsilon", 8, "--preset", "gape-paper", *small]


def printed(*arguments: object) -> str:
    result = command(*arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def selections(run: Path) -> list[dict[str, object]]:
    files = sorted((run / "internal" / "rounds").glob("*/selection.json"))
    return [json.loads(file.read_text()) for file in files]


def test_a_model_writes_for_it_from_plan_to_card(here: Path) -> None:
    planned = printed("plan", *flags(here, f"hf:{FOLDER}"))
    assert "votes each record votes for its nearest candidate" in planned
    assert "method GAPE as in the paper. Algorithms 4 and 5 as printed" in planned
    assert "R = 3" in planned
    run = here / "run"
    printed("run", *flags(here, f"hf:{FOLDER}"), "--out", run)
    stored = SettingsFolder(run).settings()
    assert (stored.selector, stored.votes_per_record, stored.initial) == ("gape-paper", 1, 10)
    assert (stored.bare_prompts, stored.distinct, stored.vary_start, stored.keep) == (True, False, True, True)
    begun = json.loads((run / "internal" / "settings.json").read_text())
    rule = re.fullmatch(r"Gape\(separation=3\.0, threshold=(\S+), certify=True, (.*)\)", begun["parts"]["selector"])
    assert rule is not None
    assert rule[2] == "spare=0.0, signed=True, noise=None, centres=1.0, distinct=False"
    plan = gape.Plan(**begun["plan"] | {"scales": tuple(begun["plan"]["scales"])})
    assert float(rule[1]) == threshold_of(plan)
    assert "BarePrompts(" in begun["parts"]["generator"]
    assert [done["certified"] for done in selections(run)] == [True, True]
    assert not (run / "internal" / "rounds" / "002" / "rewritten.parquet").exists()  # no last pass
    printed("report", run, "--no-map")
    assert "GAPE as in the paper" in (run / "release" / "report.html").read_text()
    printed("export", run, "--out", here / "all.csv")
    assert "- The method: GAPE as in the paper. Algorithms 4 and 5" in (here / "all.card.md").read_text()


def test_a_stopped_run_is_resumed_to_the_same_end_with_the_papers_prompts(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faulty_server, "answer_to", lambda prompt, seed: write(Request(prompt, seed=seed)))

    def stop(now: Progress) -> None:
        if now.written == 30:
            raise KeyboardInterrupt

    with FaultyServer() as server:
        values = {"data": str(here / "reviews.csv"), "text": "review", "epsilon": 8.0, "separation": R, **SMALL}
        service = {"generator": "openai:tiny", "base_url": server.url, "prompts": str(here / "prompts.toml")}
        settings = Settings.of({"preset": "gape-paper", "concurrency": 4}, values, service)
        ledgers = [settings.with_values(ledger=str(here / name)) for name in ("a", "b")]
        whole = run_text(ledgers[0], here / "whole", noise=SeededNoise(1))
        asked = [body["messages"][-1]["content"] for body in server.bodies]
        with pytest.raises(KeyboardInterrupt):
            run_text(ledgers[1], here / "run", progress=stop, noise=SeededNoise(1))
        resumed = resume(here / "run", noise=SeededNoise(1))
    assert resumed.texts == whole.texts
    assert len(asked) >= 10 + 10 * 2 + 5 * 2
    start = pq.read_table(here / "whole" / "internal" / "rounds" / "000" / "synthetic.parquet")["sample"].to_pylist()
    bare = {f"Please rephrase the following sentences in a professional way: {text}" for text in start}
    assert "Tell a short story." in asked
    assert not any("Topic" in prompt or "Once" in prompt for prompt in asked if prompt not in bare)
    assert bare <= set(asked)  # the sample as it is, not in quotes


def test_it_is_refused_without_r_by_saying_how_to_get_it(here: Path) -> None:
    refused = one_line_error(
        command("plan", here / "reviews.csv", "--text", "review", "--epsilon", 1, "--preset", "gape-paper")
    )
    assert "gape-paper needs separation, the paper's R; compute it on public data" in refused
    assert "gape.paper_separation(points, samples)" in refused


def test_the_default_is_said_to_be_a_variant_that_no_theorem_covers(here: Path) -> None:
    corpus = write_corpus(here / "public.txt")
    default = method_in_words(Settings.of({"votes_per_record": 7}))
    by_corpus = method_in_words(Settings.of({"generator": f"corpus:{corpus}"}))
    for method in (default, by_corpus):
        assert "It departs from the paper's GAPE: " in method.sentence
        assert "no theorem of the paper covers it" in method.sentence
    assert "each record votes for 7 candidates" in default.sentence
    assert "votes for" not in method_in_words(Settings.of({"votes_per_record": 1})).sentence  # as in the paper
    several = method_in_words(Settings.of({"preset": "gape-paper", "separation": R, "votes_per_record": 4}))
    assert "except that each record votes for 4 candidates, so no theorem" in several.sentence
    for preset, name in (("augpe", "Ranking, as in AugPE"), ("subsamplepe", "Subsampling, as in SubsamplePE")):
        assert method_in_words(Settings.of({"preset": preset})).name == name
    planned = printed("plan", here / "reviews.csv", "--text", "review", "--epsilon", 4, "--samples", 30)
    assert re.search(r"votes each record votes for its \d+ nearest candidates", planned)
    assert "method GAPE, practical variant. It departs from the paper's GAPE" in planned
