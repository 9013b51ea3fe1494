"""A comparison on disk.

    out/                    mode 0700; NOT differentially private
    ├── README.md           which says so
    ├── settings.toml       what all cells share, and which cells were asked for
    ├── cells/              one file for every cell that is done: scores of every round, settings, seconds, version
    ├── answers.sqlite      what a language model answered, where there is one
    ├── results.csv         every score of every cell; also as .parquet
    ├── table.md            means over seeds, with intervals
    ├── figure.png          W1 and recall drawn; also as .svg
    ├── further.png         precision, distances, and the scores by voters; also as .svg
    └── rounds.png          W1 and recall round by round; also as .svg

A cell is written whole or not at all, when it is done, so that whatever ends the process costs the cells in progress
and no other. A folder takes cells of one study only: others could not be compared with them.
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

MARK = "NOT differentially private: private records scored this, under noise that can be repeated. For research only."

_README = """\
# NOT differentially private

Everything in this folder was computed from private records without a guarantee: they voted under noise that can be
repeated, and they scored the result. No budget was spent, because nothing here may be released. Keep it like the
private data itself, and do not publish texts, scores or figures unless the data is public.

- `table.md`, `figure.png`, `further.png`, `rounds.png` (also as `.svg`): means over seeds with their intervals
- `results.csv`, `results.parquet`: the scores of every round of every cell
- `cells/`: one file for every cell that is done
- `settings.toml`: what all cells have in common

The same command goes on where it was stopped, and adds methods, epsilons and seeds to what is there.
"""


class CompareFolder:
    """The folder of one comparison, there or yet to be made."""

    def __init__(self, path: str | Path) -> None:
        """Look at the folder `path`; writes nothing."""
        self.path = Path(path)
        self.answers = self.path / "answers.sqlite"
        self._cells = self.path / "cells"
        self._settings = self.path / "settings.toml"

    def begin(self, grid: Grid, study: Study, fingerprint: Callable[[bytes], str]) -> None:
        """Take the folder for this study, if it is new or holds cells of the same one.

        `fingerprint` identifies the private data under a salt.
        """
        stored = self._stored()
        salt = stored["data"]["salt"] if stored else secrets.token_hex(16)
        settings = {
            "grid": {"methods": [each.name for each in grid.methods], "epsilons": grid.epsilons, "seeds": grid.seeds},
            "common": study.common(),
            "methods": {each.name: each.describe() for each in grid.methods},
            "data": {"salt": salt, "fingerprint": fingerprint(bytes.fromhex(salt))},
        }
        if stored:
            self._refuse_other(stored, settings)
            settings = _joined(stored, settings)
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.path.chmod(0o700)
        self._cells.mkdir(exist_ok=True)
        write_atomically(self.path / "README.md", _README.encode())
        write_atomically(self._settings, _as_toml(settings).encode())

    def study(self) -> tuple[Study, list[str]]:
        """Return the study that the folder was taken for, and its methods in the order they were asked for."""
        stored = self._stored()
        if stored is None:
            raise RunError(f"{self.path} is not the folder of a comparison; name one that `gape compare` has made")
        try:
            return Study.of_common(stored["common"]), list(stored["grid"]["methods"])
        except (KeyError, TypeError, ValueError):
            raise RunError(
                f"{self._settings} does not say what its cells have in common; restore it from a copy"
            ) from None

    def locked(self) -> AbstractContextManager[None]:
        """Keep other processes out of the folder."""
        return locked(self._cells / ".lock", self.path)

    def refuse_other_models(self, made_by: Mapping[str, str]) -> None:
        """Refuse models that are others than those of the cells that are there, whatever their names."""
        for path in sorted(self._cells.glob("*.json")):
            cell = read_json(path)
            known = cell.get("made_by", {}) if isinstance(cell, dict) else None
            if not isinstance(known, dict):
                raise RunError(f"{path} is not a cell of a comparison; remove it to have it run again")
            for name, was in known.items():
                if name in made_by and made_by[name] != was:
                    raise RunError(
                        f"{path.name} in {self.path} was made by the {name} {was!r}, not {made_by[name]!r}, and could "
                        "not be compared with these; go on with the same one, or name a new folder"
                    )

    def keep(self, result: Result, settings: Mapping[str, Any], made_by: Mapping[str, str]) -> None:
        """Keep a finished cell, with what it was made by."""
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
        found = []
        for path in sorted(self._cells.glob("*.json")):
            values = read_json(path)
            try:
                found.append((Result.of_json(values), str(values["version"])))
            except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
                raise RunError(f"{path} is not a cell of a comparison; remove it to have it run again") from None
        return found

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
            return _checked(tomllib.loads(read_bounded(self._settings)))
        except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
            raise RunError(
                f"{self._settings} cannot be read ({type(error).__name__}); restore it from a copy, or use a new folder"
            ) from None

    def _only_begun(self) -> bool:
        """Whether a process was killed here before it had written the settings."""
        names = {entry.name for entry in self.path.iterdir()} if self.path.is_dir() else {""}
        return {name for name in names if not name.endswith(".tmp")} <= {"README.md", "cells"}

    def _refuse_other(self, stored: dict[str, Any], settings: dict[str, Any]) -> None:
        if stored["data"] != settings["data"]:
            raise RunError(f"{self.path} compares methods on other data; name a new folder for this")
        old = {**stored["common"], **{f"method {name}": said for name, said in stored["methods"].items()}}
        new = {**settings["common"], **{f"method {name}": said for name, said in settings["methods"].items()}}
        added = {f"method {name}" for name in settings["methods"]} - set(old)
        for name in sorted({*old, *new} - added):
            if name.startswith("method ") and name not in new:
                continue
            was, now = _plain(old.get(name)), _plain(new.get(name))
            if was != now:
                raise RunError(
                    f"{self.path} was started with {name} {was!r}, not {now!r}, and its cells could not be compared "
                    "with these; use the same settings to go on with it, or name a new folder"
                )


def _checked(stored: dict[str, Any]) -> dict[str, Any]:
    """Return what `begin` writes, or raise where something else was written."""
    lists = [stored["grid"][name] for name in ("methods", "epsilons", "seeds")]
    plain = all(type(item) in {str, int, float} for items in lists for item in items)
    tables = all(isinstance(stored[name], dict) for name in ("common", "methods", "data"))
    if not (plain and tables and re.fullmatch(r"[0-9a-f]{32}", stored["data"]["salt"])):
        raise ValueError
    return stored


def _joined(stored: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """Add what is asked for now to what was asked for before."""
    grid = {
        name: list(dict.fromkeys([*stored["grid"][name], *values]))
        for name, values in settings["grid"].items()  # methods in their order, numbers too: that of asking
    }
    return {**settings, "grid": grid, "methods": {**stored["methods"], **settings["methods"]}}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _as_toml(tables: Mapping[str, Mapping[str, Any]]) -> str:
    lines = [f"# {MARK}"]
    for name, values in tables.items():
        lines += ["", f"[{name}]", *(f"{_key(key)} = {_toml(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")  # the same in JSON but for this
    if isinstance(value, Sequence):
        return f"[{', '.join(_toml(item) for item in value)}]"
    return repr(value)
