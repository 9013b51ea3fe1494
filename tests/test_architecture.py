"""Imports point downward only, and exact counts are read in one place."""

import ast
from pathlib import Path

import gape

SOURCE = Path(gape.__file__).parent

# A module may import modules of its own layer and of lower ones. Packages are listed by their folder.
LAYERS = [
    {"types", "errors", "_compiled", "_silence", "parallel"},
    {
        "protocols",
        "geometry",
        "clustering",
        "copies",
        "fingerprint",
        "files",
        "databases",
        "ownership",
        "memory",
        "values",
    },
    {
        "privacy",
        "voting",
        "selection",
        "plan",
        "state",
        "language",
        "weights",
        "prompts",
        "cleaning",
        "data",
        "metrics",
        "diagnostics",
    },
    {"evolve", "last_pass", "labels", "presets", "theory", "generators", "embedders", "settings", "advice"},
    {"run_folder", "reach", "record", "run", "export", "plots", "cluster"},
    {
        "writers",
        "rules",
        "private",
        "assembly",
        "progress",
        "text_folder",
        "embedding",
        "synthesize",
        "expand",
        "evaluate",
        "report",
        "federated",
    },
    {"demos", "compare", "audit"},
    {"cli", "__init__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}

# Within a layer, who may import whom: (importer, imported).
SIDEWAYS = {
    ("clustering", "geometry"),
    ("privacy", "voting"),  # the release step counts votes and checks points
    ("plan", "privacy"),  # a plan knows the noise its guarantee needs
    ("selection", "voting"),  # which centre a candidate is nearest to
    ("metrics", "selection"),  # exact W1 is a flow, and the flow is there
    ("metrics", "voting"),  # nearest points
    ("prompts", "language"),  # topics are asked of a model
    ("presets", "theory"),  # their parameters are the theorems'
    ("run", "run_folder"),
    ("record", "run_folder"),
    ("export", "record"),
    ("rules", "writers"),
    ("assembly", "writers"),
    ("assembly", "rules"),
    ("assembly", "private"),
    ("text_folder", "private"),
    ("synthesize", "private"),
    ("text_folder", "assembly"),
    ("synthesize", "assembly"),
    ("synthesize", "rules"),
    ("synthesize", "writers"),
    ("synthesize", "progress"),
    ("synthesize", "text_folder"),
    ("embedding", "assembly"),
    ("embedding", "text_folder"),
    ("expand", "assembly"),
    ("expand", "rules"),
    ("expand", "writers"),
    ("expand", "text_folder"),
    ("evaluate", "assembly"),
    ("evaluate", "text_folder"),
    ("evaluate", "writers"),
    ("report", "evaluate"),
    ("report", "assembly"),
    ("report", "text_folder"),
    ("report", "writers"),
}


def modules() -> list[tuple[Path, str]]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found.append((path, parts[0]))
    return found


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "gape":
            parts = (node.module or "").split(".")
            names |= {parts[1]} if len(parts) > 1 else {alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            names |= {alias.name.split(".")[1] for alias in node.names if alias.name.startswith("gape.")}
    return names


def test_every_module_has_a_layer() -> None:
    assert {name for _, name in modules()} <= set(LEVEL)


def test_imports_point_downward() -> None:
    wrong = []
    for path, name in modules():
        for target in imported(path) - {name, "__version__"}:
            lower = LEVEL[target] < LEVEL[name] and target not in {"generators", "embedders"}
            outer = LEVEL[name] >= LEVEL["run"] and LEVEL[target] < LEVEL[name]
            if not (lower or outer or (name, target) in SIDEWAYS):
                wrong.append(f"{path.relative_to(SOURCE)} imports {target}")
    assert not wrong


def test_only_the_release_step_asks_for_exact_counts() -> None:
    readers = set()
    for path, _ in modules():
        for node in ast.walk(ast.parse(path.read_text())):
            asks = isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "count" and len(node.args) == 2
            if asks or (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "nearest_votes"):
                readers.add(str(path.relative_to(SOURCE)))
    # A worker of a cluster counts its share for the release, and a device of a federation adds its own noise.
    assert readers == {"privacy/release.py", "cluster/station.py", "federated/device.py"}


def test_no_module_is_longer_than_can_be_read_in_one_sitting() -> None:
    long = {str(path.relative_to(SOURCE)) for path, _ in modules() if len(path.read_text().splitlines()) > 400}
    assert not long
