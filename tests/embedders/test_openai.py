from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from faulty_server import FORBIDDEN, FaultyServer, vector_of
from gape.core.errors import InputError, PrivacyError, ServiceError, SpendingError
from gape.core.types import Samples
from gape.embedders.cached import Cached
from gape.embedders.identity import IdentityEmbedder
from gape.embedders.openai import OpenAIEmbedder
from gape.embedders.privacy import require_private_embedding
from gape.language.openai import OpenAIModel
from gape.language.request import Request
from gape.language.spending import Purse


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def reach(server: FaultyServer, **settings: Any) -> OpenAIEmbedder:
    return OpenAIEmbedder(
        model="tiny", base_url=server.url, **{"backoff": 0.01, "timeout": 20.0, "batch": 3, **settings}
    )


def texts(*words: str) -> Samples:
    return np.array(words, dtype=object)


SOME = texts(*(f"text number {i}" for i in range(20)))


def expected(samples: Samples) -> np.ndarray:
    rows = np.array([vector_of(text) for text in samples])
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


@pytest.mark.parametrize("faults", [(), ("busy", "error", "cut", "garbled")])
def test_every_text_gets_its_unit_vector_in_order(serve: Callable[..., FaultyServer], faults: tuple[str, ...]) -> None:
    server = serve(*faults, rate=0.2, seed=3)
    points = reach(server).embed(SOME)
    assert points.dtype == np.float32
    np.testing.assert_allclose(points, expected(SOME), atol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0, atol=1e-6)
    assert len(server.bodies) == 7 + server.failed.total()
    assert bool(server.failed) == bool(faults)


def test_the_empty_text_has_an_embedding_too(serve: Callable[..., FaultyServer]) -> None:
    np.testing.assert_allclose(reach(serve()).embed(texts("a", "")), expected(texts("a", " ")), atol=1e-6)


def test_fixed_width_text_arrays_are_texts(serve: Callable[..., FaultyServer]) -> None:
    assert reach(serve()).embed(np.array(["a", "bc"])).shape == (2, 4)


def test_a_text_without_an_embedding_is_an_error_that_does_not_repeat_it(serve: Callable[..., FaultyServer]) -> None:
    with pytest.raises(ServiceError, match="1 of 2 requests") as refused:
        reach(serve()).embed(texts("a", "b", "c", f"here is {FORBIDDEN}"))
    assert FORBIDDEN not in str(refused.value)


@pytest.mark.parametrize("samples", [np.zeros((2, 3)), np.zeros(2), texts()])
def test_only_texts_are_embedded(samples: Samples) -> None:
    with pytest.raises(InputError, match="samples must be one or more texts"):
        OpenAIEmbedder(model="tiny").embed(samples)


def test_caps_hold_here_too(serve: Callable[..., FaultyServer]) -> None:
    server = serve()
    embedder = reach(server, max_tokens_total=150)
    with pytest.raises(SpendingError):
        embedder.embed(np.tile(SOME, 5))
    assert server.tokens == embedder.usage.prompt_tokens <= 150


def test_a_service_that_writes_and_one_that_embeds_share_their_caps(serve: Callable[..., FaultyServer]) -> None:
    server, purse = serve(), Purse(None, 0.01, (2.0, 50.0))
    writer = OpenAIModel(model="tiny", base_url=server.url, completion_price=2.0, purse=purse)
    embedder = reach(server, prompt_price=50.0, purse=purse)
    embedder.embed(SOME)
    list(writer.complete([Request("Write.", seed=seed) for seed in range(3)]))
    spent = embedder.usage.cost + writer.usage.cost
    assert embedder.usage.cost == pytest.approx(60 * 50 / 1e6)
    assert 0 < writer.usage.cost < spent <= 0.01
    with pytest.raises(SpendingError, match=r"of a cost of 0\.01; raise the cap to continue") as refused:
        embedder.for_public_samples().embed(np.tile(SOME, 10))
    assert "60" not in str(refused.value)  # the tokens of private texts
    with pytest.raises(SpendingError):
        list(writer.complete([Request("Write.", seed=9)]))


def test_private_texts_count_for_each_process_that_sent_them_and_public_ones_once(
    serve: Callable[..., FaultyServer],
) -> None:
    server, public = serve(), list[int]()
    first = reach(server, max_tokens_total=2000, sent=1, counted=public.append)
    first.embed(SOME)  # 60 tokens, for the second time
    assert (first.usage.prompt_tokens, first.usage.requests, public) == (120, 7, [])
    first.for_public_samples().embed(texts("one two three"))
    assert public == [3]
    server.bodies.clear()
    with pytest.raises(SpendingError):  # what was used before may be more than the cap
        reach(server, max_tokens_total=500, sent=1).embed(SOME)
    assert server.bodies == []


def test_batches_need_a_size() -> None:
    with pytest.raises(InputError, match="batch must be at least 1"):
        OpenAIEmbedder(model="tiny", batch=0)


def test_a_private_text_is_alone_in_its_request(serve: Callable[..., FaultyServer]) -> None:
    server = serve()
    embedder = OpenAIEmbedder(model="tiny", base_url=server.url)
    embedder.embed(SOME)
    assert [len(body["input"]) for body in server.bodies] == [1] * len(SOME)
    server.bodies.clear()
    Cached(embedder).embed(SOME)  # of candidates, which are public
    assert [len(body["input"]) for body in server.bodies] == [len(SOME)]


def test_a_service_is_known_by_its_model_and_address_alone() -> None:
    first, other = (OpenAIEmbedder(model="tiny", concurrency=n, private_text_may_leave=n > 1) for n in (1, 9))
    assert repr(first) == repr(other) == repr(first.for_public_samples())


def test_private_text_leaves_the_machine_only_by_consent() -> None:
    with pytest.raises(PrivacyError, match="private_text_may_leave=True"):
        require_private_embedding(OpenAIEmbedder(model="tiny"))
    require_private_embedding(OpenAIEmbedder(model="tiny", private_text_may_leave=True))
    require_private_embedding(IdentityEmbedder())
