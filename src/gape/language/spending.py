"""The cost of requests to a paid service, and caps that are checked before anything is sent."""

import math
import threading
from dataclasses import dataclass

from gape.core.errors import InputError, SpendingError

SHARE_OF_PRICE = 0.5  # that requests in a batch cost, of what they cost one by one


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
    """Usage so far. A request that was sent and never answered counts with the maximum it can have used."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0  # in the currency of the prices
    requests: int = 0  # sent requests, retries included
    retries: int = 0


class Meter:
    """Counts tokens and money, and admits a request only if its maximum use fits under the caps.

    Requests in flight count with their maximum. A cap can be exceeded only by a service that writes more than it was
    allowed to, and at most by the requests in flight.
    """

    def __init__(
        self, prompt_price: float, completion_price: float, max_tokens_total: int | None, max_cost: float | None
    ) -> None:
        """Set prices per million tokens; None means no cap."""
        if not (0 <= prompt_price < math.inf and 0 <= completion_price < math.inf):
            raise InputError(
                f"prices must be finite and at least 0 per million tokens, got {prompt_price} and {completion_price}; "
                "use 0 if there is no price"
            )
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
        """Usage so far."""
        with self._lock:
            used = self._used
            return Usage(used.prompt, used.completion, self._cost(used), self._requests, self._retries)

    def admit(self, most: Tokens, *, retry: bool) -> bool:
        """Reserve the maximum use of a request; False if it may still fit when requests in flight have returned.

        Raises SpendingError if it does not fit with nothing in flight, and for every request after that.
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
        """Replace a reservation by the actual use."""
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
            f"{used.prompt + used.completion:,} tokens costing {self._cost(used):.4g} are used, and the next request "
            f"may need {most.prompt + most.completion:,} costing {self._cost(most):.4g}, which exceeds the cap of "
            f"{' and '.join(caps)}; raise the cap to continue"
        )
