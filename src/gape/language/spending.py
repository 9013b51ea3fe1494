"""The cost of requests to a paid service, and caps that are checked before anything is sent."""

import math
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from gape.core.errors import InputError, SpendingError

SHARE_OF_PRICE = 0.5  # that requests in a batch cost, of what they cost one by one


@dataclass(frozen=True)
class Tokens:
    """Tokens read, tokens written, and images drawn."""

    prompt: int = 0
    completion: int = 0
    images: int = 0

    @property
    def total(self) -> int:
        """Tokens read and written together."""
        return self.prompt + self.completion

    def __add__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.prompt + other.prompt, self.completion + other.completion, self.images + other.images)

    def __sub__(self, other: "Tokens") -> "Tokens":
        return Tokens(self.prompt - other.prompt, self.completion - other.completion, self.images - other.images)

    def __str__(self) -> str:
        images = f"{self.images:,} image{'' if self.images == 1 else 's'}"
        tokens = f"{self.total:,} tokens"
        return tokens if not self.images else f"{tokens} and {images}" if self.total else images


@dataclass(frozen=True)
class Usage:
    """Usage so far. A request that was sent and never answered counts with the maximum it can have used."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0  # in the currency of the prices
    requests: int = 0  # sent requests, retries included
    retries: int = 0
    images: int = 0


class Purse:
    """The caps on tokens, images and money that one service has, or several services share: each has a `Meter`."""

    def __init__(
        self,
        max_tokens_total: int | None,
        max_cost: float | None,
        prices: Sequence[float],
        max_images: int | None = None,
    ) -> None:
        """Set the caps; None means no cap. `prices` are all prices that are paid from here."""
        caps = (("max_tokens_total", max_tokens_total), ("max_cost", max_cost), ("max_images", max_images))
        for name, cap in caps:
            if cap is not None and not cap > 0:
                raise InputError(f"{name} must be positive, got {cap}; leave it out for no cap")
        if max_cost is not None and sum(prices) == 0:
            raise InputError(
                f"max_cost {max_cost} needs prices; give prompt_price and completion_price, embedding_price or "
                "image_price"
            )
        self.max_tokens_total, self.max_cost, self.max_images = max_tokens_total, max_cost, max_images
        self.meters: list[Meter] = []
        self.exhausted = False
        self.lock = threading.Lock()

    @property
    def idle(self) -> bool:
        """Whether nothing is in flight."""
        return all(meter.in_flight == Tokens() for meter in self.meters)

    def holds(self) -> bool:
        """Whether what is used and in flight fits under the caps."""
        taken = sum((meter.used + meter.in_flight for meter in self.meters), Tokens())
        cost = sum(meter.cost(meter.used + meter.in_flight) for meter in self.meters)
        caps = ((self.max_tokens_total, taken.total), (self.max_cost, cost), (self.max_images, taken.images))
        return all(cap is None or amount <= cap for cap, amount in caps)

    def refusal(self, meter: "Meter", most: Tokens) -> str:
        """Say that a request does not fit. How many tokens private texts have is not said."""
        caps = [] if self.max_tokens_total is None else [f"{self.max_tokens_total:,} tokens"]
        caps += [] if self.max_images is None else [f"{self.max_images:,} images"]
        caps += [] if self.max_cost is None else [f"a cost of {self.max_cost:g}"]
        cap = f"the cap of {' and '.join(caps)}; raise the cap to continue"
        if any(known.private for known in self.meters):
            return f"the next request may exceed what is left of {cap}"
        used = sum((known.used for known in self.meters), Tokens())
        cost = sum(known.cost(known.used) for known in self.meters)
        return (
            f"{used} costing {cost:.4g} are used, and the next request may need {most} costing "
            f"{meter.cost(most):.4g}, which exceeds {cap}"
        )


class Meter:
    """Counts tokens, images and money, and admits a request only if its maximum use fits under the caps.

    Requests in flight count with their maximum. A cap can be exceeded only by a service that writes more than it was
    allowed to, and at most by the requests in flight.
    """

    def __init__(
        self,
        prompt_price: float,
        completion_price: float,
        purse: Purse,
        *,
        image_price: float = 0.0,
        private: bool = False,
    ) -> None:
        """Set prices per million tokens and per image, and the caps. `private` if tokens must not be told."""
        for price in (prompt_price, completion_price, image_price):
            if not 0 <= price < math.inf:
                raise InputError(f"prices must be finite and at least 0, got {price}; use 0 if there is no price")
        self._prices = prompt_price / 1e6, completion_price / 1e6, image_price
        self._purse = purse
        self.private = private
        self.used, self.in_flight = Tokens(), Tokens()
        self._requests = self._retries = 0
        purse.meters.append(self)

    @property
    def usage(self) -> Usage:
        """Usage so far."""
        with self._purse.lock:
            used = self.used
            return Usage(used.prompt, used.completion, self.cost(used), self._requests, self._retries, used.images)

    def admit(self, most: Tokens, *, retry: bool, requests: int = 1) -> bool:
        """Reserve the maximum use of a request; False if it may still fit when requests in flight have returned.

        Raises SpendingError if it does not fit with nothing in flight, and for every request after that.
        """
        purse = self._purse
        with purse.lock:
            idle = purse.idle
            self.in_flight += most
            if not purse.exhausted and purse.holds():
                self._requests += requests
                self._retries += retry
                return True
            self.in_flight -= most
            if not idle and not purse.exhausted:
                return False
            purse.exhausted = True
            raise SpendingError(purse.refusal(self, most))

    def settle(self, reserved: Tokens, used: Tokens) -> None:
        """Replace a reservation by the actual use."""
        with self._purse.lock:
            self.in_flight -= reserved
            self.used += used

    def cost(self, tokens: Tokens) -> float:
        """Return what tokens and images cost."""
        prompt, completion, image = self._prices
        return tokens.prompt * prompt + tokens.completion * completion + tokens.images * image
