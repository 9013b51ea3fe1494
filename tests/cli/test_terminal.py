"""Texts from anywhere are shown on a terminal and never obeyed by it."""

import ast
import io
from pathlib import Path

import pytest
from rich.table import Table

from command import gape
from gape import cli
from gape.cli.shared import Terminal, visible
from made_up import private_rows, write_csv

HOSTILE = "\x1b]0;PWNED\x07\x1b[2J\x9b31m\x7f\r\x08 turned \u202eround\u2066"
OBEYED = set("\x1b\x07\x9b\x7f\r\x08\u202e\u2066")


def test_what_a_terminal_obeys_is_replaced_and_the_rest_stays() -> None:
    assert not OBEYED & set(visible(HOSTILE))
    assert visible("ümlaut\t\n\U0001f600 café") == "ümlaut\t\n\U0001f600 café"


def test_a_real_terminal_gets_the_codes_of_the_program_and_none_of_a_text() -> None:
    screen = io.StringIO()
    terminal = Terminal(file=screen, force_terminal=True, color_system="truecolor", width=200)
    terminal.print(HOSTILE, style="bold", markup=False)
    table = Table("name")
    table.add_row(HOSTILE)
    terminal.print(table)
    shown = screen.getvalue()
    assert "\x1b[1m" in shown
    assert "\x1b]" not in shown
    assert "\x1b[2J" not in shown
    assert not (OBEYED - {"\x1b"}) & set(shown)


def test_commands_show_no_code_of_a_corpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_csv(tmp_path / "reviews.csv", private_rows())
    Path("public.txt").write_text("".join(f"{number} {HOSTILE.replace(chr(13), '')}\n" for number in range(30)))
    arguments = ["--text", "review", "--epsilon", 4, "--samples", 4, "--rounds", 1, "--generator", "corpus:public.txt"]
    shown = []
    for command in (
        ["run", "reviews.csv", *arguments, "--out", "run"],
        ["resume", "run"],
        ["status", "run"],
        ["export", "run", "--out", f"{HOSTILE}/x.csv"],
        ["status", f"no {HOSTILE}"],
    ):
        result = gape(*command)
        shown.append(result.stdout + result.stderr)
    assert "PWNED" in shown[0]
    assert "PWNED" in shown[-1]
    assert not [text for text in shown if OBEYED & set(text)]


def test_no_command_writes_to_the_terminal_in_another_way() -> None:
    folder = Path(cli.__file__).parent
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            plain = called in {"Console", "typer.echo", "print", "typer.secho", "sys.stdout.write", "sys.stderr.write"}
            assert not plain or path.name == "shared.py", f"{path.name} line {getattr(node, 'lineno', 0)}: {called}"
