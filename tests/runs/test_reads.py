"""Each command reads the settings and the schema of a run once."""

import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from command import gape as command
from gape.modalities import registry
from gape.modalities.rows import schema

SCHEMA = """
[age]
least = 0
most = 100

[kind]
choices = ["cat", "dog", "owl"]
"""

_counting: list[Counter[str]] = []


def _note(event: str, arguments: tuple[object, ...]) -> None:
    if _counting and event == "open" and isinstance(arguments[0], str) and arguments[0].endswith(".toml"):
        _counting[-1][arguments[0]] += 1


sys.addaudithook(_note)  # cannot be removed, but counts only inside `opened`


@contextmanager
def opened() -> Iterator[Counter[str]]:
    """Count how often each TOML file is opened, with an empty cache of schemas, as in a new process."""
    registry._opened.cache_clear()
    schema._tables.cache_clear()
    _counting.append(Counter())
    try:
        yield _counting[-1]
    finally:
        _counting.pop()


def reads(run: Path, *arguments: object) -> tuple[int, int, int]:
    """Run a command; return how often it opens the settings, the schema of the folder, and that of the user."""
    with opened() as counted:
        result = command(*arguments)
    assert result.exit_code == 0, result.output
    internal, own = run / "internal", run.parent / "pets.toml"
    return counted[str(internal / "settings.toml")], counted[str(internal / "schema.toml")], counted[str(own)]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GAPE_STATE", str(tmp_path / "state"))
    rows = "".join(f"{37 * i % 101},{('cat', 'dog', 'owl')[i % 7 % 3]}\n" for i in range(120))
    (tmp_path / "pets.csv").write_text("age,kind\n" + rows)
    (tmp_path / "pets.toml").write_text(SCHEMA)
    return tmp_path


def stop(run: Path, last: int) -> None:
    """Take a run back to where the votes of its last round are paid for and not used yet."""
    shutil.rmtree(run / "release")
    for name in ("votes.parquet", "selection.json", "synthetic.parquet"):
        (run / "internal" / "rounds" / f"{last:03d}" / name).unlink()


def test_settings_and_schema_are_read_once_per_command(here: Path) -> None:
    data, run = here / "pets.csv", here / "run"
    flags = ("--schema", here / "pets.toml", "--epsilon", 8, "--samples", 6, "--rounds", 2)
    # The user's schema is opened to be understood, and to be copied into the folder.
    assert reads(run, "run", data, *flags, "--out", run) == (0, 0, 2)
    stop(run, 2)
    assert reads(run, "run", data, *flags, "--out", run) == (1, 1, 1)  # resumes it, by settings that must be the same
    stop(run, 2)
    assert reads(run, "resume", run) == (1, 1, 0)
    for arguments in (
        ["resume", run],
        ["status", run],
        ["export", run, "--out", here / "all.csv"],
        ["expand", run, "--count", 8, "--out", here / "more.csv"],
        ["evaluate", run, "--private", data],
        ["report", run],
        ["report", run, "--internal"],
        ["audit", run],
    ):
        found = reads(run, *arguments)
        assert found[0] == 1, arguments
        assert found[1] <= 1, arguments
        assert found[2] == 0, arguments
