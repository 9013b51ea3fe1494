"""A device's record, on its own disk, of what it has sent: no restart, race or repeated message makes it send more."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from gape.core.errors import PrivacyError
from gape.distributed.federated.terms import Terms

_WAIT_SECONDS = 60.0
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS terms (digest BLOB PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS ballots (session BLOB PRIMARY KEY, opened INTEGER NOT NULL DEFAULT 0)",
)


class Granted:
    """A file that counts the ballots of one device under one set of terms."""

    def __init__(self, path: str | Path, terms: Terms) -> None:
        """Count in the SQLite file at `path`, mode 0600, which is created if necessary."""
        self._path, self._terms = Path(path), terms

    def ballot(self, session: bytes) -> None:
        """Count a ballot on disk before it is sent; refuse it if the terms grant no more, or if it is a second one."""
        with self._transaction() as database:
            database.execute("INSERT INTO terms SELECT ? WHERE NOT EXISTS (SELECT * FROM terms)", (self._terms.digest,))
            if database.execute("SELECT digest FROM terms").fetchone() != (self._terms.digest,):
                raise PrivacyError(  # sent to the server, so it names no path of the device
                    "this device counts ballots under other terms, and only one set of terms was granted; use its terms"
                )
            (sent,) = database.execute("SELECT count(*) FROM ballots").fetchone()
            if sent >= self._terms.ballots:
                raise PrivacyError(
                    f"this device has sent the {self._terms.ballots} ballots that its terms grant; agree on new terms"
                )
            if database.execute("INSERT OR IGNORE INTO ballots (session) VALUES (?)", (session,)).rowcount != 1:
                raise PrivacyError("this device has already voted in this session; start a new session")

    def opening(self, session: bytes) -> None:
        """Allow one opening of a session in which this device has voted, and never a second."""
        with self._transaction() as database:
            query = "UPDATE ballots SET opened = 1 WHERE session = ? AND opened = 0"
            if database.execute(query, (session,)).rowcount != 1:
                raise PrivacyError("this device did not vote in this session, or has opened it; start a new session")

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        with closing(sqlite3.connect(self._path, timeout=_WAIT_SECONDS, isolation_level=None)) as database:
            database.execute("PRAGMA synchronous = EXTRA")
            database.execute("BEGIN IMMEDIATE")  # what is read below cannot change before the write
            try:
                for statement in _SCHEMA:
                    database.execute(statement)
                yield database
            except BaseException:
                database.execute("ROLLBACK")
                raise
            database.execute("COMMIT")
