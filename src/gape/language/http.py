"""The HTTP client for OpenAI-compatible services."""

import json
import math
import os
import random
import re
import ssl
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from functools import cache
from itertools import islice
from typing import Any, Generic, TypeVar

import anyio
import httpx
from anyio.from_thread import start_blocking_portal

from gape.core.errors import InputError, ServiceError
from gape.language.spending import Meter, Purse, Tokens, Usage

T = TypeVar("T")
_LONGEST_BACKOFF = 60.0
_DEAD = 15.0  # seconds without any connection after which a service is not there
_LONGEST_WAIT = 300.0  # seconds; longer waits that a service asks for are errors
_RETRIED = {408, 409, 429}
REFUSED = {400, 413, 422}  # the fault is in this request; the next may succeed
_NO_CREDIT = {"insufficient_quota", "billing_hard_limit_reached"}
_FILTERED = {"content_filter", "content_policy_violation", "moderation_blocked"}
_jitter = random.Random()  # noqa: S311  (only spreads retries in time)


@cache
def _certificates() -> ssl.SSLContext:
    """Read the certificates that services are checked by. That takes longer than the rest of a short call."""
    return httpx.create_ssl_context()


class UnansweredError(ServiceError):
    """Too many requests in a row failed, each after all its attempts."""


class Again(Exception):  # noqa: N818  (a verdict, not an error)
    """This attempt failed; a retry may succeed, after `after` seconds if the service asked for a wait.

    `nobody` if there was no connection at all, so that nothing says that the service is there.
    """

    def __init__(self, reason: str, after: float | None = None, *, nobody: bool = False) -> None:
        super().__init__(reason)
        self.after = after
        self.nobody = nobody


class Refused(Exception):  # noqa: N818  (a verdict, not an error)
    """The service refuses this request; `harmless` if that says nothing about other requests."""

    def __init__(self, reason: str, *, harmless: bool = False) -> None:
        super().__init__(reason)
        self.harmless = harmless


@dataclass(frozen=True)
class Job(Generic[T]):
    """One request: its JSON, the maximum tokens, the maximum size of the answer, and how to read it.

    A request of no tokens is free: no cap stops it.
    """

    body: Mapping[str, Any] | bytes | None
    most: Tokens
    largest: int  # maximum bytes of an answer
    read: Callable[[Any, Tokens], T]  # called with the answer and its tokens; may raise Again or Refused
    method: str = "POST"
    kind: str = "application/json"  # content type of the body
    parse: Callable[[bytes], Any] = json.loads
    missing: str = ""  # what status 404 means, after the address; by default that the model or the address is wrong
    otherwise: "Job[T] | None" = None  # a simpler job, sent instead if the service refuses this one

    @property
    def content(self) -> bytes | None:
        """The body as it is sent."""
        # Escaped JSON: text that is not valid Unicode must not fail here, with the text in the error.
        return json.dumps(self.body).encode() if isinstance(self.body, Mapping) else self.body

    @property
    def free(self) -> bool:
        """Whether the request uses no tokens."""
        return self.most == Tokens()

    def used(self, answer: Any) -> Tokens:
        """Return the tokens that an answer reports, or else the most that it can have used."""
        return Tokens() if self.free else _tokens(answer, self.most)


