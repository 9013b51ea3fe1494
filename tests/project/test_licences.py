"""What the project brings is under licences that it allows, and docs/licences.md says which."""

import importlib.util
import re
from importlib.metadata import Distribution
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement

from gape.language.weights import KNOWN

ROOT = Path(__file__).parents[2]
AGAIN = "run python requirements/licences.py"


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "requirements" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


licences, lock = script("licences"), script("lock")
PAGE: str = licences.PAGE.read_text()
HERE = ("core", *licences.HERE_BY_CHECK)


def listed() -> dict[tuple[str, str], tuple[str, str]]:
    """The packages of the page: (name, version) -> (licence, who brings it)."""
    found = re.findall(r"^\| (\S+) \| (\d\S*) \| (.+) \| (.+) \|$", PAGE, flags=re.MULTILINE)
    return {(name, version): (licence, who) for name, version, licence, who in found}


def package(folder: Path, *lines: str) -> Distribution:
    """Something installed, with these lines in its metadata."""
    info = folder / "tiny-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("\n".join(["Metadata-Version: 2.4", "Name: tiny", "Version: 1.0", *lines]) + "\n")
    return Distribution.at(info)


def test_every_licence_of_this_environment_is_allowed() -> None:
    found = licences.environment(licences.HERE_BY_CHECK) | licences.for_gpus()
    assert len(found["core"]) > 20
    assert [sentence for packages in found.values() for sentence in licences.refusals(packages)] == []


def test_the_page_says_what_is_installed() -> None:
    page = {
        key: (licence, ", ".join(each for each in who.split(", ") if each in HERE))
        for key, (licence, who) in listed().items()
    }
    wrong = {
        key: (row, page.get(key))
        for key, row in licences.rows(licences.environment(licences.HERE_BY_CHECK)).items()
        if page.get(key) != row
    }
    assert wrong == {}, AGAIN


def test_the_page_lists_what_is_locked() -> None:
    machine = {"sys_platform": "linux", "platform_system": "Linux", "platform_machine": "x86_64"}
    python = {"python_version": "3.11", "python_full_version": "3.11.7", "platform_python_implementation": "CPython"}
    locked = set()
    for name in ("dev.txt", "torch.txt", "extras.txt"):
        for block in lock.pins((ROOT / "requirements" / name).read_text()).values():
            requirement = Requirement(block.split("\\\n")[0])
            if requirement.marker is None or requirement.marker.evaluate({**machine, **python}):
                locked.add((requirement.name, str(requirement.specifier).removeprefix("==")))
    assert listed().keys() == locked, AGAIN


def test_the_rest_of_the_page_is_that_of_the_script() -> None:
    assert licences.page(listed()) == PAGE, AGAIN


def test_the_licences_of_the_models_are_allowed_and_listed() -> None:
    for weights in KNOWN.values():
        assert licences.allowed(weights.licence)
        assert f"| {weights.name} | {weights.parts[0].package} {weights.parts[0].version} | {weights.licence} |" in PAGE


@pytest.mark.parametrize(
    "licence",
    [
        "MIT",
        "Apache-2.0 OR GPL-3.0-only",
        "MIT AND (GPL-2.0-only OR BSD-3-Clause)",
        "(Apache-2.0 WITH LLVM-exception) AND MIT",
    ],
)
def test_what_can_be_met_is_allowed(licence: str) -> None:
    assert licences.allowed(licence)


@pytest.mark.parametrize(
    "licence",
    [
        "",
        "GPL-3.0-or-later",
        "LGPL-2.1-only",
        "AGPL-3.0-only OR SSPL-1.0",
        "MIT AND GPL-3.0-only",
        "MIT AND (GPL-3.0-only OR LGPL-3.0-only)",
        "Apache-2.0 WITH Commons-Clause",
        "Proprietary",
    ],
)
def test_what_cannot_is_refused(licence: str) -> None:
    assert not licences.allowed(licence)


@pytest.mark.parametrize(
    ("lines", "licence"),
    [
        (["License-Expression: MIT", "License: GPL"], "MIT"),
        (["License: Apache 2.0"], "Apache-2.0"),
        (["License: OSI Approved :: Apache Software License"], "Apache-2.0"),
        (["License: UNKNOWN", "Classifier: License :: OSI Approved :: MIT License"], "MIT"),
        (["License: BSD", "Classifier: License :: OSI Approved :: BSD License"], "BSD"),
        (
            [
                "License: The whole text",
                "        of a licence",
                "Classifier: License :: OSI Approved :: ISC License (ISCL)",
            ],
            "ISC",
        ),
        (
            [
                "Classifier: License :: OSI Approved :: MIT License",
                "Classifier: License :: OSI Approved :: GNU General Public License v3 (GPLv3)",
            ],
            "MIT AND GNU General Public License v3 (GPLv3)",
        ),
        (["Classifier: Topic :: Security"], ""),
    ],
)
def test_a_licence_is_read_from_whatever_the_metadata_says(lines: list[str], licence: str, tmp_path: Path) -> None:
    assert licences.licence_of(package(tmp_path, *lines)) == licence


def test_a_refusal_names_the_package_and_the_remedy() -> None:
    found = {"good": ("1.0", "MIT"), "bad": ("2.0", "GPL-3.0-only"), "silent": ("3.0", "")}
    bad, silent = licences.refusals(found)
    assert (
        bad
        == "bad 2.0 is under GPL-3.0-only, which is not allowed; do without it, or add it to READ if its files say more"
    )
    assert silent.startswith("silent 3.0 does not say its licence, ")


def test_a_licence_that_is_named_for_some_is_refused_to_others() -> None:
    (named,) = licences.NAMED
    assert licences.refusals({"nvidia-cublas": ("13.0", named)}) == []
    assert len(licences.refusals({"other": ("1.0", named)})) == 1
