"""The settings of a run on disk, sealed by whoever wrote them.

A command reads them once. Content and seal come from the same read, so nobody can exchange one for the other.
"""

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gape._support.files import refuse_links, write_atomically
from gape._support.ownership import is_sealed, seal
from gape._support.values import brief, parse_toml, toml_bytes
from gape.core.errors import RunError
from gape.runs.folder.layout import Layout
from gape.runs.settings import CONSENTS, RETIRED, Settings, refuse_unknown

# The last line of the file, which is a comment for TOML.
_SEAL = "# Sealed on this machine by whoever wrote the above: "
_SEALED = re.compile(rb"(.*\n)" + _SEAL.encode() + rb"([0-9a-f]{64})\n", re.DOTALL)

# Options of earlier versions that are left to Python.
_RETIRED_OPTIONS = {"variation": ("fill",), "selector": ("kmedoids", "bounded-lipschitz")}


@dataclass(frozen=True)
class SealedSettings:
    """The settings file of a run folder, as it was read."""

    layout: Layout
    content: bytes

    @cached_property
    def settings(self) -> Settings:
        """The settings. Refuses those that this version cannot follow."""
        values = _followed(parse_toml(self.content, self.layout.settings, "the settings"), self.layout.settings)
        if "schema" in values:
            values["schema"] = str(self.layout.schema.absolute())
        return Settings.of(values)

    @cached_property
    def own(self) -> bool:
        """Whether this user wrote the settings on this machine, and nobody has changed them since."""
        match = _SEALED.fullmatch(self.content)
        return match is not None and is_sealed(match[1], match[2].decode())


def read_sealed(folder: Path) -> SealedSettings | None:
    """Read the settings of a run folder; None if the run was assembled in Python."""
    layout = Layout(folder)
    if not layout.settings.exists():
        return None
    refuse_links(folder)
    return SealedSettings(layout, toml_bytes(layout.settings, "the settings"))


def write_sealed(layout: Layout, settings: Settings) -> SealedSettings:
    """Write settings with their seal, and the schema if it is not there yet. Creates the folder if necessary."""
    layout.internal.mkdir(mode=0o700, parents=True, exist_ok=True)
    layout.internal.chmod(0o700)
    if settings.schema is not None and not layout.schema.exists():
        write_atomically(layout.schema, Path(settings.schema).read_bytes())
    content = settings.as_toml().encode()
    sealed = seal(content)
    content += f"{_SEAL}{sealed}\n".encode() if sealed else b""
    write_atomically(layout.settings, content)
    return SealedSettings(layout, content)


def _followed(values: dict[str, Any], path: Path) -> dict[str, Any]:
    """Return the stored values that may be followed: without consent, which a file cannot give."""
    _refuse_retired(values, path)
    values = {name: value for name, value in values.items() if name not in RETIRED}
    refuse_unknown(values, f" in {path}")
    if values.get("separation") == "private-kmeans":
        raise RunError(
            f"{path} is of an older version and NOT PRIVATE, because its run computes a separation from the private "
            "data; do not publish its output, and start a new run with a number, or none, in another folder"
        )
    return {name: value for name, value in values.items() if name not in CONSENTS}


def _refuse_retired(values: dict[str, Any], path: Path) -> None:
    """Refuse a run of an earlier version whose rule the settings can no longer name."""
    retired = [name for name, value in RETIRED.items() if values.get(name, value) != value]
    retired += [name for name, options in _RETIRED_OPTIONS.items() if values.get(name) in options]
    if retired:
        name = retired[0]
        raise RunError(
            f"{path} is of an earlier version and has {name} {brief(values[name])}, which is left to Python now; use "
            "the version that started the run, or start a new run in another folder"
        )
