"""Images of a service, against a real server on the loopback that fails as real ones do."""

import base64
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from command import gape, one_line_error
from contracts.generator import TextGeneratorContract
from faulty_server import FORBIDDEN, FaultyServer, drawn
from gape.core.errors import InputError, ServiceError, SpendingError
from gape.core.protocols import Generator
from gape.embedders.images.decoding import read_image
from gape.embedders.images.png import Shape, as_png, encode, stack
from gape.generators.images.service import ImageService, ServiceImages
from gape.language.request import Request
from gape.language.stored import Stored, stored_tokens
from gape.runs.folder.layout import Layout
from modalities.images.pictures import picture, write_folder

SMALL = Shape(8, 8, 3)


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def reach(server: FaultyServer, **settings: Any) -> ImageService:
    """A client in a hurry."""
    return ImageService(
        base_url=server.url, shape=SMALL, **{"model": "tiny", "backoff": 0.01, "timeout": 20.0, **settings}
    )


def new(count: int) -> list[Request]:
    return [Request("a photo of a red door", picture="", seed=seed) for seed in range(count)]


class TestContract(TextGeneratorContract):
    """A service draws as it likes; stored answers make the seed decide."""

    @pytest.fixture(autouse=True)
    def _stored(self, tmp_path: Path) -> Iterator[None]:
        with FaultyServer() as server:
            self.model = Stored(reach(server), tmp_path / "answers.sqlite")
            yield
            self.model.close()

    def make(self) -> Generator:
        return ServiceImages(self.model, "a photo")


def test_requests_have_the_fields_of_both_endpoints_and_answers_the_public_shape(
    serve: Callable[..., FaultyServer],
) -> None:
    server, before = serve(), encode(picture(1, 8, 8))
    service = reach(server, options={"quality": "low", "size": "512x512"})
    asked = [Request("a new one", picture=""), Request("another of it", picture=before)]
    answers = dict(service.complete(asked))
    assert server.bodies[0] == {
        "model": "tiny", "prompt": "a new one", "n": 1, "size": "512x512", "quality": "low",
        "response_format": "b64_json",
    }  # fmt: skip
    assert server.bodies[1] == {**server.bodies[0], "prompt": "another of it", "n": "1", "image": as_png(before)}
    for number, body in enumerate(server.bodies, start=1):
        answer = drawn(body, number)["data"][0]["b64_json"]
        expected, _ = read_image(base64.b64decode(answer), SMALL, "it")
        np.testing.assert_array_equal(stack([answers[number - 1].text])[0], expected)
    assert service.usage.images == 2


def test_a_model_that_always_returns_files_is_not_told_to(serve: Callable[..., FaultyServer]) -> None:
    server = serve(always_files=True, model="gpt-image-1")
    assert len(list(reach(server, model="gpt-image-1").complete(new(1)))) == 1
    assert len(server.bodies) == 1
    server = serve(always_files=True)
    before = encode(picture(1, 8, 8))
    assert len(list(reach(server).complete([*new(1), Request("vary", picture=before)]))) == 2
    assert [("response_format" in body) for body in server.bodies] == [True, False] * 2


@pytest.mark.parametrize("fault", ["busy", "error", "cut", "broken image", "bomb image"])
def test_passing_faults_are_retried_and_each_image_that_was_drawn_counts(
    serve: Callable[..., FaultyServer], fault: str
) -> None:
    server = serve(fault, rate=0.0, first=1, retry_after="0.1")
    service = reach(server)
    ((_, answer),) = service.complete(new(1))
    assert stack([answer.text]).shape == (1, 8, 8, 3)
    assert service.usage.retries == 1
    assert service.usage.images == (1 if fault in {"busy", "error"} else 2)


def test_refusals_cost_their_own_image_and_addresses_are_not_followed(serve: Callable[..., FaultyServer]) -> None:
    server, rng = serve(), np.random.default_rng(0)
    assert list(reach(server).complete([Request(f"draw {FORBIDDEN}", picture="")])) == []
    allowed, refused = (ServiceImages(reach(server), prompt) for prompt in ("a door", FORBIDDEN))
    samples = allowed.random(2, rng)
    np.testing.assert_array_equal(refused.vary(samples, np.full(2, 0.5), rng), samples)  # one bad answer, no new image
    with pytest.raises(ServiceError, match="usable answers to 0 of 12 prompts"):
        refused.random(12, rng)
    with pytest.raises(ServiceError, match="addresses of images, which are not followed"):
        list(reach(serve("address", rate=1.0)).complete(new(1)))


