"""The client against a real server on the loopback that fails as real ones do."""

import logging
import os
import resource
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any, ClassVar

import pytest

from contracts.language_model import LanguageModelContract
from faulty_server import FORBIDDEN, PASSING, REFUSALS, FaultyServer, answer_to
from gape.core.errors import GapeError, InputError, ServiceError, SpendingError
from gape.language.http import Again
from gape.language.openai import OpenAIModel
from gape.language.request import LanguageModel, Request

KEY = "sk-Very53cretKey0fTheUser"


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def reach(server: FaultyServer, **settings: Any) -> OpenAIModel:
    """A client in a hurry."""
    return OpenAIModel(base_url=server.url, **{"model": "tiny", "backoff": 0.01, "timeout": 20.0, **settings})


def prompts(count: int, **settings: Any) -> list[Request]:
    return [Request(f"prompt {i}", seed=i, **settings) for i in range(count)]


def right(requests: list[Request]) -> dict[int, str]:
    return {place: answer_to(request.prompt, request.seed) for place, request in enumerate(requests)}


def texts(model: LanguageModel, requests: list[Request]) -> dict[int, str]:
    return {place: completion.text for place, completion in model.complete(requests)}


class TestOpenAIModel(LanguageModelContract):
    failing: ClassVar[Request | None] = Request(f"Say {FORBIDDEN}.")

    @pytest.fixture(autouse=True)
    def _server(self) -> Iterator[None]:
        with FaultyServer() as self.server:
            yield

    def make(self) -> LanguageModel:
        return reach(self.server)


def test_the_request_is_sent_as_it_is_and_the_answer_comes_back_whole(serve: Callable[..., FaultyServer]) -> None:
    server = serve()
    model = reach(server, options={"top_p": 0.9, "seed": None})
    requests = [Request("häh \ud800?", max_tokens=3, temperature=0.5, seed=7), Request("b", max_tokens=8)]
    (cut, whole) = (completion for _, completion in sorted(model.complete(requests)))
    assert (cut.finished, cut.completion_tokens, cut.prompt_tokens) == (False, 3, 2)
    assert (whole.finished, whole.completion_tokens, whole.text) == (True, 8, answer_to("b", 0))
    body = next(body for body in server.bodies if body["max_tokens"] == 3)
    assert body == {
        "model": "tiny",
        "messages": [{"role": "user", "content": "häh \ud800?"}],
        "max_tokens": 3,
        "temperature": 0.5,
        "top_p": 0.9,
    }
    assert not model.can_continue
    assert model.usage.requests == 2


def test_the_name_tells_models_services_and_options_apart() -> None:
    models = [
        OpenAIModel(model="a"),
        OpenAIModel(model="b"),
        OpenAIModel(model="a", base_url="http://127.0.0.1:1/v1"),
        OpenAIModel(model="a", options={"top_p": 0.5}),
    ]
    assert len({model.name for model in models}) == 4
    assert OpenAIModel(model="a", concurrency=3, max_tokens_total=9).name == models[0].name


def test_with_one_fault_in_ten_every_sample_is_filled(serve: Callable[..., FaultyServer]) -> None:
    server = serve(*PASSING, seed=4)
    model = reach(server, timeout=1.5)
    requests = prompts(200)
    assert texts(model, requests) == right(requests)
    assert set(server.failed) == set(PASSING)
    assert 210 < len(server.bodies) <= 300
    assert model.usage.requests == len(server.bodies)
    assert model.usage.retries == len(server.bodies) - 200


def test_a_refusal_costs_its_one_sample(serve: Callable[..., FaultyServer]) -> None:
    server = serve(*REFUSALS, seed=1)
    requests = prompts(100)
    answers = texts(reach(server), requests)
    assert set(server.failed) == set(REFUSALS)
    assert len(server.bodies) == 100  # none of them is tried again
    assert len(answers) == 100 - server.failed.total()
    assert answers.items() <= right(requests).items()


@pytest.mark.parametrize("fault", ["bomb", "flood"])
def test_an_answer_without_end_is_cut_off_and_asked_for_again(serve: Callable[..., FaultyServer], fault: str) -> None:
    server, requests = serve(fault, rate=1.0, relents=1), prompts(3, max_tokens=50)
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert texts(reach(server, timeout=30.0), requests) == right(requests)
    assert server.failed[fault] == 3
    assert server.flooded < 100 * 2**20  # what is cut off, and what lay in the buffers of sockets meanwhile
    if fault == "flood":
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - most < 64 * 2**10


