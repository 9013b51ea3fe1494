"""Write the locks, by `python requirements/lock.py`: each names every version, and the hashes of its files.

    dev.txt         what ./check installs, but for torch: the extra dev, and what builds the project
    torch.txt       torch of the Python package index, and the libraries for GPUs that it asks for on Linux
    torch-cpu.txt   torch for the processor alone, where an index or a folder that pip is set up for has it
    extras.txt      the extras that are not in dev: bench, federated and marginals
    oldest.txt      what ./check oldest installs: the least versions that pyproject.toml allows
    uv.txt          the tool that resolves them all

Versions that are locked stay as they are, as far as pyproject.toml allows; `--upgrade` takes the newest. Nothing in a
lock names the index that it was made with.
"""

import hashlib
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
ROOT = HERE.parent

# Only torch asks for these, and its build for the processor alone does not.
FOR_GPUS = re.compile(r"(cuda|nvidia)-|triton$")

TORCH_BUILDS = "https://download.pytorch.org/whl/cpu"

EXTRAS = ("bench", "federated", "marginals")  # those that are not in dev

# Where the least version of one dependency cannot be installed beside that of another.
RAISED = {
    "tokenizers": "0.23.1",  # transformers 5.17 asks for it
}

# The locks hold on every platform and Python that is supported; the oldest, for one machine, says which.
ANYWHERE = ["--universal", "--python-version", "3.11", "--fork-strategy", "fewest"]
OLDEST = ["--resolution", "lowest-direct", "--python-version", "3.11", "--python-platform", "x86_64-manylinux_2_28"]


def pins(lock: str) -> dict[str, str]:
    """Return the packages of a lock, each with its lines: requirement, hashes, and what asks for it."""
    blocks = re.split(r"^(?=[a-z0-9])", re.sub(r"^#.*\n", "", lock, flags=re.MULTILINE), flags=re.MULTILINE)
    return {block.split("==")[0]: block for block in blocks if block.strip()}


def least() -> list[str]:
    """Return what the oldest environment holds: every dependency, in the series that its lower bound names."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    wanted = []
    for text in sum(
        (extras[name] for name in ("plot", "images", "openvino", "hf", "st", "ray", "tools")), project["dependencies"]
    ):
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        bounds = {each.operator: each.version for each in requirement.specifier}
        within = f"{bounds['==']}" if "==" in bounds else f"{RAISED.get(name, bounds.get('>='))}.*"
        wanted.append(f"{name}{''.join(f'[{extra}]' for extra in requirement.extras)}=={within}")
    return wanted


class Tools:
    """pip, as the user has set it up, and the tool that resolves, in an environment of their own."""

    def __init__(self, scratch: Path, options: list[str]) -> None:
        """Install the tool by its own lock."""
        self.scratch, self.options = scratch, options
        venv.create(scratch / "venv", with_pip=True)
        self.pip("install", "--require-hashes", "--only-binary", ":all:", "-r", str(HERE / "uv.txt"))

    def pip(self, *arguments: str) -> None:
        """Run pip."""
        python = self.scratch / "venv" / "bin" / "python"
        subprocess.run([python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments], check=True)

    def resolve(self, arguments: list[str], locked: str, wanted: str = "") -> dict[str, str]:
        """Return the lock of what is wanted, with the versions that are locked where they still serve."""
        output = self.scratch / "lock.txt"
        output.write_text(locked)
        command = [str(self.scratch / "venv" / "bin" / "uv"), "pip", "compile", *arguments, *self.options, "--quiet"]
        options = ["--prerelease", "explicit", "--generate-hashes", "--no-header", "--output-file", str(output)]
        subprocess.run([*command, *options], cwd=ROOT, input=wanted, text=True, check=True, stdout=subprocess.DEVNULL)
        return pins(output.read_text())

    def sha256(self, requirement: str) -> str:
        """Return the hash of the file that pip finds for this machine."""
        folder = self.scratch / "wheels"
        self.pip("download", "--no-deps", "--only-binary", ":all:", "--dest", str(folder), requirement)
        (wheel,) = folder.iterdir()
        with wheel.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def read(name: str) -> str:
    """Return a lock as it is, or nothing where there is none yet."""
    return (HERE / name).read_text() if (HERE / name).exists() else ""


def write(name: str, what: str, packages: dict[str, str]) -> None:
    """Write a lock."""
    head = f"# {what}\n# Written by `python requirements/lock.py`, which says how; do not edit.\n"
    (HERE / name).write_text(head + "".join(packages[package] for package in sorted(packages)))
    print(f"{name}: {len(packages)} packages")


def main(options: list[str]) -> None:
    """Write all locks."""
    with tempfile.TemporaryDirectory() as scratch:
        tools = Tools(Path(scratch), options)
        write("uv.txt", "The tool that resolves.", tools.resolve(["-", *ANYWHERE], read("uv.txt"), "uv"))

        inputs = ["pyproject.toml", "requirements/build.in", "--extra", "dev", *ANYWHERE]
        everything = tools.resolve(inputs, read("dev.txt") + read("torch.txt"))
        torch = {name for name in everything if name == "torch" or FOR_GPUS.match(name)}
        write(
            "dev.txt", "What ./check installs, but for torch.", {k: v for k, v in everything.items() if k not in torch}
        )
        write("torch.txt", "torch, with the libraries for GPUs that it asks for.", {k: everything[k] for k in torch})

        version = everything["torch"].split()[0] + "+cpu"
        before = pins(read("torch-cpu.txt")).get("torch", "")
        hashes = set(re.findall(r"sha256:(\w+)", before)) if before.startswith(f"{version} ") else set()
        try:
            hashes.add(tools.sha256(version))
        except subprocess.CalledProcessError:
            if not hashes:
                sys.exit(f"pip finds no {version}; name an index that has it, as in PIP_EXTRA_INDEX_URL={TORCH_BUILDS}")
        lines = " \\\n    ".join([version, *(f"--hash=sha256:{each}" for each in sorted(hashes))])
        write("torch-cpu.txt", "torch for the processor alone, as far as its files are known.", {"torch": lines + "\n"})

        inputs = ["pyproject.toml", *(part for name in EXTRAS for part in ("--extra", name)), *ANYWHERE]
        write("extras.txt", "The extras that are not in dev.", tools.resolve(inputs, read("extras.txt")))

        oldest = tools.resolve(["-", "requirements/build.in", *OLDEST], read("oldest.txt"), "\n".join(least()))
        write("oldest.txt", "The least versions that pyproject.toml allows, on Linux x86_64 with Python 3.11.", oldest)


if __name__ == "__main__":
    main(sys.argv[1:])
