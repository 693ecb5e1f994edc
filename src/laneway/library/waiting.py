"""Waiting until a workflow run or a job has ended, by polling."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from laneway.domain.errors import Retryable
from laneway.library.arguments import check_optional_duration

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

T = TypeVar("T")

_NO_TIME = timedelta(0)
_FIRST_PAUSE = timedelta(milliseconds=10)
_LAST_PAUSE = timedelta(milliseconds=500)


class Seen(NamedTuple, Generic[T]):
    """What was found, its status in words, and whether that is its end."""

    found: T
    status: str
    ended: bool


async def wait_for_end(
    look: Callable[[], Awaitable[Seen[T]]], what: str, timeout: timedelta | None
) -> T:
    """Return what `look` finds once it has ended; raise TimeoutError if that takes too long.

    A timeout of zero looks once. It keeps waiting while the database or server is unreachable.
    """
    limit = check_optional_duration(timeout, "timeout")
    seen: Seen[T] | Retryable | None = None
    pause = _FIRST_PAUSE
    try:
        async with asyncio.timeout(limit.total_seconds() if limit else None):
            while True:
                try:
                    seen = await look()
                    if seen.ended:
                        return seen.found
                except Retryable as error:
                    seen = error
                if limit == _NO_TIME:
                    break
                wanted = seen.retry_after if isinstance(seen, Retryable) else None
                await asyncio.sleep((wanted or pause).total_seconds())
                pause = min(pause * 2, _LAST_PAUSE)
    except TimeoutError:
        pass
    if seen is None:
        raise TimeoutError(f"{what} could not be read in time: try again later")
    if isinstance(seen, Retryable):
        raise TimeoutError(f"{what} could not be read: {seen}")
    raise TimeoutError(f"{what} is still {seen.status}: try again later")
