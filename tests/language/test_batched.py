"""The Batch API against a server that keeps the books."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest

from batch_server import BatchServer
from contracts.language_model import LanguageModelContract
from faulty_server import FORBIDDEN, answer_to
from gape.core.errors import RunError, ServiceError, SpendingError
from gape.language.batched import BatchedModel
from gape.language.openai import OpenAIModel
from gape.language.request import LanguageModel, Request
from gape.language.stored import Stored


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)


def reach(server: BatchServer, folder: Path, **settings: Any) -> BatchedModel:
    hurry = {"model": "tiny", "backoff": 0.01, "timeout": 20.0, "first_look": 0.01}
    return BatchedModel(base_url=server.url, path=folder / "batches.json", **{**hurry, **settings})


def prompts(count: int) -> list[Request]:
    return [Request(f"prompt {i}", seed=i) for i in range(count)]


def right(requests: list[Request]) -> dict[int, str]:
    return {index: answer_to(request.prompt, request.seed) for index, request in enumerate(requests)}


def texts(model: LanguageModel, requests: list[Request]) -> dict[int, str]:
    return {index: completion.text for index, completion in model.complete(requests)}


class TestBatchedModel(LanguageModelContract):
    failing: ClassVar[Request | None] = Request(f"Say {FORBIDDEN}.")

    @pytest.fixture(autouse=True)
    def _server(self, tmp_path: Path) -> Iterator[None]:
        self.folder = tmp_path
        with BatchServer(looks=0) as self.server:
            yield

    def make(self) -> LanguageModel:
        return reach(self.server, self.folder)


def test_a_call_is_one_batch_at_half_the_price(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    with BatchServer(looks=2) as server:
        model = reach(server, tmp_path, prompt_price=2.0, completion_price=4.0, notice=lambda *now: told.append(now))
        assert texts(model, prompts(40)) == right(prompts(40))
        assert (len(server.batches), server.direct) == (1, 0)
        assert set(server.paid.values()) == {1}
    usage = model.usage
    assert usage.prompt_tokens + usage.completion_tokens == server.tokens
    assert usage.cost == pytest.approx((1.0 * usage.prompt_tokens + 2.0 * usage.completion_tokens) / 1e6)
    assert told == [(0, 40)] * 2
    assert (tmp_path / "batches.json").read_text() == "[]"
    assert (tmp_path / "batches.json").stat().st_mode & 0o777 == 0o600


def test_its_answers_are_those_of_the_same_model_without_batches(tmp_path: Path) -> None:
    with BatchServer() as server:
        assert reach(server, tmp_path).name == OpenAIModel(model="tiny", base_url=server.url).name


@pytest.mark.parametrize("fault", ["partly", "expiring"])
def test_what_a_batch_leaves_is_asked_for_in_a_new_one_and_nothing_twice(tmp_path: Path, fault: str) -> None:
    with BatchServer() as server:
        setattr(server, fault, (0, 1))
        assert texts(reach(server, tmp_path), prompts(40)) == right(prompts(40))
        assert len(server.batches) == 3
        assert len(server.paid) == 40
        assert set(server.paid.values()) == {1}


def test_a_batch_whose_creation_was_not_confirmed_is_found_and_not_made_again(tmp_path: Path) -> None:
    with BatchServer(lost=(0,), busy=("files", "batches/batch_0")) as server:
        assert texts(reach(server, tmp_path), prompts(9)) == right(prompts(9))
        assert len(server.batches) == 1
        assert set(server.paid.values()) == {1}


def test_a_batch_is_found_among_many(tmp_path: Path) -> None:
    with BatchServer(looks=0) as server:
        for number in range(250):
            server.batches[f"batch_{number}"] = {"id": f"batch_{number}", "input_file_id": "other"}
        server.batches["batch_3"]["input_file_id"] = "file-x"
        assert reach(server, tmp_path)._found("file-x") == "batch_3"
        assert reach(server, tmp_path)._found("file-y") == ""


@pytest.mark.parametrize("after", ["files", "batches", "batches/batch_0", "taken"])
def test_a_process_that_ends_anywhere_leaves_nothing_to_be_paid_twice(
    tmp_path: Path, after: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends before the answer to a request of that path is read, or after it has taken some answers."""
    requests = prompts(12)
    with BatchServer() as server:
        first = reach(server, tmp_path)
        send = BatchedModel.send

        def die(self: BatchedModel, path: str, job: Any) -> Any:
            answer = send(self, path, job)
            if path.partition("?")[0] == after:
                raise KeyboardInterrupt
            return answer

        stored = Stored(first, tmp_path / "answers.sqlite")
        if after == "taken":
            answers = stored.complete(requests)
            taken = [next(answers) for _ in range(5)]
            answers.close()  # type: ignore[attr-defined]
            assert len(taken) == 5
        else:
            monkeypatch.setattr(BatchedModel, "send", die)
            with pytest.raises(KeyboardInterrupt):
                texts(stored, requests)
            monkeypatch.undo()
        stored.close()
        again = Stored(reach(server, tmp_path), tmp_path / "answers.sqlite")
        assert texts(again, requests) == right(requests)
        again.close()
        assert len(server.batches) == 1
        assert set(server.paid.values()) == {1}


