"""The folder of a comparison.

    out/                    mode 0700; NOT differentially private
    ├── README.md           says that nothing here is private, and what the files are
    ├── settings.toml       what all cells share, and which cells were asked for
    ├── cells/              one file per finished cell: scores of every round, settings, seconds, version
    ├── answers.sqlite      the answers of the language model, if there is one
    ├── results.csv         every score of every cell; also as .parquet
    ├── table.md            means over seeds, with intervals
    ├── figure.png          W1 and recall; also as .svg
    ├── further.png         precision, distances, and the scores by voters; also as .svg
    └── rounds.png          W1 and recall round by round; also as .svg

A finished cell is written atomically, so if the process ends, only the cells in progress are lost. A folder takes cells
of one study only, because others would not be comparable.
"""

from __future__ import annotations

import json
import re
import secrets
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from gape._support.files import locked, read_bounded, read_json, refuse_links, write_atomically, write_json
from gape.core.errors import RunError
from gape.evaluation.compare.cell import Result
from gape.evaluation.compare.grid import Grid, Study

MARK = "NOT differentially private: private records scored this, under seeded noise. For research only."

_README = """\
# NOT differentially private

Everything in this folder was computed from private records without a guarantee: they voted under seeded noise, and
they scored the result. No budget was spent, because nothing here may be released. Protect it like the private data
itself, and do not publish texts, scores or figures unless the data is public.

- `table.md`, `figure.png`, `further.png`, `rounds.png` (also as `.svg`): means over seeds with their intervals
- `results.csv`, `results.parquet`: the scores of every round of every cell
- `cells/`: one file per finished cell
- `settings.toml`: what all cells have in common

Repeat the command to resume, or to add methods, epsilons and seeds.
"""


