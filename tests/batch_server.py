"""A service with a Batch API on the loopback that keeps the books: what each request was paid for, and how often."""

import json
import re
import threading
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

from faulty_server import FORBIDDEN, answer_to

FINAL = ("output_file_id", "error_file_id")


@dataclass
class BatchServer:
    """Serves until left as a context. Batches are numbered from 0; a batch ends when it was looked at often enough."""

    looks: int = 1  # that find a batch unfinished
    held: bool = False  # no batch ends while this is set
    partly: Collection[int] = ()  # batches in which every third request fails, in turns of three kinds
    expiring: Collection[int] = ()  # batches that end with half of their requests
    lost: Collection[int] = ()  # batches that are made, and whose answer is never sent
    busy: Collection[str] = ()  # paths that are refused once, as too busy
    most: int = 10**6  # requests that may be in a batch
    answer: Callable[[str, int], str] = answer_to

    paid: Counter[str] = field(default_factory=Counter, init=False)  # by request: how often it was answered
    tokens: int = field(default=0, init=False)
    files: dict[str, bytes] = field(default_factory=dict, init=False)
    batches: dict[str, dict[str, Any]] = field(default_factory=dict, init=False)
    direct: int = field(default=0, init=False)  # requests outside batches

    def __post_init__(self) -> None:
        self._lock = threading.Lock()
        self._refused: set[str] = set()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.books = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def respond(self, method: str, path: str, query: str, body: bytes) -> tuple[int, Any]:
        """Return the status and the answer; None for an answer that is lost on its way."""
        with self._lock:
            if path in self.busy and path not in self._refused:
                self._refused.add(path)
                return 503, {"error": {"code": "server_error"}}
            return self._posted(path, body) if method == "POST" else self._read(path, query)

    def _posted(self, path: str, body: bytes) -> tuple[int, Any]:
        if path == "files":
            return 200, {"id": self._file(re.split(rb"\r\n--", body.split(b"\r\n\r\n", 2)[2])[0])}
        if path == "batches":
            return self._create(json.loads(body))
        self.direct += 1
        return 500, {}

    def _read(self, path: str, query: str) -> tuple[int, Any]:
        if path == "batches":
            return 200, {"data": self._page(query)}
        if found := re.fullmatch(r"batches/([\w-]+)", path):
            return (200, self._look(found[1])) if found[1] in self.batches else (404, {})
        found = re.fullmatch(r"files/([\w-]+)/content", path)
        return (200, self.files[found[1]]) if found else (404, {})

    def _page(self, query: str) -> list[dict[str, Any]]:
        newest = list(self.batches.values())[::-1]
        after = re.search(r"after=([\w-]+)", query)
        if after:
            newest = newest[[batch["id"] for batch in newest].index(after[1]) + 1 :]
        return newest[:100]

    def _file(self, content: bytes) -> str:
        name = f"file-{len(self.files)}"
        self.files[name] = content
        return name

    def _create(self, wanted: dict[str, Any]) -> tuple[int, Any]:
        assert wanted["endpoint"] == "/v1/chat/completions"
        number = len(self.batches)
        requests = [json.loads(line) for line in self.files[wanted["input_file_id"]].splitlines()]
        assert len({request["custom_id"] for request in requests}) == len(requests)
        batch = {
            "id": f"batch_{number}",
            "input_file_id": wanted["input_file_id"],
            "status": "in_progress",
            "request_counts": {"completed": 0},
            "seen": 0,
        }
        if len(requests) > self.most:
            batch |= {"status": "failed", "errors": {"data": [{"code": "token_limit_exceeded"}]}}
        self.batches[batch["id"]] = batch
        return 200, None if number in self.lost else batch

    def _look(self, name: str) -> dict[str, Any]:
        batch = self.batches[name]
        batch["seen"] += 1
        if batch["status"] == "in_progress" and batch["seen"] > self.looks and not self.held:
            self._end(batch)
        return batch

    def _end(self, batch: dict[str, Any]) -> None:
        number = int(batch["id"].partition("_")[2])
        requests = [json.loads(line) for line in self.files[batch["input_file_id"]].splitlines()]
        output, errors = [], []
        for place, request in enumerate(requests):
            if number in self.expiring and place >= len(requests) // 2:
                errors.append({"custom_id": request["custom_id"], "error": {"code": "batch_expired"}})
            elif number in self.partly and place % 3 == 0:
                errors += self._failure(request, place // 3)
            else:
                output.append(self._answered(request))
        batch["status"] = "expired" if number in self.expiring else "completed"
        for name, lines in zip(FINAL, (output[::-1], errors), strict=True):
            if lines:
                batch[name] = self._file("".join(json.dumps(line) + "\n" for line in lines).encode())

    def _failure(self, request: dict[str, Any], place: int) -> list[dict[str, Any]]:
        """Fail as real ones do: busy, broken, or without a word."""
        statuses = (429, 500)
        if place % 3 == 2:
            return []
        response = {"status_code": statuses[place % 3], "body": {"error": {"code": "server_error"}}}
        return [{"custom_id": request["custom_id"], "response": response, "error": None}]

    def _answered(self, request: dict[str, Any]) -> dict[str, Any]:
        body = request["body"]
        prompt = body["messages"][0]["content"]
        if FORBIDDEN in prompt:
            refusal = {"status_code": 400, "body": {"error": {"code": "content_filter"}}}
            return {"custom_id": request["custom_id"], "response": refusal}
        words = self.answer(prompt, body["seed"]).split()
        text = " ".join(words[: body["max_tokens"]])
        usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": min(len(words), body["max_tokens"])}
        self.paid[json.dumps(body, sort_keys=True)] += 1
        self.tokens += sum(usage.values())
        reason = "length" if len(words) > body["max_tokens"] else "stop"
        choice = {"message": {"role": "assistant", "content": text}, "finish_reason": reason}
        response = {"status_code": 200, "body": {"choices": [choice], "usage": usage}}
        return {"custom_id": request["custom_id"], "response": response, "error": None}


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    books: BatchServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that are killed are part of the game."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name is the base class's)
        pass

    def do_POST(self) -> None:
        self._respond(self.rfile.read(int(self.headers["Content-Length"])))

    def do_GET(self) -> None:
        self._respond(b"")

    def _respond(self, body: bytes) -> None:
        path, _, query = self.path.removeprefix("/v1/").partition("?")
        status, answer = self.server.books.respond(self.command, path, query, body)
        if answer is None:
            self.close_connection = True
            return
        payload = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
        head = f"HTTP/1.1 {status} -\r\nContent-Type: application/json\r\nContent-Length: {len(payload)}\r\n\r\n"
        self.wfile.write(head.encode() + payload)