def test_an_answer_of_more_tokens_than_asked_for_is_refused(serve: Callable[..., FaultyServer]) -> None:
    job = reach(serve())._job(Request("Hello.", max_tokens=2))
    answer = {"choices": [{"message": {"content": "word " * 100}, "finish_reason": "stop"}]}
    with pytest.raises(Again, match="more tokens than requested"):
        job.read(answer, job.most)


def test_the_service_says_after_how_many_seconds_to_come_back(serve: Callable[..., FaultyServer]) -> None:
    server = serve("busy", rate=0.0, first=1, retry_after="1")
    assert texts(reach(server), prompts(1)) == right(prompts(1))
    first, second = server.times
    assert 1.0 <= second - first < 10.0


def test_the_service_says_at_what_date_to_come_back(serve: Callable[..., FaultyServer]) -> None:
    then = (datetime.now(UTC) + timedelta(seconds=2)).replace(microsecond=0)
    server = serve("busy", rate=0.0, first=1, retry_after=format_datetime(then, usegmt=True))
    assert texts(reach(server), prompts(1)) == right(prompts(1))
    assert then <= datetime.now(UTC) < then + timedelta(seconds=10)


def test_a_service_that_asks_for_an_hour_is_not_waited_for(serve: Callable[..., FaultyServer]) -> None:
    with pytest.raises(ServiceError, match="asks for a wait of 3,600 seconds"):
        texts(reach(serve("busy", rate=1.0, retry_after="3600")), prompts(1))


def test_at_most_so_many_are_in_flight(serve: Callable[..., FaultyServer]) -> None:
    server = serve(delay=0.02)
    assert len(texts(reach(server, concurrency=5), prompts(40))) == 40
    assert 2 <= server.most_at_once <= 5


def test_answers_that_nobody_takes_do_not_pile_up(serve: Callable[..., FaultyServer]) -> None:
    server = serve()
    answers = reach(server, concurrency=3).complete(prompts(50))
    next(answers)
    time.sleep(0.3)
    assert len(server.bodies) <= 4
    assert len(list(answers)) == 49


def test_answers_come_as_they_finish(serve: Callable[..., FaultyServer]) -> None:
    server = serve("hang", rate=0.0, first=1, hang=1.0)
    places = [place for place, _ in reach(server, concurrency=2, timeout=20.0).complete(prompts(10))]
    assert sorted(places) == list(range(10))
    assert places != list(range(10))  # the first one to arrive hung; the others did not wait for it


def test_a_client_that_leaves_sends_nothing_more(serve: Callable[..., FaultyServer]) -> None:
    server = serve(delay=0.05)
    answers = reach(server, concurrency=2).complete(prompts(100))
    next(answers)
    answers.close()  # type: ignore[attr-defined]
    time.sleep(0.3)
    assert len(server.bodies) <= 2


def test_an_interrupt_stops_it_at_once(serve: Callable[..., FaultyServer]) -> None:
    server = serve("hang", rate=1.0)

    def interrupt() -> None:
        while not server.bodies:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    with pytest.raises(KeyboardInterrupt):
        texts(reach(server, timeout=60.0, concurrency=2), prompts(10))
    assert time.monotonic() - server.times[0] < 10.0
    assert len(server.bodies) <= 2


def test_a_service_that_is_not_there_is_given_up(serve: Callable[..., FaultyServer]) -> None:
    with FaultyServer() as gone:
        model = reach(gone, attempts=3, patience=5, concurrency=1)
    with pytest.raises(ServiceError, match=r"5 requests to http.* failed in a row, the last with no connection"):
        texts(model, prompts(1_000))
    assert (model.usage.prompt_tokens, model.usage.retries) == (0, 10)  # what never left costs nothing


def test_a_service_that_nobody_reaches_is_dead_soon_whatever_its_retries(monkeypatch: pytest.MonkeyPatch) -> None:
    """By default after 15 seconds; without the limit, eight attempts with growing pauses take a minute."""
    monkeypatch.setattr("gape.language.http._DEAD", 2.0)
    with FaultyServer() as gone:
        model = reach(gone, backoff=0.5)
    began = time.monotonic()
    with pytest.raises(ServiceError, match=r"nothing has answered at http.* for 2 seconds; check the address"):
        texts(model, prompts(100))
    assert 2.0 <= time.monotonic() - began < 4.0


def test_a_service_that_comes_back_in_time_is_not_dead() -> None:
    with FaultyServer() as gone:
        model = reach(gone, backoff=0.2)
    port = int(gone.url.split(":")[2].partition("/")[0])
    answers: dict[int, str] = {}
    asking = threading.Thread(target=lambda: answers.update(texts(model, prompts(5))))
    asking.start()
    time.sleep(1.0)
    with FaultyServer(port=port):
        asking.join()
    assert answers == right(prompts(5))


