"""What becomes of a message whose handler did not succeed."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import InvalidSetting
from laneway.domain.messages import LONGEST_TIME
from laneway.library.arguments import (
    check_duration,
    check_least,
    check_number,
    check_time,
    settings_of,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeAlias

    from laneway.domain.ids import MessageId

    Failures: TypeAlias = (
        Mapping[MessageId, str | BaseException] | Mapping[str, str | BaseException]
    )

MOST_CHARACTERS = 2000


class Reject(Exception):
    """Raised by a handler: the message is dead at once, with this reason."""


class Snooze(Exception):
    """Raised by a handler: hand the message out again in `delay`, its attempt unspent."""

    def __init__(self, delay: timedelta) -> None:
        with settings_of("a snooze"):
            check_time(delay, "delay")
        if delay < timedelta(0):
            raise InvalidSetting(f"{delay!r} is no time to wait: give a timedelta of zero or more")
        super().__init__(f"again in {delay}")
        self.delay = delay

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.delay,)


class PartialFailure(Exception):
    """Raised by a batch handler: only these messages failed, each with its reason.

    A message is named by its id or the id's text; a reason is a text or an error.
    """

    def __init__(self, failures: Failures) -> None:
        super().__init__(f"{len(failures)} of the batch failed")
        self.failures = failures

    def __reduce__(self) -> tuple[Any, ...]:
        # The reasons as texts, which is all that is kept of them: an error may not be picklable.
        return type(self), ({key: explain(reason) for key, reason in self.failures.items()},)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """How often, and after how long: backoff, backoff * factor, … up to limit.

    max_attempts: hand-outs until the message is dead, whatever the queue says; None: as it says. A
    hand-out that ends with its worker's death counts by the queue's number. jitter: each wait is
    changed at random by up to this share of it, so that those who failed together do not all come
    back together. on: the errors that are worth another try; others make the message dead at once.
    """

    max_attempts: int | None = None
    backoff: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    limit: timedelta = timedelta(hours=1)
    jitter: float = 0.1
    on: tuple[type[BaseException], ...] = (BaseException,)

    def __post_init__(self) -> None:
        with settings_of("a retry"):
            if self.max_attempts is not None:
                check_least(self.max_attempts, "max_attempts", 1)
            check_duration(self.backoff, "backoff")
            check_duration(self.limit, "limit")
            check_number(self.factor, "factor")
            check_number(self.jitter, "jitter")
        on: Any = self.on
        kinds = on if isinstance(on, tuple) else (on,)
        if not all(isinstance(kind, type) and issubclass(kind, BaseException) for kind in kinds):
            raise InvalidSetting(f"on is {on!r}: give errors, as (ConnectionError,)")
        if self.backoff < timedelta(0) or self.limit < timedelta(0) or self.factor < 1:
            raise InvalidSetting("a retry waits no negative time, and its factor is 1 or more")
        if not 0 <= self.jitter <= 1:
            raise InvalidSetting(f"jitter is {self.jitter}: set 0 to 1")

    def wait(self, attempt: int) -> timedelta:
        """Return how long to wait after so many attempts."""
        # In numbers, which grow beyond what a timedelta holds.
        wait, limit = self.backoff.total_seconds(), min(self.limit, LONGEST_TIME).total_seconds()
        for _ in range(attempt - 1):
            wait *= self.factor
            if wait >= limit:
                break
        wait = min(wait, limit)
        spread = 1 + self.jitter * random.uniform(-1, 1)  # noqa: S311 - spreads load
        return min(timedelta(seconds=wait) * spread, LONGEST_TIME)

    def judge(self, attempt: int, error: BaseException | None) -> bool | None:
        """Tell whether a message is dead after this error, or any (None); None: the queue says."""
        if self.is_over(attempt, error):
            return True
        return None if self.max_attempts is None else False

    def is_over(self, attempt: int, error: BaseException | None) -> bool:
        """Tell whether there is no other try after this error."""
        if error is not None and not isinstance(error, self.on):
            return True
        return self.max_attempts is not None and attempt >= self.max_attempts


def describe(error: BaseException) -> str:
    """Return the reason that a failed message keeps."""
    text = read_text(error)
    if isinstance(error, Reject):
        return trim(text or "rejected")
    if isinstance(error, BaseExceptionGroup):
        text = f"{text}: {'; '.join(map(describe, error.exceptions))}"
    name = type(error).__name__
    return trim(f"{name}: {text}" if text else name)


def explain(reason: object) -> str:
    """Return the reason that was given for a message's failure, as it keeps it."""
    return describe(reason) if isinstance(reason, BaseException) else trim(read_text(reason))


def read_text(source: object) -> str:
    try:
        return str(source)
    except BaseException:  # noqa: BLE001 - whatever a handler's own kind of error does
        return "its text cannot be read"


def trim(text: str) -> str:
    """Return a reason as the database can hold it."""
    short = text[:MOST_CHARACTERS].replace("\x00", "\ufffd")
    return short.encode(errors="replace").decode()
