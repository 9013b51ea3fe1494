"""Settings from a TOML file of the user."""

from pathlib import Path
from typing import Any

from gape._support.values import toml_file
from gape.core.errors import PrivacyError
from gape.runs.settings import CONSENTS, refuse_unknown


def read_toml(path: str | Path) -> dict[str, Any]:
    """Read values for `Settings.of` from a user's TOML file."""
    values = toml_file(path, "the settings")
    refuse_unknown(values, f" in {path}")
    for name in sorted(CONSENTS & set(values)):
        if values.pop(name) is not False:
            raise PrivacyError(
                f"{name} in {path} is consent, which a file cannot give; remove it, and give --{name.replace('_', '-')}"
            )
    return values
