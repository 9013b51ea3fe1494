"""Untrusted SQLite files: their schema is checked before anything is written to them."""

import os
import sqlite3
import stat
import weakref
from contextlib import closing, suppress
from pathlib import Path

from gape.core.errors import RunError, in_one_line

_WAIT_SECONDS = 60.0
_FORMS = ("mode=ro&immutable=1", "mode=ro")


def reading(path: str | Path) -> sqlite3.Connection:
    """Open a SQLite file read-only."""
    return sqlite3.connect(f"{Path(path).absolute().as_uri()}?mode=ro", uri=True, timeout=_WAIT_SECONDS)


def closed_with(owner: object, database: sqlite3.Connection) -> "weakref.finalize[[sqlite3.Connection], object]":
    """Close a database when its owner is closed or collected. The result, when called, closes it now.

    Garbage may be collected in any thread, and a connection can be closed only in its own. In another one it is left to
    the next collection, which frees the connection itself.
    """
    return weakref.finalize(owner, _close, database)


def _close(database: sqlite3.Connection) -> None:
    with suppress(sqlite3.ProgrammingError):
        database.close()


def refuse_other_database(path: str | Path, schema: str, what: str) -> None:
    """Refuse a file that is not a database of exactly this schema, without changing it or writing beside it.

    `schema` contains the statements that create its tables. An empty file passes: SQLite makes a new database of it.
    Triggers, views, extra columns and constraints are refused as well, because they could run arbitrary expressions
    when the tables are used. `what` describes the expected file in messages.
    """
    path = Path(path)
    try:
        status = path.stat()
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror}); use another file") from None
    if not stat.S_ISREG(status.st_mode):
        raise RunError(f"{path} is not a regular file, so it is not {what}; use another file")
    if not status.st_size:
        return
    try:
        statements = _content(path)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise RunError(
            f"{path} cannot be used as {what} ({in_one_line(error)}); restore it from a backup, or use another file"
        ) from None
    if statements and statements != {_plain(statement) for statement in schema.split(";") if statement.strip()}:
        raise RunError(f"{path} is not {what}: it contains other tables, or triggers or views; use another file")


def _plain(statement: str) -> str:
    """Return a statement as SQLite stores it, on one line."""
    return " ".join(statement.replace("IF NOT EXISTS", "").split())


def _content(path: Path) -> set[str]:
    """Return the statements that created the content of a database, except for SQLite's automatic indexes."""
    error: sqlite3.Error | None = None
    # An immutable connection ignores journals and locks and so leaves no trace, but may take a concurrent write for
    # damage. In that case an ordinary read-only connection decides, which waits for the writer.
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
    """Create an empty file of mode 0600, unless the file exists."""
    os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600))
