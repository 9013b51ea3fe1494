"""Progress of a run."""

from collections.abc import Callable
from dataclasses import dataclass

from gape.evolution.plan import Plan
from gape.evolution.state import State
from gape.language.request import Completion
from gape.language.spending import Tokens
from gape.privacy.accounting import spent
from gape.runs.advice import calls_of


@dataclass(frozen=True)
class RoundFigures:
    """Figures of a finished round for logs and trackers: public numbers and noisy votes, all paid for."""

    round: int
    epsilon: float  # spent by the run so far
    candidates: int
    samples: int  # selected
    largest_vote: int | None  # noisy; None without noise, because exact counts never leave the run
    mean_vote: float | None


@dataclass(frozen=True)
class Progress:
    """The state of a run, reported after each text and each step."""

    doing: str
    round: int  # whose texts are written; 0 at the start
    rounds: int
    written: int  # texts so far, in all rounds
    texts: int  # to be written in all rounds
    asked: int  # answers of the model in this process, including rejected ones
    tokens: int  # written by the model for these answers
    cost: float  # of these answers, at the prices of the settings
    share: float | None = None  # done of the current step, if it does not write texts
    ended: RoundFigures | None = None  # the round that has just ended; reported once for each round


class Tracker:
    """Follows a run by the answers of its model and by its states."""

    def __init__(
        self,
        plan: Plan,
        prices: tuple[float, float, float],
        report: Callable[[Progress], None],
        *,
        writes: bool = True,
        pictures: bool = False,
    ) -> None:
        """Report to `report`. `prices` are per million input and output tokens, and per image.

        `writes` is whether a model writes or draws; with `pictures`, images are counted instead of texts.
        """
        self._plan, self._report, self._prices, self._pictures = plan, report, prices, pictures
        self._calls = calls_of(plan) if writes else (0,) * (plan.rounds + 1)
        self._turn = 0  # number of batches of texts written; the start is the first
        self._answers = self._asked = 0
        self._used = Tokens()
        self._doing = "starting"

    def begin(self, batches: int) -> None:
        """Resume from disk, where this many batches of texts were written, including the start."""
        self._turn, self._answers = batches, 0
        self.say("writing")

    def say(self, doing: str, share: float | None = None) -> None:
        """Report the current step, and the share of it that is done."""
        self._doing = doing
        self._tell(doing, share)

    def waiting(self, done: int, requests: int) -> None:
        """Report that a service works on a batch of requests."""
        self._tell("waiting for a batch of the service", done / max(1, requests))

    def _tell(self, doing: str, share: float | None, ended: RoundFigures | None = None) -> None:
        before, stage = sum(self._calls[: self._turn]), (*self._calls, 0)[min(self._turn, len(self._calls))]
        prompt, completion, image = self._prices
        spent = (self._used.prompt * prompt + self._used.completion * completion) / 1e6 + self._used.images * image
        self._report(
            Progress(
                doing=doing,
                round=min(self._turn - int(doing == "voting"), self._plan.rounds),
                rounds=self._plan.rounds,
                written=before + min(self._answers, stage),
                texts=sum(self._calls),
                asked=self._asked,
                tokens=self._used.completion,
                cost=spent,
                share=share,
                ended=ended,
            )
        )

    def asked(self, completion: Completion) -> None:
        """Count an answer that the model was asked for."""
        self._asked += 1
        self._used += Tokens(completion.prompt_tokens, completion.completion_tokens, completion.images)

    def answered(self, completion: Completion) -> None:
        """Count an answer, from the model or from disk."""
        self._answers += bool(completion.images) == self._pictures
        self.say(self._doing)

    def state(self, state: State) -> None:
        """Follow a step of the run."""
        self._answers = 0
        if state.proposal is not None:
            self._turn = state.round + 2
            self.say("voting")
        else:
            self._turn = state.round + 1
            self._doing = "writing" if state.round < self._plan.rounds else "done"
            self._tell(self._doing, None, self._figures(state))

    def _figures(self, state: State) -> RoundFigures | None:
        if state.votes is None:
            return None
        plan, noisy = self._plan, self._plan.sigma > 0
        return RoundFigures(
            round=state.round,
            epsilon=spent(plan.releases[: state.round], plan.delta),
            candidates=len(state.votes),
            samples=len(state.synthetic),
            largest_vote=int(state.votes.max()) if noisy else None,
            mean_vote=float(state.votes.mean()) if noisy else None,
        )
