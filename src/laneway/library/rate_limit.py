"""Rate limits of producers and handlers: a token bucket."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.errors import InvalidSetting, RateLimited
from laneway.library.arguments import check_least, check_number, settings_of

if TYPE_CHECKING:
    from collections.abc import Callable

# In seconds; longer waits would exceed the range of timedelta.
LONGEST_WAIT = 1e13


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `per_second` messages on average, and `burst` at once."""

    per_second: float
    burst: int

    def __post_init__(self) -> None:
        with settings_of("a rate limit"):
            check_least(self.burst, "burst", 1)
            check_number(self.per_second, "per_second")
        if self.per_second <= 0:
            raise InvalidSetting(f"per_second is {self.per_second}: set more than 0")


class RateLimitStatus(NamedTuple):
    """available: messages that the limit allows now. full_in: time until a whole burst is allowed."""

    per_second: float
    burst: int
    available: int
    full_in: timedelta


class TokenBucket:
    """A token bucket that starts full. Thread-safe.

    A request for more than a burst is granted when the bucket is full, and leaves it in debt.
    """

    def __init__(self, limit: RateLimit, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._tokens = float(limit.burst)
        self._at = clock()
        self._lock = threading.Lock()

    def take(self, n: int) -> None:
        """Take n tokens, or raise RateLimited with the time until they are available."""
        needed = min(n, self._limit.burst)
        with self._lock:
            self._refill()
            missing = needed - self._tokens
            # Rounding errors must not cost another wait.
            if missing <= 1e-9:  # noqa: PLR2004 - see above
                self._tokens -= n
                return
        wait = self._time_for(missing)
        # Rounded up to the resolution of timedelta, so that waiting that long is always enough.
        wait += timedelta(microseconds=1)
        raise RateLimited(
            f"rate limit of {self._limit.per_second:g} messages a second exceeded by a request for"
            f" {n}: try again in {wait.total_seconds():.3f} s",
            retry_after=wait,
        )

    def time_until(self, n: int) -> timedelta:
        """Return the time until n tokens are available, at most a burst; zero if they are."""
        with self._lock:
            self._refill()
            missing = min(n, self._limit.burst) - self._tokens
        return self._time_for(max(missing, 0))

    def refund(self, n: int) -> None:
        """Return the tokens of messages that were not sent."""
        with self._lock:
            self._tokens = min(self._tokens + n, self._limit.burst)

    @property
    def status(self) -> RateLimitStatus:
        with self._lock:
            self._refill()
            tokens = self._tokens
        return RateLimitStatus(
            self._limit.per_second,
            self._limit.burst,
            max(int(tokens + 1e-9), 0),
            self._time_for(self._limit.burst - tokens),
        )

    def _time_for(self, tokens: float) -> timedelta:
        return timedelta(seconds=min(tokens / self._limit.per_second, LONGEST_WAIT))

    def _refill(self) -> None:
        now = self._clock()
        self._tokens = min(
            self._tokens + (now - self._at) * self._limit.per_second, self._limit.burst
        )
        self._at = now
