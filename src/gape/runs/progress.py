"""How far a text run is."""

from collections.abc import Callable
from dataclasses import dataclass

from gape.evolution.plan import Plan
from gape.evolution.state import State
from gape.language.request import Completion
from gape.runs.advice import calls_of


@dataclass(frozen=True)
class Progress:
    """A moment of a run, told after every text and every step."""

    doing: str
    round: int  # that the texts are written for; 0 at the start
    rounds: int
    written: int  # texts so far, of all rounds
    texts: int  # that will be written
    asked: int  # answers that this process had from the model, those rejected included
    tokens: int  # written by the model for them
    cost: float  # of those, at the prices given
    share: float | None = None  # of what is being done that is done, where it is not texts that are written


class Tracker:
    """Follows a run from the answers of its model and its states."""

    def __init__(
        self, plan: Plan, prices: tuple[float, float], report: Callable[[Progress], None], *, writes: bool = True
    ) -> None:
        """Report to `report`; `prices` are for a million tokens read and written. `writes`: whether a model does."""
        self._plan, self._report, self._prices = plan, report, prices
        self._calls = calls_of(plan) if writes else (0,) * (plan.rounds + 1)
        self._turn = 0  # how often texts were written; the start is the first time
        self._answers = self._asked = self._prompt = self._completion = 0
        self._doing = "starting"

    def begin(self, batches: int) -> None:
        """Go on from what is on disk: how often texts were written, the start included."""
        self._turn, self._answers = batches, 0
        self.say("writing")

    def say(self, doing: str, share: float | None = None) -> None:
        """Tell what is being done now, and what share of it is done."""
        self._doing = doing
        before, stage = sum(self._calls[: self._turn]), (*self._calls, 0)[min(self._turn, len(self._calls))]
        spent = self._prompt * self._prices[0] + self._completion * self._prices[1]
        self._report(
            Progress(
                doing=doing,
                round=min(self._turn - int(doing == "voting"), self._plan.rounds),
                rounds=self._plan.rounds,
                written=before + min(self._answers, stage),
                texts=sum(self._calls),
                asked=self._asked,
                tokens=self._completion,
                cost=spent / 1e6,
                share=share,
            )
        )

    def asked(self, completion: Completion) -> None:
        """Take note of an answer that the model was asked for."""
        self._asked += 1
        self._prompt += completion.prompt_tokens
        self._completion += completion.completion_tokens

    def answered(self, completion: Completion) -> None:  # noqa: ARG002  (that there is one is enough)
        """Take note of an answer, from the model or from the disk."""
        self._answers += 1
        self.say(self._doing)

    def state(self, state: State) -> None:
        """Take note of a step of the run."""
        self._answers = 0
        if state.proposal is not None:
            self._turn = state.round + 2
            self.say("voting")
        else:
            self._turn = state.round + 1
            self.say("writing" if state.round < self._plan.rounds else "done")
