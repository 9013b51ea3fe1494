"""An OpenAI-compatible service through its Batch API: half the price, answers within a day."""

import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from gape._support.files import read_json, write_atomically
from gape.core.errors import RunError, ServiceError, SpendingError
from gape.language.forms import as_form
from gape.language.http import REFUSED, Again, Job, Refused, UnansweredError
from gape.language.openai import OpenAIModel
from gape.language.request import Completion, Request
from gape.language.spending import SHARE_OF_PRICE, Tokens

T = TypeVar("T")

_MOST_REQUESTS, _MOST_BYTES = 50_000, 150 * 2**20  # of one batch; the service allows 50,000 and 200 MB
_LARGEST_OBJECT = 2**22  # bytes of a description of files or batches
_ENDPOINT = "/v1/chat/completions"
_ENDED = {"completed", "expired", "cancelled", "failed"}
_FIRST_LOOK, _LONGEST_PAUSE = 2.0, 60.0  # seconds between looks at a batch, growing
_FRUITLESS = 3  # batches in a row without one answer before the service counts as broken
_UNSEEN = 10  # looks in a row that fail, each after its own retries, before an error: networks fail for minutes
_ID = re.compile(r"[\w.-]{1,200}")
_LIST = 100  # batches per page


@dataclass
class Batch:
    """A batch that the service works on: its file of requests, its id once known, and the keys of its requests."""

    file: str
    id: str
    requests: list[str]


