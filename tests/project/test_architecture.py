"""Imports point downward only, nothing heavy is imported early, and exact counts are read in one place."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import gape

SOURCE = Path(gape.__file__).parent

# The packages, lowest floor first. A module imports from its own package and from lower floors, and nothing else.
FLOORS = [
    {"core"},
    {"_support"},
    {"voting"},
    {"privacy", "selection"},
    {"evolution", "language"},
    {"embedders"},
    {"generators"},
    {"metrics"},
    {"modalities"},
    {"distributed"},
    {"runs"},
    {"audit", "evaluation"},
    {"report"},
    {"cli"},
]
FLOOR = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms}
HEAVY = {"httpx", "matplotlib", "numba", "numpy", "onnxruntime", "opendp", "pyarrow", "scipy", "torch", "xllamacpp"}


def modules() -> list[Path]:
    return sorted(SOURCE.rglob("*.py"))


def room_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0]


def imported(path: Path) -> set[str]:
    """The modules of the package that a file imports anywhere, without the package's name in front."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return {name.removeprefix("gape.") for name in names if name.startswith("gape.")} - {"__version__"}


def test_every_module_is_in_a_room() -> None:
    assert {entry.name for entry in SOURCE.iterdir() if entry.name != "__pycache__"} == {
        *FLOOR,
        "__init__.py",
        "__main__.py",
        "py.typed",
    }


def test_imports_point_downward() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)} imports {name}"
        for path in modules()
        if (room := room_of(path)) in FLOOR
        for name in imported(path)
        if (target := name.split(".")[0]) != room and FLOOR[target] >= FLOOR[room]
    ]
    assert not wrong


def test_nobody_outside_asks_which_modality_it_is() -> None:
    """Neither by importing one, nor by comparing its name; `load_texts` alone is public for texts as such."""
    for path in modules():
        if room_of(path) == "modalities" or path.name == "__init__.py":
            continue
        names = {name.removeprefix("modalities.") for name in imported(path) if name.startswith("modalities.")}
        assert not names & {"Rows", "Text", "Vectors", "Schema", "load_rows"}, path
        assert not {name for name in names if name.startswith(("rows.", "text.", "vectors."))}, path
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Compare):
                literals = {part.value for part in ast.walk(node) if isinstance(part, ast.Constant)}
                assert "modality" not in ast.unparse(node) or not literals & {"text", "rows", "vectors"}, path


def test_one_module_knows_the_layout_of_a_run_folder() -> None:
    names = {"internal", "release", "settings.json", "synthetic.parquet", "candidates.parquet"}
    spelled = {
        str(path.relative_to(SOURCE))
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div)
        if isinstance(node.right, ast.Constant) and node.right.value in names
    }
    assert spelled == {"runs/folder/layout.py"}


def test_the_machinery_of_flows_knows_nothing_of_the_rules_in_front_of_it() -> None:
    names = {name for path in (SOURCE / "selection" / "flow").glob("*.py") for name in imported(path)}
    assert not {name for name in names if name.startswith("selection.") and not name.startswith("selection.flow.")}


def test_the_public_names_are_those_of_the_table_and_of_the_type_checker() -> None:
    source = ast.parse((SOURCE / "__init__.py").read_text())
    (typed,) = (node for node in source.body if isinstance(node, ast.If))
    imports = [node for node in typed.body if isinstance(node, ast.ImportFrom)]
    seen = {alias.name: (node.module or "").removeprefix("gape.") for node in imports for alias in node.names}
    assert seen == gape._MODULE_OF
    assert sorted(seen) == sorted(gape.__all__)
    assert set(gape.__all__) <= set(dir(gape))
    for name in gape.__all__:
        assert getattr(gape, name).__name__ == name
    with pytest.raises(AttributeError, match="nothing_of_the_kind"):
        gape.nothing_of_the_kind  # noqa: B018  (asking is enough)


@pytest.mark.parametrize("code", ["import gape", "from gape.cli import app; app(['--help'], standalone_mode=False)"])
def test_nothing_heavy_is_imported_before_it_is_needed(code: str) -> None:
    asked = f"import sys; {code}; print('HEAVY', *sys.modules)"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, check=True)
    assert not HEAVY & set(done.stdout.rpartition("HEAVY")[2].split())


def test_only_the_release_step_asks_for_exact_counts() -> None:
    readers, counters = set(), set()
    for path in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            asks = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "count" and len(node.args) == 2
            if asks or (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "nearest_votes"):
                readers.add(str(path.relative_to(SOURCE)))
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "electorate.answer":
                readers.add(str(path.relative_to(SOURCE)))
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "questions.tally":
                counters.add(str(path.relative_to(SOURCE)))
    assert counters == {"voting/electorate.py", "voting/streamed.py"}
    # A worker of a cluster counts its share for the release, and a device of a federation adds its own noise.
    assert readers == {
        "privacy/release.py",
        "distributed/cluster/station.py",
        "distributed/federated/device.py",
    }


def test_no_module_is_longer_than_can_be_read_in_one_sitting() -> None:
    long = {str(path.relative_to(SOURCE)) for path in modules() if len(path.read_text().splitlines()) > 400}
    assert not long
