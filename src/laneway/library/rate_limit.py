"""A token bucket: so many messages a second, with bursts."""

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

# In seconds: as long as it matters, and no longer than a timedelta holds.
LONGEST_WAIT = 1e13


@dataclass(frozen=True, slots=True)
class RateLimit:
    """At most `per_second` messages in the long run, and `burst` at once."""

    per_second: float
    burst: int

    def __post_init__(self) -> None:
        with settings_of("a rate limit"):
            check_least(self.burst, "burst", 1)
            check_number(self.per_second, "per_second")
        if self.per_second <= 0:
            raise InvalidSetting(f"per_second is {self.per_second}: set more than 0")


class RateLimitStatus(NamedTuple):
    """available: how many messages may go now; full_in: when a whole burst may."""

    per_second: float
    burst: int
    available: int
    full_in: timedelta


class TokenBucket:
    """Full at first. More than a burst at once goes when it is full, and leaves it in debt.

    Any number of threads may share it.
    """

    def __init__(self, limit: RateLimit, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._tokens = float(limit.burst)
        self._at = clock()
        self._lock = threading.Lock()

    def take(self, n: int) -> None:
        """Take n tokens, or raise RateLimited with the time until they are there."""
        needed = min(n, self._limit.burst)
        with self._lock:
            self._refill()
            missing = needed - self._tokens
            # What arithmetic leaves over must not cost another wait.
            if missing <= 1e-9:  # noqa: PLR2004 - see above
                self._tokens -= n
                return
        wait = self._time_for(missing)
        # Rounded up to what a timedelta can say, so that waiting it is always enough.
        wait += timedelta(microseconds=1)
        raise RateLimited(
            f"{n} messages are more than the limit of {self._limit.per_second:g} a second"
            f" allows now: try again in {wait.total_seconds():.3f} s",
            retry_after=wait,
        )

    def give_back(self, n: int) -> None:
        """Return tokens for what was not sent after all."""
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
