"""Answers stored on disk, so that nothing is requested and paid for twice."""

import hashlib
import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from gape._support.databases import closed_with, make_private, reading, refuse_other_database
from gape.core.errors import RunError, in_one_line
from gape.language.request import Completion, LanguageModel, Request, Wrapper, burst_of
from gape.language.spending import Tokens

_FORMAT = 1
_WAIT_SECONDS = 60.0
_KEYS_AT_ONCE = 500  # per query
_SCHEMA = "CREATE TABLE answers (key BLOB PRIMARY KEY, completion TEXT NOT NULL)"
_LOG_PAGES = 2**14  # pages of the log, for a model with a burst, before it is written to the file: 64 MB


class Stored(Wrapper):
    """A language model whose answers are stored on disk before they are returned, and are requested only once.

    A killed process loses at most the calls in flight; with a `burst`, fewer answers than that number. The key of an
    answer is the SHA-256 of the model's name and of everything in the request. Failures are not stored, so they are
    retried. The file, mode 0600, contains answers and keys, no prompts. Processes may share it.
    """

    def __init__(self, model: LanguageModel, path: str | Path) -> None:
        """Store the answers of `model` in the SQLite file at `path`, which is created if necessary."""
        self.model, self.path = model, Path(path)
        if not self.path.parent.is_dir():
            raise RunError(f"the folder {self.path.parent} of the stored answers does not exist; create it first")
        with self._usable():
            make_private(self.path)
            refuse_other_database(self.path, _SCHEMA, "a file of stored answers")
            # Without an isolation level each statement is its own transaction.
            self._database = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
            self._finalizer = closed_with(self, self._database)
            self._open()

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Yield the stored answers, then request the others, storing each before it is yielded."""
        indices: dict[bytes, list[int]] = {}
        for index, request in enumerate(requests):
            indices.setdefault(self._key(request), []).append(index)
        missing = []
        keys = iter(indices)
        while batch := list(islice(keys, _KEYS_AT_ONCE)):
            stored = self._load(batch)
            for key in batch:
                if key in stored:
                    yield from ((index, stored[key]) for index in indices[key])
                else:
                    missing.append(key)
        answers = self.model.complete([requests[indices[key][0]] for key in missing])
        for burst in _in_bursts(answers, burst_of(self.model)):
            self._store([(missing[number], completion) for number, completion in burst])
            for number, completion in burst:
                yield from ((index, completion) for index in indices[missing[number]])

    def close(self) -> None:
        """Close the file. Everything in it is already stored."""
        self._finalizer()

    def _key(self, request: Request) -> bytes:
        # Without a schema or a picture, a request has the key that it had before there were any.
        later = {"schema", "picture"}
        asked = {name: value for name, value in vars(request).items() if name not in later or value is not None}
        return hashlib.sha256(json.dumps([self.name, asked], sort_keys=True).encode()).digest()

    def _load(self, keys: list[bytes]) -> dict[bytes, Completion]:
        query = f"SELECT key, completion FROM answers WHERE key IN ({', '.join('?' * len(keys))})"  # noqa: S608  (marks)
        with self._usable():
            rows = self._database.execute(query, keys)
            return {key: Completion(**json.loads(text)) for key, text in rows}

    def _store(self, answers: Sequence[tuple[bytes, Completion]]) -> None:
        rows = [(key, json.dumps(vars(completion))) for key, completion in answers]
        with self._usable():
            self._database.execute("BEGIN IMMEDIATE")
            try:
                self._database.executemany("INSERT OR REPLACE INTO answers VALUES (?, ?)", rows)
                self._database.execute("COMMIT")
            except BaseException:
                self._database.rollback()
                raise

    def _open(self) -> None:
        database = self._database
        database.execute("BEGIN IMMEDIATE")  # of processes that start together, one creates the table
        (made,) = database.execute("PRAGMA user_version").fetchone()
        if not made and not database.execute("SELECT 1 FROM sqlite_master").fetchone():
            database.execute(_SCHEMA)
            database.execute(f"PRAGMA user_version = {_FORMAT}")
        elif made != _FORMAT:
            self.close()
            raise RunError(f"{self.path} is not a file of stored answers of format {_FORMAT}; use another file")
        database.execute("COMMIT")
        # A commit appends to a log and hands it to the system, which survives a kill of the process. Only a power cut
        # can lose the last answers, and even that leaves the file intact. Syncing to disk after each answer would save
        # no more than those few.
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        if burst_of(self.model) > 1:
            database.execute(f"PRAGMA wal_autocheckpoint = {_LOG_PAGES}")

    @contextmanager
    def _usable(self) -> Iterator[None]:
        try:
            yield
        except (sqlite3.Error, OSError, ValueError, TypeError) as error:
            raise RunError(
                f"the stored answers in {self.path} cannot be read or written ({in_one_line(error)}); free some space "
                "if the disk is full, otherwise restore the file from a backup, or remove it to request answers again"
            ) from error


def _in_bursts(answers: Iterator[tuple[int, Completion]], burst: int) -> Iterator[list[tuple[int, Completion]]]:
    """Yield answers in lists of `burst`; the last may be shorter."""
    while batch := list(islice(answers, burst)):
        yield batch


def stored_tokens(path: str | Path) -> tuple[int, Tokens]:
    """Return the number of answers in a file of stored answers, and the tokens they used."""
    # There is a journal only while the file is being made: before the first answer it is replaced by a log. What a kill
    # leaves of it cannot be read without writing, and is rolled back when answers are stored again.
    if not Path(path).exists() or Path(f"{path}-journal").exists():
        return 0, Tokens()
    counted = ("prompt_tokens", "completion_tokens", "images")
    totals = ", ".join(f"total(json_extract(completion, '$.{name}'))" for name in counted)
    sums = f"SELECT count(*), {totals} FROM answers"  # noqa: S608  (the names above)
    try:
        refuse_other_database(path, _SCHEMA, "a file of stored answers")
        with closing(reading(path)) as database:
            if not database.execute("SELECT 1 FROM sqlite_master").fetchone():
                return 0, Tokens()  # left by a process that was killed before it made the table
            answers, *used = database.execute(sums).fetchone()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise RunError(
            f"the stored answers in {path} cannot be read ({in_one_line(error)}); restore the file from a backup, or "
            "remove it"
        ) from None
    return int(answers), Tokens(*map(int, used))
