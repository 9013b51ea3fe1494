"""Answers kept on disk, so that nothing is asked and paid for twice."""

import hashlib
import json
import sqlite3
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import islice
from pathlib import Path

from gape._support.databases import make_private, reading, refuse_other_database
from gape.core.errors import RunError, in_one_line
from gape.language.request import Completion, LanguageModel, Request, burst_of
from gape.language.spending import Tokens

_FORMAT = 1
_WAIT_SECONDS = 60.0
_KEYS_AT_ONCE = 500  # looked for by one query
_SCHEMA = "CREATE TABLE answers (key BLOB PRIMARY KEY, completion TEXT NOT NULL)"
_LOG_PAGES = 2**14  # of the log of a model with a burst, until the disk is waited for: 64 MB


class Stored:
    """A language model whose answers are on disk before anybody sees them, and are asked for once.

    A process that is killed loses at most the calls in flight; of a model with a `burst`, which writes so many in no
    time, fewer than that. The key of an answer is the SHA-256 of the model's name and of everything in the request;
    failures are not stored, so they are tried again. The file, mode 0600, holds answers and keys, no prompts. Processes
    may share it. To whatever identifies a run it looks like the name.
    """

    def __init__(self, model: LanguageModel, path: str | Path) -> None:
        """Keep the answers of `model` in the SQLite file at `path`, which is made if it is not there."""
        self.model, self.path = model, Path(path)
        if not self.path.parent.is_dir():
            raise RunError(f"the folder {self.path.parent} of the stored answers does not exist; make it first")
        with self._usable():
            make_private(self.path)
            refuse_other_database(self.path, _SCHEMA, "a file of stored answers")
            # Without an isolation level every statement is a transaction of its own.
            self._database = sqlite3.connect(self.path, timeout=_WAIT_SECONDS, isolation_level=None)
            self._finalizer = weakref.finalize(self, self._database.close)
            self._open()

    def __repr__(self) -> str:
        return self.name

    @property
    def name(self) -> str:
        """The name of the model inside."""
        return self.model.name

    @property
    def can_continue(self) -> bool:
        """Whether the model inside can."""
        return self.model.can_continue

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Yield the stored answers, then ask for the others, storing each before it is yielded."""
        places: dict[bytes, list[int]] = {}
        for place, request in enumerate(requests):
            places.setdefault(self._key(request), []).append(place)
        missing = []
        keys = iter(places)
        while some := list(islice(keys, _KEYS_AT_ONCE)):
            stored = self._load(some)
            for key in some:
                if key in stored:
                    yield from ((place, stored[key]) for place in places[key])
                else:
                    missing.append(key)
        answers = self.model.complete([requests[places[key][0]] for key in missing])
        for burst in _in_bursts(answers, burst_of(self.model)):
            self._store([(missing[number], completion) for number, completion in burst])
            for number, completion in burst:
                yield from ((place, completion) for place in places[missing[number]])

    def close(self) -> None:
        """Close the file; everything in it is already safe."""
        self._finalizer()  # once: later it would come from whichever thread collects garbage, which SQLite refuses

    def _key(self, request: Request) -> bytes:
        return hashlib.sha256(json.dumps([self.name, vars(request)], sort_keys=True).encode()).digest()

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
        database.execute("BEGIN IMMEDIATE")  # of processes that start together, one makes the table
        (made,) = database.execute("PRAGMA user_version").fetchone()
        if not made and not database.execute("SELECT 1 FROM sqlite_master").fetchone():
            database.execute(_SCHEMA)
            database.execute(f"PRAGMA user_version = {_FORMAT}")
        elif made != _FORMAT:
            self.close()
            raise RunError(f"{self.path} is not a file of stored answers of format {_FORMAT}; name another file")
        database.execute("COMMIT")
        # A commit is one append to a log, handed to the system: that survives the end of the process, however
        # violent. Only a power cut can lose the last answers, and even that leaves the file whole; waiting for the
        # disk after every answer would buy no more than those few.
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
                f"the stored answers in {self.path} cannot be read or written ({in_one_line(error)}); make room if "
                "the disk is full, else restore the file from a copy or remove it and have the answers asked for again"
            ) from error


def _in_bursts(answers: Iterator[tuple[int, Completion]], burst: int) -> Iterator[list[tuple[int, Completion]]]:
    """Give answers `burst` at a time, and what there is when no more come."""
    while some := list(islice(answers, burst)):
        yield some


def stored_tokens(path: str | Path) -> tuple[int, Tokens]:
    """Return how many answers a file of them holds, and what they took, in whichever process they were asked for."""
    if not Path(path).exists():
        return 0, Tokens()
    sums = (
        "SELECT count(*), total(json_extract(completion, '$.prompt_tokens')), "
        "total(json_extract(completion, '$.completion_tokens')) FROM answers"
    )
    try:
        refuse_other_database(path, _SCHEMA, "a file of stored answers")
        with closing(reading(path)) as database:
            answers, prompt, completion = database.execute(sums).fetchone()
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise RunError(
            f"the stored answers in {path} cannot be read ({in_one_line(error)}); restore the file or remove it"
        ) from None
    return int(answers), Tokens(int(prompt), int(completion))