class CompareFolder:
    """The folder of one comparison, which need not exist yet."""

    def __init__(self, path: str | Path) -> None:
        """Refer to the folder `path`; nothing is read or written yet."""
        self.path = Path(path)
        self.answers = self.path / "answers.sqlite"
        self._cells = self.path / "cells"
        self._settings = self.path / "settings.toml"

    def begin(self, grid: Grid, study: Study, fingerprint: Callable[[bytes], str]) -> None:
        """Prepare the folder for this study, if it is new or holds cells of the same study.

        `fingerprint` identifies the private data under a salt.
        """
        stored = self._stored()
        salt = stored["data"]["salt"] if stored else secrets.token_hex(16)
        settings = {
            "grid": {
                "methods": [method.name for method in grid.methods],
                "epsilons": grid.epsilons,
                "seeds": grid.seeds,
            },
            "common": study.common(),
            "methods": {method.name: method.describe() for method in grid.methods},
            "data": {"salt": salt, "fingerprint": fingerprint(bytes.fromhex(salt))},
        }
        if stored:
            self._refuse_other(stored, settings)
            settings = _merged_settings(stored, settings)
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        self._cells.mkdir(exist_ok=True)
        write_atomically(self.path / "README.md", _README.encode())
        write_atomically(self._settings, _as_toml(settings).encode())

    def study(self) -> tuple[Study, list[str]]:
        """Return the study of the folder, and its methods in the order they were asked for."""
        stored = self._stored()
        if stored is None:
            raise RunError(f"{self.path} is not the folder of a comparison; name one made by `gape compare`")
        try:
            return Study.from_common(stored["common"]), list(stored["grid"]["methods"])
        except (KeyError, TypeError, ValueError):
            raise RunError(
                f"{self._settings} does not say what its cells have in common; restore it from a copy"
            ) from None

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes out of the folder."""
        return locked(self._cells / ".lock", self.path)

    def refuse_other_models(self, made_by: Mapping[str, str]) -> None:
        """Refuse models whose content differs from that of the models that made the stored cells."""
        for path in sorted(self._cells.glob("*.json")):
            cell = read_json(path)
            stored = cell.get("made_by", {}) if isinstance(cell, dict) else None
            if not isinstance(stored, dict):
                raise RunError(f"{path} is not a cell of a comparison; remove it, and it will be run again")
            for name, was in stored.items():
                if name in made_by and made_by[name] != was:
                    raise RunError(
                        f"{path.name} in {self.path} was made by the {name} {was!r}, not {made_by[name]!r}, and is not "
                        f"comparable with new cells; resume with the same {name}, or name a new folder"
                    )

    def keep(self, result: Result, settings: Mapping[str, Any], made_by: Mapping[str, str]) -> None:
        """Store a finished cell, and what it was made by."""
        from gape import __version__  # noqa: PLC0415  (the package imports this module)

        content = {
            "differentially_private": False,
            "remark": MARK,
            **result.as_json(),
            "settings": dict(settings),
            "made_by": dict(made_by),
            "version": __version__,
        }
        write_json(self._cells / f"{result.cell.name}.json", content)

    def finished(self) -> list[tuple[Result, str]]:
        """Return all finished cells, each with the version of the package that made it."""
        results = []
        for path in sorted(self._cells.glob("*.json")):
            values = read_json(path)
            try:
                results.append((Result.from_json(values), str(values["version"])))
            except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
                raise RunError(f"{path} is not a cell of a comparison; remove it, and it will be run again") from None
        return results

    def _stored(self) -> dict[str, Any] | None:
        try:
            occupied = self.path.exists() and (not self.path.is_dir() or any(self.path.iterdir()))
        except OSError as error:
            raise RunError(f"the folder {self.path} cannot be read ({error.strerror}); name another one") from None
        refuse_links(self.path)
        if not self._settings.exists():
            if occupied and not self._only_begun():
                raise RunError(f"{self.path} exists and is not the folder of a comparison; name a new folder")
            return None
        try:
            return _checked_settings(tomllib.loads(read_bounded(self._settings)))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise RunError(
                f"{self._settings} cannot be read ({type(error).__name__}); restore it from a copy, or use a new folder"
            ) from None

    def _only_begun(self) -> bool:
        """Whether a process was killed here before it wrote the settings."""
        names = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else {""}
        return {name for name in names if not name.endswith(".tmp")} <= {"README.md", "cells"}

    def _refuse_other(self, stored: dict[str, Any], settings: dict[str, Any]) -> None:
        if stored["data"] != settings["data"]:
            raise RunError(f"{self.path} compares methods on other data; name a new folder for this")
        old, new = (
            {**tables["common"], **{f"method {name}": description for name, description in tables["methods"].items()}}
            for tables in (stored, settings)
        )
        added = {f"method {name}" for name in settings["methods"]} - set(old)
        for name in sorted({*old, *new} - added):
            if name.startswith("method ") and name not in new:
                continue
            was, now = _plain(old.get(name)), _plain(new.get(name))
            if was != now:
                raise RunError(
                    f"{self.path} was started with {name} {was!r}, not {now!r}, and its cells are not comparable with "
                    "new ones; use the same settings to resume, or name a new folder"
                )


def _checked_settings(stored: dict[str, Any]) -> dict[str, Any]:
    """Return the stored settings, or raise if they are not what `begin` writes."""
    lists = [stored["grid"][name] for name in ("methods", "epsilons", "seeds")]
    plain = all(type(item) in {str, int, float} for items in lists for item in items)
    tables = all(isinstance(stored[name], dict) for name in ("common", "methods", "data"))
    if not (plain and tables and re.fullmatch(r"[0-9a-f]{32}", stored["data"]["salt"])):
        raise ValueError
    return stored


def _merged_settings(stored: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Add the methods, epsilons and seeds of the new settings to the stored ones, in the order they were asked for."""
    grid = {name: list(dict.fromkeys([*stored["grid"][name], *values])) for name, values in settings["grid"].items()}
    return {**settings, "grid": grid, "methods": {**stored["methods"], **settings["methods"]}}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _as_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [f"# {MARK}"]
    for name, values in tables.items():
        lines += ["", f"[{name}]", *(f"{_toml_key(key)} = {_toml(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _toml_key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # the only difference to JSON
    if isinstance(value, Sequence):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return repr(value)
