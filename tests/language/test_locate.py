import hashlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

import made_gguf
from gape.core.errors import InputError, ServiceError
from gape.language.catalogue import CATALOGUE, GEMMA
from gape.language.locate import check_name, locate, reaches_outside, weights_of
from gape.language.weights import SMOLLM2

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub(ThreadingHTTPServer):
    """The part of the hub's protocol by which one file is fetched: its description by HEAD, its content by GET."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.content = b""
        self.seen: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_HEAD(self) -> None:
        self._answer(head=True)

    def do_GET(self) -> None:
        self._answer(head=False)

    def _answer(self, *, head: bool) -> None:
        self.server.seen.append(f"{self.command} {self.path}")
        if self.path != "/some/stories/resolve/main/q/stories.gguf":
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("X-Repo-Commit", COMMIT)
        self.send_header("ETag", f'"{hashlib.sha256(self.server.content).hexdigest()}"')
        self.send_header("Content-Length", str(len(self.server.content)))
        self.end_headers()
        if not head:
            self.wfile.write(self.server.content)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    server = Hub()
    server.content = made_gguf.make(tmp_path / "made.gguf", made_gguf.LLAMA).read_bytes()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def located(hub: Hub, home: Path, name: str) -> subprocess.CompletedProcess[str]:
    """Locate a model in another process, because the library reads the address of the hub once."""
    script = (
        "import json, sys; from gape.core.errors import GapeError; from gape.language.locate import locate\n"
        "try: print(json.dumps(str(locate(sys.argv[1]))))\n"
        "except GapeError as error: print(json.dumps([type(error).__name__, str(error)]))"
    )
    variables = {**os.environ, "HF_ENDPOINT": hub.url, "HF_HOME": str(home), "HF_HUB_DISABLE_XET": "1"}
    command = [sys.executable, "-c", script, name]
    return subprocess.run(command, env=variables, capture_output=True, text=True, check=True)


class TestHub:
    def test_a_file_is_fetched_once_and_used_without_the_hub_afterwards(self, hub: Hub, tmp_path: Path) -> None:
        name, home = "hub:some/stories/q/stories.gguf", tmp_path / "home"
        path = Path(json.loads(located(hub, home, name).stdout))
        assert path.read_bytes() == hub.content
        asked = len(hub.seen)
        assert Path(json.loads(located(hub, home, name).stdout)) == path
        assert len(hub.seen) == asked

    def test_a_file_that_is_not_there(self, hub: Hub, tmp_path: Path) -> None:
        kind, message = json.loads(located(hub, tmp_path / "home", "hub:some/stories/other.gguf").stdout)
        assert kind == ServiceError.__name__
        assert "other.gguf of some/stories cannot be fetched from the hub" in message

    @pytest.mark.parametrize("name", ["hub:stories.gguf", "hub:some/stories.gguf", "hub:some/stories/weights.bin"])
    def test_an_incomplete_address(self, name: str) -> None:
        with pytest.raises(InputError, match=r"is named hub:OWNER/REPO/FILE\.gguf"):
            check_name(name)


class TestNames:
    def test_the_default_the_catalogue_and_a_file(self, tmp_path: Path) -> None:
        assert weights_of("") is SMOLLM2
        assert weights_of("Gemma-3-270M") is GEMMA
        file = made_gguf.make(tmp_path / "made.gguf")
        assert weights_of(str(file)) is None
        assert locate(str(file)) == file

    def test_only_known_content_is_inside(self) -> None:
        assert [reaches_outside(name) for name in ("", "gemma-3-270m", "x.gguf", "hub:a/b/c.gguf")] == [0, 0, 1, 1]

    def test_unknown_names_and_missing_files(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match="there is no embedded model 'gpt'; use one of SmolLM2"):
            check_name("gpt")
        with pytest.raises(InputError, match="there is no model file"):
            check_name(str(tmp_path / "none.gguf"))

    def test_the_catalogue_is_pinned(self) -> None:
        for name, listed in CATALOGUE.items():
            assert name == listed.name.lower()
            assert len({part.sha256 for part in listed.weights.parts}) == len(listed.weights.parts)
            assert all(
                len(digest) == 64 for digest in (listed.weights.sha256, *(p.sha256 for p in listed.weights.parts))
            )
            assert listed.weights.licence == "Apache-2.0" or listed.weights.terms