def test_a_service_that_takes_no_such_request_is_given_up_with_its_reason(serve: Callable[..., FaultyServer]) -> None:
    server = serve("unsupported", rate=1.0)
    with pytest.raises(ServiceError, match=r"the last with status 400 \(unsupported_parameter\)"):
        texts(reach(server, patience=5, concurrency=1), prompts(1_000))
    assert len(server.bodies) == 5


def test_failures_in_a_row_are_counted_from_call_to_call(serve: Callable[..., FaultyServer]) -> None:
    model = reach(serve("error", rate=1.0), attempts=2, patience=3)
    assert texts(model, prompts(1)) == {}
    assert texts(model, prompts(1)) == {}
    with pytest.raises(ServiceError, match="status 500"):
        texts(model, prompts(1))


def test_an_unknown_model_or_an_empty_account_is_said_at_once(serve: Callable[..., FaultyServer]) -> None:
    with pytest.raises(ServiceError, match=r"no model 'huge'.*model_not_found"):
        texts(reach(serve(), model="huge"), prompts(3))
    with pytest.raises(ServiceError, match="no credit left"):
        texts(reach(serve("no credit", rate=1.0)), prompts(3))


def test_the_key_comes_from_the_environment_and_goes_nowhere_else(
    serve: Callable[..., FaultyServer], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server = serve(key=KEY)
    model = reach(server, key_variable="MY_KEY")
    with pytest.raises(ServiceError, match="MY_KEY is missing") as missing:
        texts(model, prompts(1))
    monkeypatch.setenv("MY_KEY", KEY)
    assert len(texts(model, prompts(1))) == 1
    server.key = "another"
    with pytest.raises(ServiceError, match="MY_KEY is wrong") as wrong:
        texts(model, prompts(20))
    monkeypatch.setenv("MY_KEY", f"{KEY}\n")
    with pytest.raises(InputError, match="MY_KEY contains spaces, line ends") as unusable:
        texts(model, prompts(1))
    errors = "".join("".join(traceback.format_exception(each.value)) for each in (missing, wrong, unusable))
    for said in (errors, caplog.text, repr(model), model.name, repr(vars(model))):
        assert KEY not in said
        assert "prompt 0" not in said


def test_azure_gets_its_version_and_the_key_in_its_own_header(
    serve: Callable[..., FaultyServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve(key=KEY, azure="2024-10-21")
    monkeypatch.setenv("AZURE_KEY", KEY)
    address = {"key_variable": "AZURE_KEY"}
    assert len(texts(reach(server, api_version="2024-10-21", **address), prompts(3))) == 3
    with pytest.raises(ServiceError, match="is not the address of the service"):
        texts(reach(server, api_version="2023-01-01", **address), prompts(1))
    monkeypatch.setenv("AZURE_KEY", "another")
    with pytest.raises(ServiceError, match="AZURE_KEY is wrong"):
        texts(reach(server, api_version="2024-10-21", **address), prompts(1))
    with pytest.raises(InputError, match="api_version must be a date like 2024-10-21"):
        reach(server, api_version="2024-10-21&x=1")


def test_a_key_may_come_from_a_file_that_nobody_else_may_read(
    serve: Callable[..., FaultyServer], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    server, path = serve(key=KEY), tmp_path / "key"
    model = reach(server, key_file=str(path))
    with pytest.raises(InputError, match=r"cannot be read \(FileNotFoundError\)"):
        texts(model, prompts(1))
    path.write_text(f"{KEY}\n")
    path.chmod(0o640)
    with pytest.raises(InputError, match="is open to other users; run: chmod 600") as refused:
        texts(model, prompts(1))
    path.chmod(0o600)
    assert len(texts(model, prompts(2))) == 2
    server.key = "another"
    with pytest.raises(ServiceError, match=r"the one in the file .* is wrong") as wrong:
        texts(model, prompts(9)[3:])
    errors = "".join("".join(traceback.format_exception(each.value)) for each in (refused, wrong))
    for said in (errors, caplog.text, repr(model), model.name, repr(vars(model))):
        assert KEY not in said


def test_errors_and_logs_hold_no_prompts(serve: Callable[..., FaultyServer], caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(ServiceError) as refused:
        texts(reach(serve("cut", "garbled", "error", rate=1.0), attempts=2, patience=3), prompts(9))
    assert texts(reach(serve("refused", rate=1.0)), prompts(9)) == {}
    assert "prompt 0" not in "".join(traceback.format_exception(refused.value)) + caplog.text


@pytest.mark.parametrize(
    "url",
    [
        "https://user:Very53cret@api.example.com/v1",
        "https://Very53cret@api.example.com/v1",
        "https://api.example.com/v1?key=Very53cret",
        "https://api.example.com/v1#Very53cret",
        "https://api.example.com:Very53cret/v1",
        "api.example.com/Very53cret",
        "ftp://api.example.com/Very53cret",
        "",
    ],
)
def test_addresses_that_hold_secrets_or_are_none_are_refused_unrepeated(url: str) -> None:
    with pytest.raises(InputError, match="base_url") as refused:
        OpenAIModel(model="tiny", base_url=url)
    assert "Very53cret" not in "".join(traceback.format_exception(refused.value, chain=True)).split("Error: ", 1)[1]


@pytest.mark.parametrize("faults", [(), ("cut", "garbled", "empty", "error", "silent")])
def test_the_cap_on_tokens_holds_on_the_server(serve: Callable[..., FaultyServer], faults: tuple[str, ...]) -> None:
    server = serve(*faults, seed=2)
    model = reach(server, max_tokens_total=2_000, concurrency=8)
    answers: dict[int, str] = {}
    with pytest.raises(SpendingError, match="which exceeds the cap of 2,000 tokens"):
        answers.update(texts(model, prompts(1_000, max_tokens=8)))
    most = len("prompt 999") + 128 + 8
    used = model.usage.prompt_tokens + model.usage.completion_tokens
    assert server.tokens <= used <= 2_000
    assert used > 2_000 - most  # it stopped only when one more might not have fitted
    assert len(server.bodies) == model.usage.requests
    if not faults:
        assert server.tokens == used
    sent = len(server.bodies)
    with pytest.raises(SpendingError):
        texts(model, [Request("a", max_tokens=1)])
    assert len(server.bodies) == sent


def test_what_was_in_flight_at_the_cap_is_answered(serve: Callable[..., FaultyServer]) -> None:
    server = serve(delay=0.02)
    model = reach(server, max_tokens_total=600, concurrency=8)
    answers = []
    with pytest.raises(SpendingError):  # noqa: PT012  (what came before the error counts)
        for answer in model.complete(prompts(1_000, max_tokens=8)):
            answers.append(answer)  # noqa: PERF402  (so that they outlive the error)
    assert len(answers) == len(server.bodies) > 4


def test_the_cap_on_cost_holds(serve: Callable[..., FaultyServer]) -> None:
    server = serve()
    model = reach(server, prompt_price=1.0, completion_price=10.0, max_cost=0.002)
    with pytest.raises(SpendingError, match=r"which exceeds the cap of a cost of 0\.002"):
        texts(model, prompts(1_000, max_tokens=8))
    usage = model.usage
    assert usage.cost == pytest.approx((usage.prompt_tokens * 1.0 + usage.completion_tokens * 10.0) / 1e6)
    assert 0.001 < usage.cost <= 0.002
    assert usage.completion_tokens == 8 * len(server.bodies)


def test_a_cap_below_one_request_sends_nothing(serve: Callable[..., FaultyServer]) -> None:
    server = serve()
    with pytest.raises(SpendingError):
        texts(reach(server, max_tokens_total=10), prompts(3))
    assert server.bodies == []


@pytest.mark.parametrize(
    "bad",
    [
        {"model": ""},
        {"concurrency": 0},
        {"attempts": 0},
        {"patience": 0},
        {"timeout": 0.0},
        {"backoff": -1.0},
        {"max_cost": 1.0},
        {"max_cost": -1.0, "prompt_price": 1.0},
        {"max_tokens_total": 0},
        {"prompt_price": -1.0},
        {"options": {"stream": True}},
        {"options": {"max_tokens": 9}},
    ],
)
def test_settings_that_make_no_sense_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        OpenAIModel(**{"model": "tiny", **bad})


def test_openings_are_refused_before_anything_is_sent(serve: Callable[..., FaultyServer]) -> None:
    server = serve()
    with pytest.raises(InputError, match="can_continue"):
        reach(server).complete([Request("a"), Request("b", opening="Once upon")])
    assert server.bodies == []


def test_it_works_where_a_loop_is_running_already(serve: Callable[..., FaultyServer]) -> None:
    import asyncio  # noqa: PLC0415  (only here)

    server = serve()

    async def notebook() -> dict[int, str]:
        return texts(reach(server), prompts(3))

    assert asyncio.run(notebook()) == right(prompts(3))


def test_every_error_is_one_of_this_package() -> None:
    assert issubclass(ServiceError, GapeError)
    assert issubclass(SpendingError, GapeError)