@dataclass(kw_only=True)
class BatchedModel(OpenAIModel):
    """Sends each call of `complete` as a batch, waits for it, and pays for no request twice.

    `path` is a file that lists the batches at the service. It is written before a batch is created, so that a killed
    process leaves no batch unknown: the next one finds it by its file of requests, and takes its answers instead of
    asking again. Requests that fail in a batch that is otherwise answered, and those that an expired batch left, are
    sent in a new batch. The prices are those that the service asks for single requests; batches cost half of them.
    """

    path: Path
    notice: Callable[[int, int], None] | None = field(default=None, repr=False, compare=False)  # told how far it is
    first_look: float = _FIRST_LOOK
    _most: int = field(default=_MOST_REQUESTS, init=False, repr=False, compare=False)
    _reserved: dict[str, Tokens] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        single = self.prompt_price, self.completion_price
        self.prompt_price, self.completion_price = (price * SHARE_OF_PRICE for price in single)
        super().__post_init__()

    def complete(self, requests: Sequence[Request]) -> Iterator[tuple[int, Completion]]:
        """Yield the answers of batches that are under way, then those of new ones, as each batch ends."""
        waiting: dict[str, tuple[list[int], Job[Completion]]] = {}
        for index, request in enumerate(requests):
            job = self._job(request)
            waiting.setdefault(_key(job), ([], job))[0].append(index)
        for batch in self._under_way():
            if not waiting.keys().isdisjoint(batch.requests):
                yield from self._collect(batch, waiting)
        fruitless = 0
        for _ in range(self.attempts):
            left = list(waiting)
            while left:
                chunk = self._admitted({key: waiting[key][1] for key in left[: self._most]})
                left = left[len(chunk) :]
                before = len(waiting), self._most
                yield from self._collect(self._created(self._submit(chunk), fresh=True), waiting)
                fruitless = fruitless + 1 if before == (len(waiting), self._most) else 0
                if fruitless == _FRUITLESS:
                    raise ServiceError(
                        f"{fruitless} batches in a row at {self.base_url} had no usable answer; check that the service "
                        "accepts such requests"
                    )

    def _admitted(self, jobs: dict[str, Job[Completion]]) -> dict[str, Job[Completion]]:
        """Return the first of these jobs, as many as fit under the caps and into one file."""
        admitted: dict[str, Job[Completion]] = {}
        size = 0
        for key, job in jobs.items():
            size += len(_line(key, job))
            if admitted and size > _MOST_BYTES:
                break
            if not self._meter.admit(job.most, retry=False):
                break
            self._reserved[key] = job.most
            admitted[key] = job
        if not admitted:
            raise SpendingError("batches that are under way may use the rest of the cap; raise the cap to continue")
        return admitted

    def _submit(self, jobs: dict[str, Job[Completion]]) -> Batch:
        content = b"".join(_line(key, job) for key, job in jobs.items())
        batch = Batch(self._send("files", _upload(content)), "", list(jobs))
        self._keep([*self._under_way(), batch])  # before it exists: see `_created`
        return batch

    def _created(self, batch: Batch, *, fresh: bool = False) -> Batch:
        """Return the batch with its id, after creating it if no earlier attempt has: a lost answer must not buy two."""
        body = {"input_file_id": batch.file, "endpoint": _ENDPOINT, "completion_window": "24h"}
        once = self._hurried(attempts=1)
        for attempt in range(self.attempts):
            found = "" if fresh and not attempt else self._found(batch.file)
            try:
                known = found or once.send("batches", Job(body, Tokens(), _LARGEST_OBJECT, _id))
            except UnansweredError:
                if attempt + 1 == self.attempts:
                    raise
                time.sleep(self._wait(attempt, None))
                continue
            created = Batch(batch.file, known, batch.requests)
            self._keep([created if other == batch else other for other in self._under_way()])
            return created
        raise RuntimeError("the loop ends by a batch or an error")

    def _found(self, file: str) -> str:
        """Return the id of the batch that was made from a file of requests, or "" if there is none."""
        after = ""
        while True:
            query = f"batches?limit={_LIST}" + (f"&after={after}" if after else "")
            page = self._send(query, Job(None, Tokens(), _LARGEST_OBJECT * _LIST, _batches, method="GET"))
            for id_of_batch, file_of_batch in page:
                if file_of_batch == file:
                    return id_of_batch
            if len(page) < _LIST:
                return ""
            after = page[-1][0]

    def _collect(
        self, batch: Batch, waiting: dict[str, tuple[list[int], Job[Completion]]]
    ) -> Iterator[tuple[int, Completion]]:
        """Wait for a batch and yield its answers. Requests that are answered, or refused for good, leave `waiting`."""
        batch = batch if batch.id else self._created(batch)
        ended = self._ended(batch)
        if ended["status"] == "failed":
            self._failed(batch, ended)
            return
        for name in ("output_file_id", "error_file_id"):
            if not ended.get(name):
                continue
            jobs = {key: waiting[key][1] for key in batch.requests if key in waiting}
            largest = sum(job.largest for job in jobs.values()) + _LARGEST_OBJECT * 4
            content = Job(None, Tokens(), largest, _lines, method="GET", parse=_parsed)
            for line in self._send(f"files/{_safe(ended[name])}/content", content):
                key = line.get("custom_id") if isinstance(line, dict) else None
                if key not in jobs or key not in waiting:
                    continue
                try:
                    completion = self._answer_in(line, key, jobs[key])
                except Again:
                    continue
                except Refused:
                    del waiting[key]
                    continue
                yield from ((index, completion) for index in waiting.pop(key)[0])
        self._forget(batch)  # every answer was stored by whoever took it

    def _answer_in(self, line: dict[str, Any], key: str, job: Job[Completion]) -> Completion:
        """Read one line of a file of answers, and count its tokens."""
        used = Tokens()
        try:
            response = line.get("response") or {}
            status, body = response.get("status_code"), response.get("body")
            if status in REFUSED:
                raise Refused(f"status {status}")
            if status != 200:
                raise Again("a failure, or the end of the batch")
            used = job.most  # if the service does not say
            used = job.used(body)
            return job.read(body, used)
        except (ValueError, LookupError, TypeError, AttributeError):
            raise Again("an answer that is not of the OpenAI format") from None
        finally:
            self._meter.settle(self._reserved.pop(key, Tokens()), used)

    def _ended(self, batch: Batch) -> dict[str, Any]:
        """Look at the batch until it has ended."""
        pause = self.first_look
        lost = f"does not know the batch {batch.id}, which is of another account or was deleted"
        look = Job(None, Tokens(), _LARGEST_OBJECT, _described, method="GET", missing=lost)
        unseen = 0
        while True:
            try:
                described = self._send(f"batches/{_safe(batch.id)}", look)
            except UnansweredError:
                unseen += 1
                if unseen == _UNSEEN:
                    raise
            else:
                unseen = 0
                if described["status"] in _ENDED:
                    return described
                counts = described.get("request_counts") or {}
                done = counts.get("completed") if isinstance(counts, dict) else 0
                if self.notice:
                    self.notice(done if isinstance(done, int) else 0, len(batch.requests))
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)

    def _failed(self, batch: Batch, ended: dict[str, Any]) -> None:
        """Forget a batch that the service did not accept, which costs nothing; use smaller ones if it was too large."""
        self._forget(batch)
        errors = ended.get("errors") or {}
        listed: list[Any] = (errors.get("data") or []) if isinstance(errors, dict) else []
        first = next(iter(listed), None)
        code = first.get("code") if isinstance(first, dict) else None
        if code == "token_limit_exceeded" and len(batch.requests) > 1:
            self._most = len(batch.requests) // 2
            return
        reason = f" ({code})" if isinstance(code, str) and re.fullmatch(r"[a-z_]{1,40}", code) else ""
        raise ServiceError(
            f"{self.base_url} rejected a batch of {len(batch.requests)} requests{reason}; check that {self.model!r} "
            "can be used in batches"
        )

    def _send(self, path: str, job: Job[T]) -> T:
        return self._hurried().send(path, job)

    def _hurried(self, **changes: int) -> "BatchedModel":
        """Return this client for one exchange, which fails at once if all its attempts do."""
        other = copy(self)
        other.patience = 1
        for name, value in changes.items():
            setattr(other, name, value)
        return other

    def _forget(self, batch: Batch) -> None:
        for key in batch.requests:
            self._meter.settle(self._reserved.pop(key, Tokens()), Tokens())
        self._keep([other for other in self._under_way() if other.file != batch.file])

    def _under_way(self) -> list[Batch]:
        """Read the batches at the service."""
        if not self.path.exists():
            return []
        try:
            listed = read_json(self.path)
            batches = [Batch(**described) for described in listed]
            named = [name for batch in batches for name in (batch.file, batch.id or "-", *batch.requests)]
            if not isinstance(listed, list) or not all(map(_ID.fullmatch, named)):
                raise TypeError
        except (TypeError, ValueError, AttributeError):
            raise RunError(
                f"{self.path} is not a list of batches; restore it from a copy, or remove it to ask again for what the "
                "batches hold"
            ) from None
        return batches

    def _keep(self, batches: Sequence[Batch]) -> None:
        content = json.dumps([asdict(batch) for batch in batches]).encode()
        write_atomically(self.path, content, mode=0o600)


