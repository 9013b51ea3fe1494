import re
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from typer.testing import CliRunner

from command import gape, one_line_error
from figures import is_a_drawing
from gape import __version__, cli
from gape.cli import demo
from gape.cli.demos.clusters import DemoResult
from gape.privacy.accounting import noise_scale, paper_noise_scale

PRIVACY = ["privacy", "--delta", "1e-6", "--rounds", "10"]


def test_version() -> None:
    result = gape("--version")
    assert result.exit_code == 0
    assert result.stdout == f"gape {__version__}\n"


@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("gape ex", {"export", "expand"}),
        ("gape export --fo", {"--format"}),
        ("gape export r --format pr", {"preferences"}),
    ],
)
def test_the_shell_completes_commands_flags_and_values(typed: str, completed: set[str]) -> None:
    asked = {"_GAPE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    result = CliRunner().invoke(cli.app, prog_name="gape", env=asked)
    assert set(result.stdout.split()) == completed


@pytest.mark.parametrize("command", [["expand"], ["run"], ["models", "list"]], ids=" ".join)
def test_the_paragraphs_of_a_help_fill_their_lines(command: list[str]) -> None:
    text = gape(*command, "--help").stdout.partition("Usage")[2].partition("╭")[0]
    paragraphs = [[line.strip() for line in part.splitlines()] for part in re.split(r"\n\s*\n", text.strip())[1:]]
    assert len(paragraphs) == 2
    for above, below in (pair for lines in paragraphs for pair in pairwise(lines)):
        assert len(f"{above} {below.split()[0]}") > 78


def test_the_demo_prints_what_each_method_keeps_and_costs(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    result = gape("demo", "--clusters", "--out", str(folder), "--seed", "3")
    assert result.exit_code == 0
    for word in (
        "Ranking",
        "Subsampling",
        "GAPE",
        "of 2",
        "epsilon 4 at delta",
        "epsilon 7.77",
        "differentially private",
    ):
        assert word in result.stdout
    for name in ("comparison", "ranking", "subsampling", "gape"):
        assert str(folder / f"{name}.png") in result.stdout
        assert is_a_drawing(folder / f"{name}.png")
    assert "must be empty and is not" in one_line_error(gape("demo", "--clusters", "--out", str(folder)))


def test_a_demo_without_noise_says_so_loudly(tmp_path: Path) -> None:
    result = gape("demo", "--clusters", "--out", str(tmp_path / "demo"), "--epsilon", "inf")
    assert result.exit_code == 0
    assert result.stdout.count("NOT PRIVATE") == 4  # each run, and the statement
    assert "Do not publish" in result.stdout


@pytest.mark.parametrize("epsilon", ["0", "-1", "nan"])
def test_an_impossible_epsilon_is_refused_before_anything_is_made(epsilon: str, tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    assert "epsilon must be positive" in one_line_error(
        gape("demo", "--clusters", "--out", str(folder), "--epsilon", epsilon)
    )
    assert "epsilon must be positive" in one_line_error(gape(*PRIVACY, "--epsilon", epsilon))
    assert not folder.exists()


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    message = one_line_error(gape("demo", "--clusters", "--out", str(tmp_path / "file" / "demo")))
    assert f"{tmp_path / 'file' / 'demo'} cannot be created" in message


def test_privacy_prints_the_noise_beside_the_closed_form() -> None:
    result = gape(*PRIVACY)
    assert result.exit_code == 0
    for epsilon in (0.1, 0.5, 1, 2, 4, 8, 100):
        assert f"{noise_scale(epsilon, 1e-6, 10):.6g}" in result.stdout
    assert f"{paper_noise_scale(0.5, 1e-6, 10):.6g}" in result.stdout
    assert result.stdout.count("not proved for epsilon >= 1") == 5


def test_privacy_of_chosen_epsilons_and_neighbours() -> None:
    result = gape(*PRIVACY, "--epsilon", "1", "--epsilon", "inf", "--neighbours", "add_remove")
    assert result.exit_code == 0
    assert f"{noise_scale(1, 1e-6, 10, neighbours='add_remove'):.6g}" in result.stdout
    assert "NOT PRIVATE" in result.stdout


@pytest.mark.parametrize(
    ("delta", "rounds", "message"),
    [("2", "10", "delta must"), ("0", "10", "delta must"), ("nan", "10", "delta must"), ("1e-6", "0", "rounds must")],
)
def test_impossible_privacy_settings(delta: str, rounds: str, message: str) -> None:
    assert message in one_line_error(gape("privacy", "--delta", delta, "--rounds", rounds))


@pytest.mark.parametrize(
    "arguments",
    [
        ["privacy"],
        [*PRIVACY, "--epsilon", "much"],
        [*PRIVACY, "--neighbours", "friends"],
        ["demo", "--rounds", "3"],
        ["nothing"],
        [],
    ],
)
def test_wrong_usage_exits_with_2(arguments: list[str]) -> None:
    assert gape(*arguments).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "start", "command"),
    [
        (
            [*PRIVACY, "--epsilon", "1", "--rounds", "many"],
            "error: invalid value 'many' for '--rounds': ",
            "gape privacy",
        ),
        ([*PRIVACY, "--rounds=few"], "error: invalid value 'few' for '--rounds': ", "gape privacy"),
        (["evaluate", "a.csv"], "error: missing option '--private'", "gape evaluate"),
        (["plan", "a.csv", "--epslon", "1"], "error: no such option", "gape plan"),  # then the name, as typer has it
        (["pln"], "error: no such command 'pln'", "gape"),
    ],
)
def test_wrong_usage_is_one_line_with_the_value(arguments: list[str], start: str, command: str) -> None:
    result = gape(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(start)
    assert result.stderr.endswith(f"ee `{command} --help`\n")
    assert result.stderr.count("\n") == 1


def test_an_interrupt_is_one_line_and_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> DemoResult:
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "run_questions", interrupted)
    result = gape("demo")
    assert result.exit_code == 130
    assert result.stderr.startswith("interrupted")
    assert result.stderr.count("\n") == 1


def test_a_full_disk_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> DemoResult:
        raise OSError(28, "No space left on device", "somewhere")

    monkeypatch.setattr(demo, "run_questions", full)
    assert "No space left on device at somewhere" in one_line_error(gape("demo"))


def test_tracebacks_never_show_variables() -> None:
    assert cli.app.pretty_exceptions_enable is False
    assert cli.app.pretty_exceptions_show_locals is False


def test_the_console_entry(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["gape", *PRIVACY, "--epsilon", "0"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 1
    assert capsys.readouterr().err.startswith("error: epsilon must be positive")


def test_what_nobody_foresaw_is_one_line_without_its_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> DemoResult:
        raise KeyError("a private text")

    monkeypatch.setattr(demo, "run_questions", broken)
    message = one_line_error(gape("demo"))
    assert "internal error: KeyError in test_cli.py line" in message
    assert "private text" not in message
