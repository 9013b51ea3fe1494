"""Run the commands of the tutorial and write their real output into the pages that show it.

Run it by hand, as `python docs/write_tutorial.py`, after a change to what the commands print. It takes some minutes,
needs Chromium for the picture of the report, and updates docs/tutorial.md, docs/index.md and README.md.
`tests/project/test_tutorial.py` runs the same commands at a smaller size and compares the output with the pages.

A page shows output in a `text` block that follows a block with one command. A comment before the `text` block selects
tables by their title (`output: Nearness, Round by round`) or lines by their number (`output: lines 2-4`).
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
TUTORIAL = ROOT / "docs" / "tutorial.md"
PAGES = (TUTORIAL, ROOT / "docs" / "index.md", ROOT / "README.md")
IMAGES = ROOT / "docs" / "images"
WIDTH = 88  # columns of output: what fits on a page of the site
MARGIN = 20  # pixels beside a picture

_BLOCK = re.compile(r"^```([a-z]*)\n(.*?)^```$", flags=re.DOTALL | re.MULTILINE)
_SHOWN = re.compile(
    r"^```\n(?P<command>gape [^\n]*(?:\\\n[^\n]*)*)\n```\n"
    r"(?P<between>\n(?:(?:%|<!--) output: (?P<selected>[^\n]*?)(?: -->)?\n\n)?)"
    r"```text\n(?P<output>.*?)^```$",
    flags=re.DOTALL | re.MULTILINE,
)


@dataclass(frozen=True)
class Shown:
    """A command, and the part of its output that a page shows."""

    command: str
    selected: str | None
    output: str


def blocks(text: str) -> list[tuple[str, str]]:
    """Return the fenced blocks of a page, as pairs of language and content."""
    return _BLOCK.findall(text)


def commands(text: str) -> list[str]:
    """Return the `gape` commands of a page."""
    return [content.strip() for language, content in blocks(text) if not language and content.startswith("gape ")]


def shown(text: str) -> Iterator[Shown]:
    """Yield the commands of a page whose output it shows."""
    for match in _SHOWN.finditer(text):
        yield Shown(match["command"], match["selected"], match["output"])


def select(output: str, selected: str | None) -> str:
    """Return the part of an output that a page shows."""
    lines = [line.rstrip() for line in output.strip("\n").splitlines()]
    if selected is None:
        return _wrapped(lines)
    if numbers := re.fullmatch(r"lines (\d+)-(\d+)", selected):
        first, last = map(int, numbers.groups())
        return _wrapped(lines[first - 1 : last])
    kept: list[str] = []
    for title in selected.split(", "):
        start = lines.index(title)
        end = next(i for i in range(start, len(lines)) if lines[i].startswith("└"))
        kept += lines[start : end + 1]
    return _wrapped(kept)


def _wrapped(lines: list[str]) -> str:
    """Return lines with the long ones wrapped, as a terminal would show them."""
    return "".join(f"{_fill(line) if len(line) > WIDTH else line}\n" for line in lines)


def _fill(line: str) -> str:
    return textwrap.fill(line, WIDTH, subsequent_indent="  " if line.startswith("- ") else "")


def prepare(folder: Path) -> None:
    """Write the files that the tutorial begins with, by its own Python and TOML."""
    page = blocks(TUTORIAL.read_text())
    settings = next(content for language, content in page if language == "toml")
    (folder / "run.toml").write_text(settings)
    code = next(content for language, content in page if language == "python")
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)  # noqa: S603  (it is ours)


def filled(text: str, output_of: Callable[[str], str]) -> str:
    """Return a page with the output of each shown command written again."""

    def fill(match: re.Match[str]) -> str:
        output = select(output_of(match["command"]), match["selected"])
        return f"```\n{match['command']}\n```\n{match['between']}```text\n{output}```"

    return _SHOWN.sub(fill, text)


def _run(command: str, folder: Path) -> str:
    print(command, flush=True)  # noqa: T201  (it takes minutes)
    words = command.replace("\\\n", " ").split()
    environment = os.environ | {"COLUMNS": str(WIDTH), "NO_COLOR": "1"}
    made = subprocess.run(  # noqa: S603  (it is ours)
        [sys.executable, "-c", "from gape.cli import main; main()", *words[1:]],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode:
        sys.exit(f"{command}: {made.stderr}")
    return made.stdout


def _picture(report: Path, picture: Path) -> None:
    """Photograph the map of a report."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"]).new_page(
            viewport={"width": 1100, "height": 2400}
        )
        page.goto(report.as_uri())
        page.locator("#plane").focus()
        page.keyboard.press("ArrowRight")
        page.evaluate("window.scrollTo(0, 0)")  # a box is placed in the window, the picture in the page
        box = page.locator("section", has=page.locator("#plane")).bounding_box()
        if box is None:
            sys.exit(f"{report} shows no map")
        clip = {"x": box["x"] - MARGIN, "y": box["y"], "width": box["width"] + 2 * MARGIN, "height": box["height"]}
        page.screenshot(path=picture, clip=clip, full_page=True)


def main() -> None:
    """Run the tutorial and update the pages."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        prepare(folder)
        outputs = {command: _run(command, folder) for command in commands(TUTORIAL.read_text())}
        for page in PAGES:
            page.write_text(filled(page.read_text(), outputs.__getitem__))
        run = folder / "runs" / "questions"
        _picture(run / "release" / "report.html", IMAGES / "tutorial-report.png")
        shutil.copyfile(run / "internal" / "evaluation.png", IMAGES / "tutorial-evaluation.png")


if __name__ == "__main__":
    main()
