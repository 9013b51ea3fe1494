from typing import ClassVar

from contracts.language_model import LanguageModelContract
from gape.language.request import Completion, LanguageModel, Request
from gape.language.scripted import ScriptedModel


def shout(request: Request) -> str | None:
    return None if request.prompt == "fail" else f"{request.prompt.upper()} {request.seed}"


class TestScriptedModel(LanguageModelContract):
    failing: ClassVar[Request | None] = Request("fail")

    def make(self) -> LanguageModel:
        return ScriptedModel(shout)


def test_it_says_what_it_is_told_and_remembers_what_it_was_asked() -> None:
    model = ScriptedModel(shout, name="shouting", can_continue=False)
    requests = [Request("one two"), Request("fail"), Request("three", seed=4)]
    assert dict(model.complete(requests)) == {0: Completion("ONE TWO 0", 2, 3), 2: Completion("THREE 4", 1, 2)}
    assert model.calls == requests
    assert model.name == "shouting"
    assert not model.can_continue


def test_only_what_is_taken_is_asked() -> None:
    model = ScriptedModel(shout)
    next(model.complete([Request("a"), Request("b"), Request("c")]))
    assert [request.prompt for request in model.calls] == ["a"]