@dataclass(kw_only=True)
class Endpoint:
    """A model behind an OpenAI-compatible service: its address, timeouts, retries and prices.

    The key is read from the environment, or from a file of mode 0600, when requests are sent, and is not stored. If
    there is none, requests have no key, because local servers often need none. No error, log line or repr contains a
    key, a prompt or an answer. Usage and caps are counted per object.
    """

    model: str
    base_url: str = "https://api.openai.com/v1"
    key_variable: str = "OPENAI_API_KEY"  # name of the environment variable with the key
    key_file: str | None = None  # file with the key instead, which nobody else may read
    api_version: str | None = None  # of Azure OpenAI, whose requests carry it, and the key in a header of its own
    concurrency: int = 16  # maximum number of requests in flight
    timeout: float = 120.0  # seconds per attempt
    attempts: int = 8  # per request
    backoff: float = 0.5  # seconds before the first retry, doubled for each further one
    patience: int = 8  # requests that may fail in a row before ServiceError is raised
    prompt_price: float = 0.0  # per million tokens
    completion_price: float = 0.0
    max_tokens_total: int | None = None
    max_cost: float | None = None
    purse: Purse | None = field(default=None, repr=False, compare=False)  # caps shared with other services, instead
    _meter: Meter = field(init=False, repr=False, compare=False)
    _failed_in_a_row: int = field(default=0, init=False, repr=False, compare=False)
    _nobody_since: float | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_url(self.base_url)
        self.base_url = self.base_url.rstrip("/")
        if self.api_version is not None and not re.fullmatch(r"[\w.-]{1,40}", self.api_version):
            raise InputError(f"api_version must be a date like 2024-10-21, got {self.api_version!r:.60}; correct it")
        if not self.model:
            raise InputError("model must be the name of a model, got an empty string; give the name")
        for name in ("concurrency", "attempts", "patience"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} must be at least 1, got {getattr(self, name)}; use 1 or more")
        if not (0 < self.timeout < math.inf and 0 <= self.backoff < math.inf):
            raise InputError(
                f"timeout must be positive and backoff at least 0, got {self.timeout} and {self.backoff}; use finite "
                "seconds"
            )
        if self.purse is None:
            prices = self.prompt_price, self.completion_price
            self.purse = Purse(self.max_tokens_total, self.max_cost, prices)
        self._meter = self._new_meter(self.purse)

    @property
    def usage(self) -> Usage:
        """Tokens, cost, requests and retries so far."""
        return self._meter.usage

    def _new_meter(self, purse: Purse) -> Meter:
        return Meter(self.prompt_price, self.completion_price, purse)

    def send(self, path: str, job: Job[T]) -> T:
        """Send one job and return its answer, or raise ServiceError."""
        for _, answer in self.post(path, [job]):
            return answer
        raise ServiceError(f"{self.base_url} refused a request to {path.partition('?')[0]}; check its settings there")

    def post(self, path: str, jobs: Sequence[Job[T]]) -> Iterator[tuple[int, T]]:
        """Send the jobs, yielding (index, answer) as each is done. Jobs that failed permanently are left out.

        Answers not yet taken count as requests in flight, so they never pile up. Closing the iterator, or an interrupt,
        cancels requests in flight and sends nothing more.
        """
        if not jobs:
            return
        running: dict[Future[T | None], int] = {}
        indices = iter(range(len(jobs)))
        # An event loop in its own thread also works if the caller's thread already runs one, as in notebooks.
        with (
            start_blocking_portal() as portal,
            portal.wrap_async_context_manager(self._client()) as client,
            _cancelling(running),
        ):
            while True:
                for index in islice(indices, self.concurrency - len(running)):
                    running[portal.start_task_soon(self._answer, client, path, jobs[index])] = index
                if not running:
                    return
                # A signal delivered to another thread is seen only when this one wakes.
                done = wait(running, timeout=0.5, return_when=FIRST_COMPLETED).done
                for future in sorted(done, key=lambda done: done.exception() is not None):  # answers before errors
                    index, answer = running.pop(future), future.result()
                    if answer is not None:
                        yield index, answer

    async def _answer(self, client: httpx.AsyncClient, path: str, job: Job[T]) -> T | None:
        reason = ""
        for attempt in range(self.attempts):
            try:
                answer = await self._attempt(client, path, job, retry=attempt > 0)
            except Refused as refusal:
                if refusal.harmless:
                    return None
                if job.otherwise is not None:
                    return await self._answer(client, path, job.otherwise)
                reason = str(refusal)
                break
            except Again as again:
                reason, after = str(again), again.after
                left = self._left_to_live(again)
            else:
                self._failed_in_a_row = 0
                return answer
            if attempt + 1 < self.attempts:
                await anyio.sleep(min(self._wait(attempt, after), left))
        self._failed_in_a_row += 1
        if self._failed_in_a_row < self.patience:
            return None
        failed = f"{self._failed_in_a_row} requests to {self.base_url} failed in a row, the last"
        failed = failed if self._failed_in_a_row > 1 else f"a request to {self.base_url} failed"
        raise UnansweredError(f"{failed} with {reason}; check that the service is up and accepts such requests")

    def _left_to_live(self, again: Again) -> float:
        """Return the seconds after which a service that nobody has reached is given up, or raise ServiceError."""
        if not again.nobody:
            self._nobody_since = None
            return math.inf
        now = time.monotonic()
        self._nobody_since = self._nobody_since or now
        left = self._nobody_since + _DEAD - now
        if left <= 0:
            raise UnansweredError(
                f"nothing has answered at {self.base_url} for {_DEAD:g} seconds; check the address, the network, and "
                "that the service is up"
            )
        return left

    async def _attempt(self, client: httpx.AsyncClient, path: str, job: Job[T], *, retry: bool) -> T:
        while not job.free and not self._meter.admit(job.most, retry=retry):
            await anyio.sleep(0.02)
        used = job.most  # a sent request may be billed, unless the service reports its use
        try:
            with anyio.fail_after(self.timeout):
                headers = {} if job.body is None else {"Content-Type": job.kind}
                request = client.stream(job.method, f"{self.base_url}/{path}", content=job.content, headers=headers)
                async with request as response:
                    content = await _received(response, job.largest)
            self._nobody_since = None
            if response.status_code != httpx.codes.OK:
                used = Tokens()
                raise self._verdict(response, content, job.missing)
            answer = job.parse(bytes(content))
            used = job.used(answer)
            return job.read(answer, used)
        except httpx.ConnectError:
            used = Tokens()
            raise Again("no connection", nobody=True) from None
        except TimeoutError:
            raise Again(f"no answer within {self.timeout:g} seconds") from None
        except httpx.HTTPError as error:
            raise Again(f"a broken connection ({type(error).__name__})") from None
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise Again("an answer that is not of the OpenAI format") from None
        finally:
            self._meter.settle(job.most, used)

    def _verdict(self, response: httpx.Response, content: memoryview, missing: str) -> Exception:
        status, code = response.status_code, _error_code(bytes(content))
        reason = f"status {status} ({code})" if code else f"status {status}"
        if status in {401, 403}:
            state = "wrong or not entitled to this model" if self._key() else "missing"
            return ServiceError(
                f"{self.base_url} refused the key with {reason}; the one in {self._key_source} is {state}"
            )
        if status == 404:
            unknown = f"has no model {self.model!r} or is not the address of the service ({reason})"
            return ServiceError(f"{self.base_url} {missing or unknown}; base_url usually ends in /v1")
        if status == 402 or code in _NO_CREDIT:
            return ServiceError(f"{self.base_url} reports that the account has no credit left ({reason}); top it up")
        if status in _RETRIED or status >= 500:
            return self._postponed(reason, response.headers.get("retry-after", ""))
        if status in REFUSED:
            return Refused(reason, harmless=code in _FILTERED)
        return ServiceError(f"{self.base_url} answered with {reason}, which no such service does; check base_url")

    def _postponed(self, reason: str, retry_after: str) -> Exception:
        after = _seconds(retry_after)
        if after is not None and after > _LONGEST_WAIT:
            return ServiceError(
                f"{self.base_url} asks for a wait of {after:,.0f} seconds ({reason}); try again after it"
            )
        return Again(reason, after)

    def _wait(self, attempt: int, after: float | None) -> float:
        if after:
            return after * _jitter.uniform(1, 1.1)  # never earlier than requested, and not all at once
        return min(self.backoff * 2.0**attempt, _LONGEST_BACKOFF) * _jitter.uniform(0.5, 1)

    def _client(self) -> httpx.AsyncClient:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=self.concurrency)
        version = {} if self.api_version is None else {"api-version": self.api_version}
        tls = _certificates()
        client = httpx.AsyncClient(verify=tls, limits=limits, timeout=None, params=version)  # noqa: S113  (see fail_after)
        client.headers["Accept-Encoding"] = "identity"  # compressed data could unpack to any size
        if self._key():
            # Checked here, because HTTP libraries quote a header that they cannot send. The key is not kept in a
            # variable, because some tracebacks show variables.
            if not re.fullmatch(r"[!-~]+", self._key()):
                raise InputError(
                    f"{self._key_source} contains spaces, line ends or characters beyond ASCII, which no key has; set "
                    "it again"
                )
            if self.api_version is None:
                client.headers["Authorization"] = f"Bearer {self._key()}"
            else:
                client.headers["api-key"] = self._key()
        return client

    @property
    def _key_source(self) -> str:
        return f"the file {self.key_file}" if self.key_file else f"the environment variable {self.key_variable}"

    def _key(self) -> str:
        """Read the key each time, so that no attribute and no variable keeps it."""
        if self.key_file is None:
            return os.environ.get(self.key_variable, "")
        try:
            with open(self.key_file, encoding="utf-8") as file:  # noqa: PTH123  (its mode is that of what is read)
                if os.fstat(file.fileno()).st_mode & 0o077:
                    raise InputError(
                        f"the key file {self.key_file} is open to other users; run: chmod 600 {self.key_file}"
                    )
                return file.read().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{self._key_source} cannot be read ({type(error).__name__}); check the path") from None


