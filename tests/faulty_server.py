"""A service of chats, embeddings and images on the loopback that fails as real ones do, by a seeded plan."""

import base64
import gzip
import hashlib
import io
import json
import random
import threading
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from email import message_from_bytes
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

import numpy as np
from PIL import Image

PASSING = ("busy", "error", "hang", "cut", "garbled", "empty")  # a second attempt succeeds
REFUSALS = ("filtered", "refused")  # no attempt does
MOST_FLOODED = 2**28  # bytes
FORBIDDEN = "the forbidden word"  # prompts that hold it are always refused


def answer_to(prompt: str, seed: int) -> str:
    """What the service always answers: eight words that no other request gets."""
    digest = hashlib.sha256(json.dumps([seed, prompt]).encode()).hexdigest()
    return " ".join(digest[i : i + 8] for i in range(0, 64, 8))


def vector_of(text: str) -> list[float]:
    """What the service always embeds a text as: four numbers, not of length 1."""
    return [float(byte) + 1.0 for byte in hashlib.sha256(text.encode()).digest()[:4]]


@dataclass
class FaultyServer:
    """Serves until left as a context. Which arrivals fail, and how, is drawn from the seed; tokens are words."""

    faults: Sequence[str] = ()
    rate: float = 0.1
    seed: int = 0
    first: int = 0  # this many arrivals fail before any other is looked at
    delay: float = 0.0  # seconds before every answer
    hang: float = 30.0  # seconds of silence of one that hangs
    key: str = ""
    azure: str = ""  # the version of its protocol that an Azure service asks for, with the key in a header of its own
    model: str = "tiny"
    retry_after: str = "1"  # the header that comes with "busy"
    relents: int = 0  # a request that has failed so often is answered; 0: none is
    port: int = 0  # 0: any
    always_files: bool = False  # whether to refuse to be told that images should come as files
    schemas: str = "ignored"  # what becomes of the JSON schema of an answer; or "kept", or "refused"

    flooded: int = field(default=0, init=False)  # bytes of answers that do not end
    bodies: list[dict[str, Any]] = field(default_factory=list, init=False)  # all requests it ever got
    times: list[float] = field(default_factory=list, init=False)  # when each of them came
    failed: Counter[str] = field(default_factory=Counter, init=False)
    tokens: int = field(default=0, init=False)  # read and written, all told
    most_at_once: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)  # noqa: S311  (a plan, not a secret)
        self._lock = threading.Lock()
        self._closing = threading.Event()
        self._at_once = 0
        self._failures: Counter[str] = Counter()  # by request
        self._server = _Server(("127.0.0.1", self.port), _Handler)
        self._server.faulty = self
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1"

    def arrive(self, body: dict[str, Any]) -> str:
        """Record an arrival and draw its fault, or "" for none."""
        with self._lock:
            self.bodies.append(body)
            self.times.append(time.monotonic())
            self._at_once += 1
            self.most_at_once = max(self.most_at_once, self._at_once)
            fault = ""
            if self.faults and (len(self.bodies) <= self.first or self._rng.random() < self.rate):
                fault = self._rng.choice(self.faults) if self._may_fail(body) else ""
                self.failed[fault] += bool(fault)
            return fault

    def _may_fail(self, body: dict[str, Any]) -> bool:
        if not self.relents:
            return True
        request = json.dumps(body, sort_keys=True, default=repr)
        self._failures[request] += 1
        return self._failures[request] <= self.relents

    def leave(self) -> None:
        with self._lock:
            self._at_once -= 1

    def pause(self, seconds: float) -> None:
        self._closing.wait(seconds)

    def spend(self, tokens: int) -> None:
        with self._lock:
            self.tokens += tokens


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    faulty: FaultyServer

    def handle_error(self, request: object, client_address: object) -> None:
        """Clients that hang up are part of the game."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  (the name is the base class's)
        pass

    def do_POST(self) -> None:
        faulty = self.server.faulty
        body = _received(self.headers["Content-Type"], self.rfile.read(int(self.headers["Content-Length"])))
        fault = faulty.arrive(body)
        try:
            faulty.pause(faulty.delay)
            self._respond(faulty, body, fault)
        finally:
            faulty.leave()

    def _respond(self, faulty: FaultyServer, body: dict[str, Any], fault: str) -> None:
        given = self.headers.get("api-key" if faulty.azure else "Authorization", "")
        if faulty.azure and self.path.partition("?")[2] != f"api-version={faulty.azure}":
            self._send(404, _error("Resource not found", "404"))
        elif faulty.key and given != (faulty.key if faulty.azure else f"Bearer {faulty.key}"):
            # Real services repeat parts of the key, and some all of it.
            self._send(401, _error(f"incorrect key {given}", "invalid_api_key"))
        elif body["model"] != faulty.model:
            self._send(404, _error("no such model", "model_not_found"))
        elif fault == "busy":
            self._send(429, _error("slow down", "rate_limit_exceeded"), ("Retry-After", faulty.retry_after))
        elif fault == "error":
            self._send(500, b"<html>oops</html>")
        elif fault == "refused" or FORBIDDEN in json.dumps(body, default=repr):
            self._send(400, _error(f"this is not allowed: {json.dumps(body, default=repr)}", "content_filter"))
        elif (
            fault == "unsupported"
            or (faulty.always_files and "response_format" in body)
            or (faulty.schemas == "refused" and "response_format" in body)
        ):
            self._send(400, _error("unsupported", "unsupported_parameter"))
        elif fault == "no credit":
            self._send(429, _error("pay first", "insufficient_quota"))
        elif fault == "bomb":
            whole = json.dumps(_completion(body, fault)).replace('"stop"', f'"{"a" * 10**8}"').encode()
            self._send(200, gzip.compress(whole, 1), ("Content-Encoding", "gzip"))
        elif fault == "flood":
            self._flood(faulty)
        elif fault == "hang":
            faulty.pause(faulty.hang)
            self.close_connection = True
        else:
            self._answer(faulty, body, fault)

    def _answer(self, faulty: FaultyServer, body: dict[str, Any], fault: str) -> None:
        if "/images/" in self.path:
            faulty.spend(1)
            self._send(200, json.dumps(drawn(body, len(faulty.bodies), fault)).encode(), cut=fault == "cut")
            return
        content = _embeddings(body) if self.path.endswith("/embeddings") else _completion(body, fault)
        if faulty.schemas == "kept" and "response_format" in body:
            message = content["choices"][0]["message"]
            message["content"] = _kept(message["content"], body["response_format"], fault)
        faulty.spend(content["usage"]["total_tokens"])
        if fault == "silent":
            del content["usage"]
        payload = json.dumps(content).encode()
        if fault == "garbled":
            payload = payload[: len(payload) // 2]
        self._send(200, payload, cut=fault == "cut")

    def _flood(self, faulty: FaultyServer) -> None:
        """Send an answer that does not end, until the client hangs up."""
        self.close_connection = True
        self.wfile.write(b'HTTP/1.1 200 -\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n{"choices": "')
        while faulty.flooded < MOST_FLOODED:
            self.wfile.write(b"a" * 2**16)
            faulty.flooded += 2**16

    def _send(self, status: int, payload: bytes, *headers: tuple[str, str], cut: bool = False) -> None:
        lines = [f"HTTP/1.1 {status} -", "Content-Type: application/json", f"Content-Length: {len(payload)}"]
        lines += [f"{name}: {value}" for name, value in headers]
        # In one piece: two would wait for each other on the wire.
        self.wfile.write("\r\n".join([*lines, "", ""]).encode() + payload[: len(payload) // 2 if cut else None])
        self.close_connection = self.close_connection or cut


def drawn(body: dict[str, Any], number: int, fault: str = "") -> dict[str, Any]:
    """Draw what is asked for as PNG: a new image has the colour of its prompt, an edit is near the one it varies."""
    rng = np.random.default_rng(number)
    if "image" in body:
        with Image.open(io.BytesIO(body["image"])) as image:
            pixels = np.asarray(image.convert("RGB").resize((16, 16)), dtype=np.int64) + rng.integers(
                -20, 20, (16, 16, 3)
            )
    else:
        colour = np.frombuffer(hashlib.sha256(body["prompt"].encode()).digest()[:3], np.uint8)
        pixels = colour.astype(np.int64) + rng.integers(-60, 60, (16, 16, 3))
    sink, small = io.BytesIO(), Image.fromarray(pixels.clip(0, 255).astype(np.uint8))
    (Image.new("1", (9000, 9000)) if fault == "bomb image" else small).save(sink, "PNG")
    content = sink.getvalue()[: 60 if fault == "broken image" else None]
    if fault == "address":
        return {"data": [{"url": "http://127.0.0.1:1/image.png"}]}
    return {"data": [{"b64_json": base64.b64encode(content).decode()}]}


def _received(kind: str, content: bytes) -> dict[str, Any]:
    """Read a request as JSON, or as a form with a file."""
    if kind == "application/json":
        body: dict[str, Any] = json.loads(content)
        return body
    form = message_from_bytes(b"Content-Type: " + kind.encode() + b"\r\n\r\n" + content)
    parts = {
        str(part.get_param("name", header="content-disposition")): part
        for part in form.walk()
        if not part.is_multipart()
    }
    return {
        name: part.get_payload(decode=True) if part.get_filename() else part.get_payload()
        for name, part in parts.items()
    }


def _completion(body: dict[str, Any], fault: str) -> dict[str, Any]:
    prompt = body["messages"][0]["content"]
    words = answer_to(prompt, body.get("seed", 0)).split()
    text = "" if fault in {"empty", "filtered"} else " ".join(words[: body["max_tokens"]])
    reason = "content_filter" if fault == "filtered" else "length" if len(words) > body["max_tokens"] else "stop"
    return {
        "choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": reason}],
        "usage": _usage(len(prompt.split()), min(len(words), body["max_tokens"])),
    }


def _kept(text: str, asked: dict[str, Any], fault: str) -> str:
    """Put a text into the object that was asked for, or do as models that are no good at it."""
    ((name, cell),) = asked["json_schema"]["schema"]["properties"].items()
    if cell["type"] == "array":
        roles = cell["items"]["properties"]["role"]["enum"]
        answer = json.dumps({name: [{"role": role, "content": text} for role in roles]})
    else:
        answer = json.dumps({name: text})
    strange = {"broken json": answer[:-3], "other columns": json.dumps({"answer": text}), "huge": f"{answer} " * 50_000}
    return strange.get(fault, answer)


def _embeddings(body: dict[str, Any]) -> dict[str, Any]:
    data = [{"index": i, "embedding": vector_of(text)} for i, text in enumerate(body["input"])]
    return {"data": data[::-1], "usage": _usage(sum(len(text.split()) for text in body["input"]), 0)}


def _usage(prompt: int, completion: int) -> dict[str, int]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}


def _error(message: str, code: str) -> bytes:
    return json.dumps({"error": {"message": message, "type": "error", "code": code}}).encode()