def _key(job: Job[Completion]) -> str:
    return hashlib.sha256(json.dumps(job.body, sort_keys=True).encode()).hexdigest()


def _line(key: str, job: Job[Completion]) -> bytes:
    line = {"custom_id": key, "method": "POST", "url": _ENDPOINT, "body": job.body}
    return json.dumps(line).encode() + b"\n"


def _upload(content: bytes) -> Job[str]:
    """Return the upload of a file of requests, as a form."""
    form, kind = as_form({"purpose": "batch"}, "file", ("requests.jsonl", "application/jsonl", content))
    return Job(form, Tokens(), _LARGEST_OBJECT, _id, kind=kind)


def _safe(name: Any) -> str:
    if not isinstance(name, str) or not _ID.fullmatch(name):
        raise ServiceError("the service named a file or batch in a way that no such service does; check base_url")
    return name


def _id(content: Any, used: Tokens) -> str:  # noqa: ARG001  (free)
    return _safe(content["id"])


def _described(content: Any, used: Tokens) -> dict[str, Any]:  # noqa: ARG001  (free)
    if not isinstance(content["status"], str):
        raise TypeError
    described: dict[str, Any] = content
    return described


def _batches(content: Any, used: Tokens) -> list[tuple[str, str]]:  # noqa: ARG001  (free)
    return [(_safe(batch["id"]), str(batch["input_file_id"])) for batch in content["data"]]


def _parsed(content: bytes) -> Any:
    return [json.loads(line) for line in content.splitlines() if line.strip()]


def _lines(content: Any, used: Tokens) -> list[Any]:  # noqa: ARG001  (free)
    lines: list[Any] = content
    return lines
