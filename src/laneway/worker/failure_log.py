"""Log lines for messages whose handler failed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.messages import Outcome
from laneway.worker.policies import describe
from laneway.worker.tracebacks import make_exc_info

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from laneway.library.messages import Message

logger = logging.getLogger(__name__)

# How many messages of a batch a line names.
MOST_IDS = 3


class Failed(NamedTuple):
    """A message whose handler failed.

    limit: its attempts; None: unlimited. delay: until the next attempt; None: as the queue says.
    outcome: of its nack; None: the nack failed. error: the error itself, or the reason given for it.
    """

    message: Message
    limit: int | None
    delay: timedelta | None
    outcome: Outcome | None
    error: BaseException | str


def log_failures(queue: str, failures: Sequence[Failed]) -> None:
    """Log one line, with the traceback, for the messages that failed in the same way."""
    same: dict[object, list[Failed]] = {}
    for failed in failures:
        error = failed.error
        # An error class may define how its errors compare, and then they may have no hash.
        cause = id(error) if isinstance(error, BaseException) else error
        key = failed.message.attempt, failed.limit, failed.outcome, cause
        same.setdefault(key, []).append(failed)
    for group in same.values():
        first = group[0]
        error = first.error
        logger.error(
            "%s of queue %s failed, attempt %d%s, %s: %s",
            _name(group),
            queue,
            first.message.attempt,
            "" if first.limit is None else f" of {first.limit}",
            _tell(first),
            describe(error) if isinstance(error, BaseException) else error,
            exc_info=make_exc_info(error),
        )


def _name(group: Sequence[Failed]) -> str:
    names = ", ".join(str(failed.message.id) for failed in group[:MOST_IDS])
    more = len(group) - MOST_IDS
    if more > 0:
        names += f" and {more} more"
    return f"message {names}" if len(group) == 1 else f"messages {names}"


def _tell(failed: Failed) -> str:
    match failed.outcome:
        case Outcome.DEAD:
            return "dead-lettered"
        case Outcome.REQUEUED if failed.delay is not None:
            return f"next try in {failed.delay.total_seconds():.1f} s"
        case Outcome.REQUEUED:
            return "next try after the queue's backoff"
        case Outcome.LOST:
            return "lease lost before the nack"
        case _:
            return "not nacked, next try after the lease ends"
