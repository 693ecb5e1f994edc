"""Policies for messages whose handlers did not succeed: Retry, Reject, Snooze, PartialFailure."""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import InvalidSetting
from laneway.domain.escapes import replace_unstorable
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
    """Raised by a handler to dead-letter the message at once, with this reason."""


class Snooze(Exception):
    """Raised by a handler to release the message for `delay`, without counting the attempt."""

    def __init__(self, delay: timedelta) -> None:
        with settings_of("a snooze"):
            check_time(delay, "delay")
        if delay < timedelta(0):
            raise InvalidSetting(f"delay of a snooze is {delay!r}: use a timedelta of zero or more")
        super().__init__(f"delivered again in {delay}")
        self.delay = delay

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.delay,)


class RetryAfter(Exception):
    """Raised by a handler to nack the message: it is retried after `delay`, and the attempt counts.

    Any other exception with an attribute `retry_after`, a timedelta or a number of seconds, has the
    same effect.
    """

    def __init__(self, delay: timedelta, reason: str = "") -> None:
        with settings_of("a RetryAfter"):
            check_time(delay, "delay")
        if delay < timedelta(0):
            raise InvalidSetting(
                f"delay of a RetryAfter is {delay!r}: use a timedelta of zero or more"
            )
        super().__init__(reason or f"retry after {delay}")
        self.retry_after = delay
        self.reason = reason

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.retry_after, self.reason)


class PartialFailure(Exception):
    """Raised by a batch handler to fail only these messages, each with its reason.

    failures: reasons by message id, or by the id's text. A reason is a text or an exception.
    """

    def __init__(self, failures: Failures) -> None:
        super().__init__(f"{len(failures)} messages of the batch failed")
        self.failures = failures

    def __reduce__(self) -> tuple[Any, ...]:
        # With reasons as texts, since only those are stored: an exception may not be picklable.
        return type(self), ({key: explain(reason) for key, reason in self.failures.items()},)


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """Retry policy: how often to retry, after delays of backoff, backoff * factor, … up to limit.

    A limit shorter than backoff counts as backoff.

    max_attempts: attempts until the message is dead-lettered, whatever the queue's setting; None:
    the queue's setting, and no limit for a step. Attempts that end with the worker's death count by
    the queue's setting.
    jitter: each delay varies at random by up to this share, so that messages that failed together
    are not all retried together. on: errors to retry; other errors dead-letter the message at once.
    """

    max_attempts: int | None = 5
    backoff: timedelta = timedelta(seconds=1)
    factor: float = 2.0
    limit: timedelta = timedelta(minutes=10)
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
            raise InvalidSetting(
                f"on of a retry is {on!r}: use a tuple of exception classes, such as (ConnectionError,)"
            )
        if self.backoff < timedelta(0) or self.limit < timedelta(0) or self.factor < 1:
            raise InvalidSetting(
                "backoff and limit of a retry must not be negative, and factor must be 1 or more"
            )
        if not 0 <= self.jitter <= 1:
            raise InvalidSetting(f"jitter of a retry is {self.jitter}: set 0 to 1")

    def wait(self, attempt: int) -> timedelta:
        """Return the delay after this many attempts."""
        # As a number: the product may exceed the range of timedelta.
        wait = self.backoff.total_seconds()
        limit = min(max(self.limit, self.backoff), LONGEST_TIME).total_seconds()
        for _ in range(attempt - 1):
            wait *= self.factor
            if wait >= limit:
                break
        wait = min(wait, limit)
        spread = 1 + self.jitter * random.uniform(-1, 1)  # noqa: S311 - spreads load
        return min(timedelta(seconds=wait) * spread, LONGEST_TIME)

    def judge(self, attempt: int, error: BaseException | None) -> bool | None:
        """Return whether to dead-letter a message after this error; None: by the queue's setting."""
        if self.is_over(attempt, error):
            return True
        return None if self.max_attempts is None else False

    def is_over(self, attempt: int, error: BaseException | None) -> bool:
        """Return whether there is no further attempt after this error."""
        if error is not None and not isinstance(error, self.on):
            return True
        return self.max_attempts is not None and attempt >= self.max_attempts


def find_delay(error: object) -> timedelta | None:
    """Return the delay that an error asks for with its attribute `retry_after`; None for none."""
    try:
        asked: Any = getattr(error, "retry_after", None)
        if isinstance(asked, int | float) and not isinstance(asked, bool):
            asked = timedelta(seconds=asked)
        if not isinstance(asked, timedelta):
            return None
        return min(max(asked, timedelta(0)), LONGEST_TIME)
    except Exception:  # noqa: BLE001 - a handler's own error class may raise anything
        return None


def describe(error: BaseException) -> str:
    """Return an error as the failure reason that is stored with a message."""
    text = read_text(error)
    if isinstance(error, Reject):
        return trim(text or "rejected")
    if isinstance(error, BaseExceptionGroup):
        text = f"{text}: {'; '.join(map(describe, error.exceptions))}"
    name = type(error).__name__
    return trim(f"{name}: {text}" if text else name)


def explain(reason: object) -> str:
    """Return a reason that a handler gave, as it is stored with the message."""
    return describe(reason) if isinstance(reason, BaseException) else trim(read_text(reason))


def read_text(source: object) -> str:
    try:
        return str(source)
    except BaseException:  # noqa: BLE001 - a handler's own error class may raise anything
        return "(str() of the error failed)"


def trim(text: str) -> str:
    """Shorten a reason, and make it storable."""
    return replace_unstorable(text[:MOST_CHARACTERS])
