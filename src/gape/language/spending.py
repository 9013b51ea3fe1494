"""What requests to a paid service cost, kept under caps that hold before anything is sent."""

import math
import threading
from dataclasses import dataclass

from gape.core.errors import InputError, SpendingError


@dataclass(frozen=True)
class Tokens:
    """Tokens read and tokens written."""

    prompt: int = 0
    completion: int = 0

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.prompt + other.prompt, self.completion + other.completion)

    def __sub__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.prompt - other.prompt, self.completion - other.completion)


@dataclass(frozen=True)
class Usage:
    """What was used so far. A request that was sent and never answered counts as the most it can have used."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0  # in the currency of the prices
    requests: int = 0  # as sent over the wire, retries included
    retries: int = 0


class Meter:
    """Counts tokens and money, and admits a request only if the caps hold whatever it turns out to use.

    Everything in flight is counted at the most it can use. A cap can be passed only by a service that writes
    more than it was allowed to, and by no more than what was in flight.
    """

    def __init__(
        self, prompt_price: float, completion_price: float, max_tokens_total: int | None, max_cost: float | None
    ) -> None:
        """Take prices per million tokens; a cap of None is no cap."""
        if not (0 <= prompt_price < math.inf and 0 <= completion_price < math.inf):
            raise InputError(f"prices must not be negative, got {prompt_price} and {completion_price} a million tokens")
        for name, cap in (("max_tokens_total", max_tokens_total), ("max_cost", max_cost)):
            if cap is not None and not cap > 0:
                raise InputError(f"{name} must be positive, got {cap}; leave it out for no cap")
        if max_cost is not None and prompt_price + completion_price == 0:
            raise InputError(f"max_cost {max_cost} needs prices; give prompt_price and completion_price")
        self._prices = prompt_price / 1e6, completion_price / 1e6
        self._max_tokens = math.inf if max_tokens_total is None else max_tokens_total
        self._max_cost = math.inf if max_cost is None else max_cost
        self._used, self._in_flight = Tokens(), Tokens()
        self._requests = self._retries = 0
        self._exhausted = False
        self._lock = threading.Lock()

    @property
    def usage(self) -> Usage:
        """What was used so far."""
        with self._lock:
            used = self._used
            return Usage(used.prompt, used.completion, self._cost(used), self._requests, self._retries)

    def admit(self, most: Tokens, *, retry: bool) -> bool:
        """Reserve the most a request can use; False while it may yet fit, once what is in flight has come back.

        Raises SpendingError where it does not fit with nothing in flight, and for every request after that.
        """
        with self._lock:
            total = self._used + self._in_flight + most
            fits = total.prompt + total.completion <= self._max_tokens and self._cost(total) <= self._max_cost
            if fits and not self._exhausted:
                self._in_flight += most
                self._requests += 1
                self._retries += retry
                return True
            if self._in_flight != Tokens() and not self._exhausted:
                return False
            self._exhausted = True
            raise SpendingError(self._refusal(most))

    def settle(self, reserved: Tokens, used: Tokens) -> None:
        """Replace what was reserved by what was used."""
        with self._lock:
            self._in_flight -= reserved
            self._used += used

    def _cost(self, tokens: Tokens) -> float:
        return tokens.prompt * self._prices[0] + tokens.completion * self._prices[1]

    def _refusal(self, most: Tokens) -> str:
        used, caps = self._used, []
        if self._max_tokens < math.inf:
            caps.append(f"{self._max_tokens:,} tokens")
        if self._max_cost < math.inf:
            caps.append(f"a cost of {self._max_cost:g}")
        return (
            f"{used.prompt + used.completion:,} tokens costing {self._cost(used):.4g} are used and the next request "
            f"may take {most.prompt + most.completion:,} costing {self._cost(most):.4g}, more than the cap of "
            f"{' and '.join(caps)} leaves; raise the cap to go on"
        )