@contextmanager
def _cancelling(running: Mapping[Future[Any], int]) -> Iterator[None]:
    try:
        yield
    finally:
        for future in running:
            future.cancel()


def _check_url(url: str) -> None:
    """Refuse anything but a plain address, without repeating it, because it may contain a secret."""
    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, TypeError):
        raise InputError("base_url is not a valid address; give one like http://127.0.0.1:8000/v1") from None
    if parts.scheme not in {"http", "https"} or not parts.host:
        raise InputError(
            "base_url must begin with http:// or https:// and name a host; give one like http://127.0.0.1:8000/v1"
        )
    if parts.userinfo or "?" in url or "#" in url:
        raise InputError(
            "base_url must not contain a user, a password, a query or a fragment; put the key into the environment"
        )


def _tokens(content: Any, most: Tokens) -> Tokens:
    usage = content.get("usage") or {}
    counts = ((usage.get("prompt_tokens"), most.prompt), (usage.get("completion_tokens"), most.completion))
    read, written = (count if isinstance(count, int) and count >= 0 else bound for count, bound in counts)
    return Tokens(read, written, most.images)


async def _received(response: httpx.Response, largest: int) -> memoryview:
    """Read an answer as it arrives, up to `largest` bytes.

    It is returned as a memoryview, whose repr shows no content: some services repeat the key, and some tracebacks show
    all variables.
    """
    if response.headers.get("content-encoding", "identity").strip().lower() not in {"", "identity"}:
        raise Again("a compressed answer, which was not requested")
    received = bytearray()
    async for chunk in response.aiter_raw():
        received += chunk
        if len(received) > largest:
            raise Again(f"an answer of more than {largest:,} bytes, which is longer than requested")
    return memoryview(received)


def _error_code(content: bytes) -> str:
    """Return the service's error code, only if it is a plain word, because messages may repeat prompts and keys."""
    try:
        error = json.loads(content)["error"]
        words = [error.get("code"), error.get("type")]
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return ""
    return next((word for word in words if isinstance(word, str) and re.fullmatch(r"[a-z_]{1,40}", word)), "")


def _seconds(retry_after: str) -> float | None:
    """Parse a Retry-After header, which contains seconds or a date."""
    if re.fullmatch(r"\d{1,9}(\.\d+)?", retry_after):
        return float(retry_after)
    try:
        then = parsedate_to_datetime(retry_after)
    except ValueError:
        return None
    then = then if then.tzinfo else then.replace(tzinfo=UTC)
    return max(0.0, (then - datetime.now(UTC)).total_seconds())