def test_a_batch_that_is_too_large_is_halved(tmp_path: Path) -> None:
    with BatchServer(most=10) as server:
        assert texts(reach(server, tmp_path), prompts(40)) == right(prompts(40))
        assert set(server.paid.values()) == {1}


def test_a_batch_that_is_too_large_with_one_request_is_an_error(tmp_path: Path) -> None:
    with BatchServer(most=0) as server, pytest.raises(ServiceError, match=r"rejected a batch of 1 .*token_limit_exc"):
        texts(reach(server, tmp_path), prompts(4))


def test_a_service_whose_batches_hold_no_answer_is_given_up(tmp_path: Path) -> None:
    with (
        BatchServer(expiring=range(9)) as server,
        pytest.raises(ServiceError, match=r"3 batches in a row at .* had no usable answer"),
    ):
        texts(reach(server, tmp_path), prompts(1))


def test_the_caps_hold_and_cut_a_call_into_batches(tmp_path: Path) -> None:
    with BatchServer() as server:
        model = reach(server, tmp_path, max_tokens_total=1_500)
        answers = []
        with pytest.raises(SpendingError, match="which exceeds the cap of 1,500 tokens"):  # noqa: PT012
            for answer in model.complete(prompts(400)):
                answers.append(answer)  # noqa: PERF402  (so that they outlive the error)
        assert server.tokens <= 1_500
        assert len(answers) == len(server.paid) > 20
        assert len(server.batches) > 2


def test_a_batch_under_way_is_collected_although_the_cap_is_used_up(tmp_path: Path) -> None:
    with BatchServer(held=True) as server:
        first = reach(server, tmp_path, notice=_interrupt)
        with pytest.raises(KeyboardInterrupt):
            texts(first, prompts(9))
        server.held = False
        model = reach(server, tmp_path, max_tokens_total=1)
        assert texts(model, prompts(9)) == right(prompts(9))
        assert model.usage.prompt_tokens + model.usage.completion_tokens == server.tokens


def test_a_batch_of_another_account_is_an_error_that_names_it(tmp_path: Path) -> None:
    with BatchServer(held=True) as server:
        with pytest.raises(KeyboardInterrupt):
            texts(reach(server, tmp_path, notice=_interrupt), prompts(2))
        server.batches.clear()
        with pytest.raises(ServiceError, match="does not know the batch batch_0, which is of another account"):
            texts(reach(server, tmp_path), prompts(2))


@pytest.mark.parametrize(
    "content",
    ["{}", "[1]", '[{"file": "../x", "id": "", "requests": []}]', '[{"file": "a", "id": "b?c", "requests": []}]'],
)
def test_a_file_of_batches_that_is_none_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "batches.json").write_text(content)
    with BatchServer() as server, pytest.raises(RunError, match="is not a list of batches; restore it"):
        texts(reach(server, tmp_path), prompts(1))


def _interrupt(done: int, total: int) -> None:
    raise KeyboardInterrupt
