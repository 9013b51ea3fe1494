"""What is installed is locked, by hash, and the locks are those of pyproject.toml."""

import hashlib
import importlib.util
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
HERE = ROOT / "requirements"
LOCKS = ("dev.txt", "torch.txt", "torch-cpu.txt", "extras.txt", "oldest.txt", "uv.txt")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS: dict[str, list[str]] = PYPROJECT["project"]["optional-dependencies"]
CORE: list[str] = PYPROJECT["project"]["dependencies"]
BUILD = [line for line in (HERE / "build.in").read_text().splitlines() if not line.startswith("#")]


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


lock = script("lock")


def pinned(*names: str) -> dict[str, Version]:
    """The version of every package of these locks."""
    found = {}
    for name in names:
        for package, block in lock.pins((HERE / name).read_text()).items():
            (pin,) = Requirement(block.split("\\\n")[0]).specifier
            assert pin.operator == "==", f"{name} leaves {package} open"
            found[package] = Version(pin.version)
    return found


def unmet(asked: list[str], locked: dict[str, Version]) -> list[str]:
    """What a lock does not hold, of what is asked."""
    wrong = []
    for text in asked:
        requirement = Requirement(text)
        version = locked.get(canonicalize_name(requirement.name))
        own = requirement.name == "gape"
        if not own and (version is None or not requirement.specifier.contains(version, prereleases=True)):
            wrong.append(f"{text}, locked: {version}")
    return wrong


@pytest.mark.parametrize("name", LOCKS)
def test_every_package_of_a_lock_has_a_version_and_hashes(name: str) -> None:
    packages = lock.pins((HERE / name).read_text())
    assert packages
    for package, block in packages.items():
        lines = [line.strip(" \\") for line in block.splitlines() if not line.strip().startswith("#")]
        assert "==" in lines[0], package
        assert len(lines) > 1, f"{package} has no hash"
        assert all(re.fullmatch(r"--hash=sha256:[0-9a-f]{64}", line) for line in lines[1:]), package


@pytest.mark.parametrize("name", LOCKS)
def test_a_lock_names_no_index_and_no_place(name: str) -> None:
    text = (HERE / name).read_text()
    assert not re.search(r"://|--(index-url|extra-index-url|find-links|trusted-host)|(^|\s)/", text)


def test_the_locks_are_those_of_the_project() -> None:
    again = "run python requirements/lock.py"
    dev = [*CORE, *EXTRAS["dev"], *EXTRAS["plot"], *EXTRAS["tools"], *BUILD, *PYPROJECT["build-system"]["requires"]]
    assert unmet(dev, pinned("dev.txt", "torch.txt")) == [], again
    assert unmet([*CORE, *(each for extra in lock.EXTRAS for each in EXTRAS[extra])], pinned("extras.txt")) == [], again
    assert pinned("torch-cpu.txt")["torch"].public == str(pinned("torch.txt")["torch"]), again


def test_what_is_pinned_for_developing_is_allowed_to_users() -> None:
    locked = pinned("dev.txt", "torch.txt")
    assert unmet([each for extra in ("plot", "hf", "st", "ray") for each in EXTRAS[extra]], locked) == []


def test_only_the_lock_of_torch_has_libraries_for_gpus() -> None:
    assert [package for package in pinned("dev.txt") if lock.FOR_GPUS.match(package)] == []


def test_the_oldest_environment_has_the_least_versions_that_are_allowed() -> None:
    locked = pinned("oldest.txt")
    allowed = [*CORE, *(each for extra in ("plot", "hf", "st", "ray", "tools") for each in EXTRAS[extra])]
    assert unmet(allowed, locked) == []
    assert unmet(lock.least(), locked) == [], "run python requirements/lock.py"


def test_the_least_version_is_the_lower_bound() -> None:
    bounds = {canonicalize_name(Requirement(text).name): Requirement(text).specifier for text in CORE}
    least = {Requirement(text).name: str(Requirement(text).specifier) for text in lock.least()}
    for package in bounds.keys() - lock.RAISED.keys():
        (bound,) = [each.version for each in bounds[package] if each.operator == ">="]
        assert least[package] == f"=={bound}.*"
    assert set(lock.RAISED) <= set(least)


def wheel(folder: Path, content: str) -> str:
    """Make a package of one module, and return its hash."""
    path = folder / "tiny-1.0-py3-none-any.whl"
    info = "tiny-1.0.dist-info"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tiny.py", content)
        archive.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize(("installer", "says"), [("uv", "Hash mismatch"), ("pip", "DO NOT MATCH THE HASHES")])
def test_a_file_that_is_not_the_one_that_was_locked_is_not_installed(installer: str, says: str, tmp_path: Path) -> None:
    program = {"pip": [sys.executable, "-m", "pip"], "uv": [shutil.which("uv") or "", "pip"]}[installer]
    if not program[0]:
        pytest.skip("./check brings uv")
    (options,) = re.findall(r"locked\(\) {\n +set -- (.*) \"\$@\"", (ROOT / "check").read_text())
    locked = tmp_path / "lock.txt"
    locked.write_text(f"tiny==1.0 --hash=sha256:{wheel(tmp_path, 'GOOD = True')}\n")
    command = [*program, "install", *options.split(), "--no-cache-dir", "--no-index", "--find-links", str(tmp_path)]

    subprocess.run([*command, "--target", str(tmp_path / "good"), "-r", str(locked)], capture_output=True, check=True)
    assert (tmp_path / "good" / "tiny.py").read_text() == "GOOD = True"

    wheel(tmp_path, "GOOD = False")
    install = [*command, "--target", str(tmp_path / "other"), "-r", str(locked)]
    refused = subprocess.run(install, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert says in refused.stderr
    assert not (tmp_path / "other" / "tiny.py").exists()
