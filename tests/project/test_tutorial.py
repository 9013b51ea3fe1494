"""The tutorial runs, at a smaller size, and prints what its pages show, numbers and texts aside.

The noise is never seeded, so two runs print different numbers and texts. `shape` masks these and keeps the words.
"""

import csv
import importlib.util
import re
import shlex
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import pytest

from command import gape
from gape.language import embedded

ROOT = Path(__file__).parents[2]
SMALLER = ("--samples", "3", "--rounds", "2", "--scales", "0.6", "--words", "12")
RECORDS = 150  # kept of each file once the plan is shown, which says how many there are; embedding them takes longest
SMALLER_CALL = {
    "words=40": "words=12",
    "samples=24": "samples=3",
    "rounds=4": "rounds=1",
    "scales=(0.6, 0.9)": "scales=(0.6,)",
}


@pytest.fixture(scope="module")
def writer() -> ModuleType:
    """The script that writes the output into the pages."""
    spec = importlib.util.spec_from_file_location("write_tutorial", ROOT / "docs" / "write_tutorial.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclass looks itself up
    spec.loader.exec_module(module)
    return module


def keep_few(folder: Path) -> None:
    """Cut the files of texts to their first records."""
    for path in folder.glob("*.csv"):
        with path.open(newline="") as file:
            rows = list(csv.reader(file))
        assert len(rows) > RECORDS
        with path.open("w", newline="") as file:
            csv.writer(file).writerows(rows[: RECORDS + 1])


@pytest.fixture(scope="module")
def outputs(writer: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What each command of the tutorial prints, smaller, and that its Python runs."""
    folder = tmp_path_factory.mktemp("tutorial")
    page = writer.TUTORIAL.read_text()
    printed = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("COLUMNS", str(writer.WIDTH))
        patch.setattr(embedded, "_start", cache(embedded._start))  # one model for all commands
        writer.prepare(folder)
        for command in writer.commands(page):
            words = shlex.split(command)[1:]
            smaller = SMALLER if words[0] == "run" else ()
            if words[0] == "run":
                keep_few(folder)
            if words[0] == "expand":
                words[words.index("--count") + 1] = "4"
            result = gape(*words, *smaller)
            assert result.exit_code == 0, f"{command}: {result.stderr or result.exception!r}"
            printed[command] = result.stdout
        _, last = [content for language, content in writer.blocks(page) if language == "python"]
        for shown, instead in SMALLER_CALL.items():
            assert shown in last
            last = last.replace(shown, instead)
        exec(compile("import gape\n" + last, "tutorial.md", "exec"), {})  # noqa: S102  (it is ours)
    return printed


def shape(output: str) -> list[str]:
    """The words of an output without numbers, texts and line breaks; of tables, those of the heads and first column."""
    heads: set[str] = set()
    prose: list[str] = []
    for line in output.splitlines():
        if line.startswith("┃"):
            heads |= set(line.replace("┃", " ").split())
        elif line.startswith("│"):
            heads |= {word for word in line.split("│")[1].split() if not word.isdecimal()}
        elif not line.startswith(("┏", "┡", "└", "├")):
            prose.append(line)
    words = re.sub(r"for instance: .*?(?= Privacy |$)", "for instance:", " ".join(" ".join(prose).split()))
    words = re.sub(r"(?<=ledger )[0-9a-f]{12}", "#", words)
    words = re.sub(r"(?<= versions )gape .*?(?= spent )", "gape", words)  # with what this process has loaded
    words = re.sub(r"\b\d[\d,.e-]*(?<![,.])", "#", words)
    words = re.sub(r"#(, #)+", "#", words)
    words = re.sub(r"\b(samples|texts)\b", lambda match: match[1][:-1], words)
    return [*sorted(heads), *words.split()]


def test_every_page_shows_what_the_commands_print(writer: ModuleType, outputs: dict[str, str]) -> None:
    compared = 0
    for page in writer.PAGES:
        for shown in writer.shown(page.read_text()):
            now = writer.select(outputs[shown.command], shown.selected)
            assert shape(shown.output) == shape(now), f"{page.name}: {shown.command}; run docs/write_tutorial.py"
            compared += 1
    assert compared >= 9


def test_a_plan_is_shown_to_the_letter(writer: ModuleType, outputs: dict[str, str]) -> None:
    """It has no noise: all but the time, which depends on the machine."""
    plans = [shown for shown in writer.shown(writer.TUTORIAL.read_text()) if shown.command.startswith("gape plan")]
    assert plans
    for shown in plans:
        now = writer.select(outputs[shown.command], shown.selected)
        assert re.sub(r"about [\d.]+ \w+ on", "", shown.output) == re.sub(r"about [\d.]+ \w+ on", "", now)


@pytest.mark.parametrize(
    ("changed", "instead"),
    [("recall", "reminder"), ("differentially private", "private"), ("4 of 4 done", "4 of 4")],
)
def test_other_words_are_noticed(writer: ModuleType, outputs: dict[str, str], changed: str, instead: str) -> None:
    everything = "\n".join(shown.output for shown in writer.shown(writer.TUTORIAL.read_text()))
    assert changed in everything
    assert shape(everything) != shape(everything.replace(changed, instead))


def test_numbers_and_texts_may_differ(writer: ModuleType) -> None:
    printed = "3 synthetic texts, for instance:\n- Why is it so?\n\nPrivacy\n(3.998, 0.00014)-private: 4 releases"
    other = "24 synthetic texts, for instance:\n- How do you\n  do it?\n\nPrivacy\n(1.2, 1e-05)-private: 2 releases"
    assert shape(printed) == shape(other)