def test_caps_on_images_and_on_money_stop_before_they_are_exceeded(serve: Callable[..., FaultyServer]) -> None:
    for caps, most in (({"max_images": 3}, 3), ({"max_cost": 0.21, "image_price": 0.05}, 4)):
        server = serve(delay=0.02)
        service = reach(server, **caps)
        with pytest.raises(SpendingError, match="image"):
            list(service.complete(new(9)))
        assert service.usage.images == server.tokens == most
    with pytest.raises(InputError, match="needs prices"):
        reach(server, max_cost=1.0)
    with pytest.raises(InputError, match="options must not contain n, prompt"):
        reach(server, options={"n": 3, "prompt": "x"})


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("schema.toml").write_text('width = 8\nheight = 8\ncolours = "rgb"\n[options]\nquality = "low"\n')
    return write_folder(tmp_path / "private", 30)


def asked(data: Path, server: FaultyServer, *more: str) -> list[str]:
    plan = ("--epsilon", "8", "--samples", "4", "--rounds", "2", "--scales", "0.3,0.6", "--modality", "images")
    service = ("--generator", "openai-images:tiny", "--base-url", server.url, "--concurrency", "2")
    return [str(data), "--schema", "schema.toml", *plan, *service, *more]


def test_a_killed_run_resumes_and_pays_for_no_stored_image_again(
    serve: Callable[..., FaultyServer], data: Path
) -> None:
    whole = serve()
    assert gape("run", *asked(data, whole, "--out", "whole")).exit_code == 0
    images, path = whole.tokens, Layout(Path("whole")).answers
    assert stored_tokens(path)[1].images == images >= 20

    server = serve(delay=0.05)
    given = asked(data, server, "--out", "run", "--ledger", "ledger.sqlite", "--image-price", "0.04")
    command = [sys.executable, "-m", "gape", "run", *given, "--max-cost", str(0.04 * images + 0.05)]
    with subprocess.Popen(command, env=os.environ, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and server.tokens < images // 2:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    time.sleep(0.2)  # for answers under way
    stored, sent = stored_tokens(Layout(Path("run")).answers)[1].images, server.tokens
    assert 0 < sent - 2 <= stored <= sent
    done = gape("resume", "run", "--max-cost", str(0.04 * (images - 1)))
    assert done.exit_code == 1
    assert "which exceeds the cap of a cost of" in " ".join(done.stderr.split())
    done = gape("resume", "run", "--max-cost", "9", "--max-images", str(images))
    assert done.exit_code == 0, done.stderr
    assert server.tokens - sent == images - stored
    assert gape("audit", "run").exit_code == 0

    private = {body for path in data.iterdir() for body in (path.read_bytes(),)}
    pictures = [body["image"] for body in server.bodies if "image" in body]
    assert pictures
    assert not private & set(pictures)
    assert {body["prompt"] for body in server.bodies if "image" not in body} == {"a photo"}


def test_images_chosen_by_exact_votes_leave_only_with_consent_and_caps_need_a_service(
    serve: Callable[..., FaultyServer], data: Path
) -> None:
    server = serve()
    exact = [*asked(data, server, "--out", "exact"), "--epsilon", "inf"]
    assert "would be asked to vary images chosen by votes without noise" in one_line_error(gape("run", *exact))
    assert not server.bodies
    fonts = [*asked(data, server), "--generator", "fonts", "--max-images", "9", "--out", "fonts"]
    assert "max_images limits openai-images:MODEL" in one_line_error(gape("run", *fonts))
    planned = " ".join(gape("plan", *asked(data, server, "--image-price", "0.5")).stdout.split())
    assert "images of openai-images:tiny" in planned
    assert "cost about" in planned
    assert not server.bodies
