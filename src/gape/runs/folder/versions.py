"""The versions of packages that made a run, recorded with it, so that a later difference can be explained."""

import re
import sys
import warnings
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# Packages whose version affects the result: always, and if the process has loaded them.
_DECISIVE = ("numpy", "scipy", "numba", "opendp")
_WHERE_LOADED = (
    *("onnxruntime", "tokenizers", "xllamacpp", "openvino_genai"),
    *("torch", "transformers", "sentence_transformers"),
)
WORD = re.compile(r"[\w.+!-]{1,60}")  # a name or a version; both appear in reports


class VersionWarning(UserWarning):
    """A run is resumed with other versions than those that made it so far."""


@dataclass(frozen=True)
class Versions:
    """The versions that made a run from some round on: of this package, and of those that affect the result."""

    since: int  # the first round that they made; 0 is the start
    packages: dict[str, str]

    def changed(self, now: dict[str, str]) -> list[str]:
        """Name the packages that have another version now."""
        return [name for name, old in self.packages.items() if now.get(name, old) != old]


def continued(before: Sequence[Versions], path: Path, *, finished: bool, since: int) -> list[Versions]:
    """Add the current versions to those that made the run in `path` so far, if they differ and it is unfinished."""
    now = _versions_now()
    changed = before[-1].changed(now) if before else []
    if finished or (before and not changed):
        return list(before)
    if changed:
        old, new = (
            ", ".join(f"{name} {packages[name]}" for name in changed) for packages in (before[-1].packages, now)
        )
        warnings.warn(
            f"{path} was made with {old} so far and is resumed with {new}; complete rounds stay unchanged, "
            "and later ones may differ from what they would have been",
            VersionWarning,
            stacklevel=4,
        )
    return [*before, Versions(since, now)]


def versions_in_words(versions: Sequence[Versions]) -> str:
    """List the versions that made a run, and the rounds from which on they changed."""
    parts = []
    for index, current in enumerate(versions):
        names = versions[index - 1].changed(current.packages) if index else list(current.packages)
        since = f"from round {current.since} on " if current.since else ""
        parts.append(since + ", ".join(f"{name} {current.packages[name]}" for name in names))
    return "; ".join(parts)


def _versions_now() -> dict[str, str]:
    from gape import __version__  # noqa: PLC0415  (the package imports this module)

    versions = {"gape": __version__}
    for name in (*_DECISIVE, *(name for name in _WHERE_LOADED if name in sys.modules)):
        with suppress(PackageNotFoundError):
            versions[name] = _installed(name)
    return versions


@cache  # because a package's description is long, and stays the same while it is loaded
def _installed(name: str) -> str:
    return version(name)


def versions_in(settings: dict[str, Any]) -> list[Versions]:
    """Read the versions in what a run recorded when it began; raise for what no run writes."""
    recorded = settings.get("versions", [])
    versions = [Versions(int(entry["since"]), dict(entry["packages"])) for entry in recorded]
    words = (word for entry in versions for pair in entry.packages.items() for word in pair)
    if not all(WORD.fullmatch(word) for word in words) or not all(entry.packages for entry in versions):
        raise ValueError("versions")
    return versions
