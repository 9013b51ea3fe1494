"""What the threat model promises is held by tests that exist, and every part of it names some."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = ("threat-model.md", "reliability.md")
NAMED = re.compile(r"`(tests/[\w/]+\.py)::([\w:]+)`")


def named_in(path: Path) -> set[str]:
    """The tests of a file, those in classes with the class's name."""
    tree = ast.parse(path.read_text())
    found = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    for each in tree.body:
        if isinstance(each, ast.ClassDef):
            found |= {f"{each.name}::{node.name}" for node in each.body if isinstance(node, ast.FunctionDef)}
    return {name for name in found if name.split("::")[-1].startswith("test_")}


@pytest.mark.parametrize("page", PAGES)
def test_every_test_that_is_named_exists(page: str) -> None:
    named = NAMED.findall((ROOT / "docs" / page).read_text())
    assert len(named) >= 3
    missing = [f"{file}::{name}" for file, name in named if name not in named_in(ROOT / file)]
    assert missing == []


def test_every_promise_names_a_test() -> None:
    """Each point of the threat model but those that promise nothing."""
    text = (ROOT / "docs" / "threat-model.md").read_text()
    points = re.findall(r"^- (.*?)(?=^- |^## |\Z)", text, flags=re.DOTALL | re.MULTILINE)
    assert len(points) > 30
    bare = [point for point in points if not NAMED.search(point) and not point.startswith("**Not protected:**")]
    assert bare == []


def test_nothing_that_is_read_can_run() -> None:
    """No module opens a format that holds code or runs a text; workers of a cluster exchange objects of their own."""
    source = ROOT / "src" / "gape"
    found = []
    for path in (path for path in source.rglob("*.py") if "cluster" not in path.relative_to(source).parts):
        for node in ast.walk(ast.parse(path.read_text())):
            names = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            names |= {node.module or ""} if isinstance(node, ast.ImportFrom) else set()
            runs = isinstance(node, ast.Call) and getattr(node.func, "id", "") in {
                "eval",
                "exec",
                "compile",
                "__import__",
            }
            trusted = {"allow_pickle", "trust_remote_code", "shell"}
            trusts = (
                isinstance(node, ast.keyword)
                and node.arg in trusted
                and getattr(node.value, "value", None) is not False
            )
            if runs or trusts or names & {"pickle", "marshal", "shelve", "dill", "cloudpickle", "joblib", "yaml"}:
                found.append(f"{path.relative_to(source)} line {getattr(node, 'lineno', 0)}")
    assert found == []
