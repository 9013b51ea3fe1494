"""What every language model promises."""

from typing import ClassVar

import pytest

from gape.language.request import Completion, LanguageModel, Request


class LanguageModelContract:
    """Inherit, and make one; name a request that it fails, if there is one, and say if answers are random."""

    deterministic: ClassVar[bool] = True
    failing: ClassVar[Request | None] = None

    def make(self) -> LanguageModel:
        raise AssertionError("inherit and make one")

    @staticmethod
    def requests(count: int) -> list[Request]:
        return [Request(f"Say something about topic {i}.", max_tokens=8, seed=i) for i in range(count)]

    def complete(self, requests: list[Request]) -> dict[int, Completion]:
        pairs = list(self.make().complete(requests))
        assert len(dict(pairs)) == len(pairs), "a place was yielded twice"
        return dict(pairs)

    def test_it_has_a_name_that_stays_the_same(self) -> None:
        model = self.make()
        assert model.name
        assert self.make().name == model.name
        assert isinstance(model.can_continue, bool)

    def test_nothing_asked_nothing_answered(self) -> None:
        assert self.complete([]) == {}

    @pytest.mark.parametrize("count", [1, 2, 9])
    def test_every_place_is_answered_once(self, count: int) -> None:
        answers = self.complete(self.requests(count))
        assert set(answers) == set(range(count))
        for completion in answers.values():
            assert isinstance(completion, Completion)
            assert isinstance(completion.text, str)
            assert completion.prompt_tokens >= 0
            assert completion.completion_tokens >= 0

    def test_an_answer_does_not_depend_on_what_else_is_asked(self) -> None:
        if not self.deterministic:
            pytest.skip("its answers are random")
        requests = self.requests(5)
        together = self.complete(requests)
        assert {place: self.complete([request])[0] for place, request in enumerate(requests)} == together
        backwards = self.complete(requests[::-1])
        assert {4 - place: completion for place, completion in backwards.items()} == together

    def test_equal_requests_are_all_answered(self) -> None:
        assert set(self.complete(self.requests(1) * 3)) == {0, 1, 2}

    def test_one_that_fails_costs_no_other(self) -> None:
        if self.failing is None:
            pytest.skip("it fails none")
        before, after = self.requests(2)
        assert set(self.complete([before, self.failing, after])) == {0, 2}

    def test_leaving_early_is_no_error(self) -> None:
        for _ in self.make().complete(self.requests(4)):
            break
        assert len(self.complete(self.requests(4))) == 4
