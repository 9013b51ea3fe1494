"""The documentation: every block runs, every link leads somewhere, the reference is that of the code, the site builds.

Commands and calls run as printed but for their size: where no generator is named, a corpus or a tiny model writes, and
samples and rounds are few.
"""

import importlib.util
import pkgutil
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gape as public
from command import gape

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page.name for page in DOCS.glob("*.md"))
LONG = ("cluster.md", "compare.md")  # in test_long_pages.py, so that another process can run them
ELSEWHERE = {"tutorial.md", "index.md"}  # test_tutorial.py runs the commands whose output a page shows

TINY = "tiny.gguf"  # a language model of 1 MB in place of the default one, in the folder of the pages
SMALL = {"generator": "corpus:public.csv", "samples": 4, "rounds": 1, "scales": "0.4"}
SMALL_FLAGS = [part for name, value in SMALL.items() for part in (f"--{name}", str(value))]
SIZES = {"--samples", "--rounds"}  # whatever is printed, the smaller one is given after it, and counts
EXTRA = {
    "run": SMALL_FLAGS,
    "plan": SMALL_FLAGS,
    "compare": [*SMALL_FLAGS, "--seeds", "2", "--jobs", "1", "--held-out", "0.3"],
}
SMALLER = {
    "EmbeddedModel(fetch(SMOLLM2))": "EmbeddedModel(fetch(SMOLLM2) and tiny)",
    'folder="runs/in-python")': 'folder="runs/in-python", generator="corpus:public.csv", samples=4, rounds=1)',
    '"samples": 200})': '"samples": 20, "rounds": 2})',
    "epsilon=4, samples=4, rounds=1)": 'epsilon=4, samples=4, rounds=1, generator="corpus:public.csv")',
    "epsilon=1, samples=100, progress": 'epsilon=1, samples=4, rounds=1, generator="corpus:public.csv", progress',
    "epsilon=1, samples=100)": 'epsilon=1, budget_epsilon=9, samples=4, rounds=1, generator="corpus:public.csv")',
    "rounds=6, samples=100, scales=(0.2, 0.5, 0.8), copies=2": "rounds=1, samples=3, scales=(0.3,), copies=1",
}


def blocks(page: str) -> list[tuple[str, str]]:
    """The blocks of a page that are Python, and those of commands, in order."""
    found = re.findall(r"^```([^\n]*)\n(.*?)^```$", (DOCS / page).read_text(), flags=re.DOTALL | re.MULTILINE)
    return [(kind, text) for kind, text in found if kind == "python" or (not kind and text.startswith("gape "))]


def execute(command: str) -> None:
    """Run a command as printed, smaller."""
    words = shlex.split(command, comments=True)[1:]
    if words[0] in {"run", "compare"}:
        for ledger in Path().glob("*.gape-ledger.sqlite"):  # every run of a page is the first on its data
            ledger.unlink()
    extra = EXTRA.get(words[0], [])
    given = {word for word in words if word.startswith("--")}
    pairs = {flag: value for flag, value in zip(extra[::2], extra[1::2], strict=True) if flag not in given - SIZES}
    if "reviews.toml" in words and "--generator" in pairs:
        pairs["--generator"] = f"embedded:{TINY}"  # the texts of a table need a model
    elif {"--schema", "--modality"} & given:
        pairs.pop("--generator", None)  # a corpus of texts has no part in a table
    result = gape(*words, *(part for pair in pairs.items() for part in pair))
    assert result.exit_code == 0, f"{command}: {result.stderr or result.exception!r}"


def smaller(code: str) -> str:
    for printed, instead in SMALLER.items():
        code = code.replace(printed, instead)
    return code


def run_blocks(page: str) -> None:
    """Run the blocks of a page one after the other, in the folder that this process is in."""
    known: dict[str, Any] = {"tiny": Path(TINY)}
    execute("gape run reviews.csv --text review --epsilon 4 --out runs/reviews")
    for kind, text in blocks(page):
        if kind == "python":
            exec(compile(smaller(text), page, "exec"), known)  # noqa: S102  (it is ours)
        else:
            for command in text.replace("\\\n", " ").splitlines():
                if command.strip():
                    execute(command)


@pytest.mark.parametrize("page", [page for page in PAGES if blocks(page) and page not in {*LONG, *ELSEWHERE}])
@pytest.mark.usefixtures("here")
def test_every_block_runs(page: str) -> None:
    run_blocks(page)


def test_the_reference_of_the_command_line_is_that_of_the_code() -> None:
    spec = importlib.util.spec_from_file_location("cli_reference", DOCS / "cli_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (DOCS / "cli.md").read_text() == module.reference(), "run python docs/cli_reference.py"


def test_the_reference_of_the_python_api_has_every_public_name_once() -> None:
    named = re.findall(
        r"^\.\. auto(?:class|function|exception):: (\w+)(?:\(.*\))?$", (DOCS / "api.md").read_text(), flags=re.MULTILINE
    )
    assert sorted(named) == sorted(public.__all__)


def test_every_file_that_the_notation_names_exists() -> None:
    named = re.findall(r"`([\w/]+\.(?:py|toml))`", (DOCS / "notation.md").read_text())
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "src" / "gape" / name).exists()] == []


def exists(name: str) -> bool:
    """Whether a name of the page on the paper is a command, a flag, a file, a folder, or a public Python name."""
    if name.startswith(("gape ", "--")):
        return True
    if "/" in name:
        return (ROOT / name).exists() or (ROOT / "src" / "gape" / name).exists()
    try:
        pkgutil.resolve_name(name)
    except (AttributeError, ImportError, ValueError):
        return False
    return name.startswith("gape.")


def test_everything_that_the_page_on_the_paper_names_exists() -> None:
    named = re.findall(r"`([^`]+)`", (DOCS / "paper.md").read_text())
    assert len(named) > 60
    assert [name for name in named if not exists(name)] == []
    missing = ("experiments/none", "evolution/none.py", "gape.Gape.none", "gape.none.contraction", "contraction")
    assert not any(exists(name) for name in missing)


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    made = subprocess.run(
        [sys.executable, "-m", "sphinx", "-q", "-W", "--keep-going", DOCS, tmp_path / "site"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr
    for page in PAGES:
        assert (tmp_path / "site" / page).with_suffix(".html").exists()
