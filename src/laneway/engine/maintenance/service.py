"""The interface of a maintenance service, and the loop that runs one."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from laneway.domain.errors import LanewayError, Retryable

if TYPE_CHECKING:
    from datetime import timedelta

    from laneway.engine.pool import Pool
    from laneway.engine.procedures.call import Connection

logger = logging.getLogger(__name__)


class Service(Protocol):
    """A maintenance service.

    It must be safe to run in two processes at once: a former leader may not know yet that it is
    one.
    """

    name: str

    @property
    def interval(self) -> timedelta:
        """The pause after a round that left nothing to do."""

    async def run(self, connection: Connection) -> bool:
        """Do one round; return whether there is more to do at once."""


@runtime_checkable
class Wakeable(Protocol):
    """A service that is also woken when there is work."""

    woken: asyncio.Event


async def run_forever(service: Service, pool: Pool) -> None:
    """Run rounds until cancelled; a round that fails is logged and repeated later."""
    while True:
        more = False
        try:
            async with pool.lend() as connection:
                more = await service.run(connection)
        except Retryable as error:
            logger.debug("%s: %s", service.name, error)
        except LanewayError:
            logger.exception("%s failed", service.name)
        await _pause(service, 0 if more else service.interval.total_seconds())


async def _pause(service: Service, seconds: float) -> None:
    if not isinstance(service, Wakeable):
        await asyncio.sleep(seconds)
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await service.woken.wait()
    service.woken.clear()
