"""SQLite files that may come from anybody: recognised before anything is written to them."""

import os
import sqlite3
import stat
from contextlib import closing
from pathlib import Path

from gape.core.errors import RunError, in_one_line

_WAIT_SECONDS = 60.0
_FORMS = ("mode=ro&immutable=1", "mode=ro")


def reading(path: str | Path) -> sqlite3.Connection:
    """Open a SQLite file for reading alone."""
    return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=_WAIT_SECONDS)


def refuse_other_database(path: str | Path, schema: str, what: str) -> None:
    """Refuse a file that is not a database of exactly this schema, without changing a byte of it or beside it.

    `schema` holds the statements that make its tables. An empty file passes: SQLite makes a new database of it.
    Triggers, views, further columns and constraints, which would compute whatever their author likes whenever the
    tables are used, are refused as well. `what` names what the file should be.
    """
    path = Path(path)
    try:
        status = path.stat()
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror}); name another file") from None
    if not stat.S_ISREG(status.st_mode):
        raise RunError(f"{path} is not a file, so it is not {what}; name another file")
    if not status.st_size:
        return
    try:
        found = _content(path)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise RunError(
            f"{path} cannot be used as {what} ({in_one_line(error)}); restore it from a copy, or name another"
        ) from None
    if found and found != {_plain(statement) for statement in schema.split(";") if statement.strip()}:
        raise RunError(f"{path} is not {what}: it holds other tables, or triggers or views; name another file")


def _plain(statement: str) -> str:
    """Return a statement as SQLite keeps it, in one line."""
    return " ".join(statement.replace("IF NOT EXISTS", "").split())


def _content(path: Path) -> set[str]:
    """Return the statements that made all that a database holds, but for the indexes that SQLite makes by itself."""
    error: sqlite3.Error | None = None
    # Immutable reads neither journals nor locks, and so leaves no trace; what another process is just writing, it may
    # take for damage. Then the usual way decides, which waits for that process.
    for form in _FORMS:
        uri = f"{path.absolute().as_uri()}?{form}"
        try:
            with closing(sqlite3.connect(uri, uri=True, timeout=_WAIT_SECONDS)) as database:
                rows = database.execute("SELECT sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
            return {_plain(str(statement)) for (statement,) in rows}
        except sqlite3.Error as failure:
            error = failure
    raise error or sqlite3.DatabaseError


def make_private(path: Path) -> None:
    """Make an empty file of mode 0600 where there is none."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600))
