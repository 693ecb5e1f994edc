"""What a maintenance service is, and how one is kept running."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from laneway.domain.errors import LanewayError, Retryable

if TYPE_CHECKING:
    from datetime import timedelta

    from laneway.engine.pool import Pool
    from laneway.engine.procedures.call import Connection

logger = logging.getLogger(__name__)


class Service(Protocol):
    """Safe to run in two processes at once: a former holder may not know yet that it is one."""

    name: str
    interval: timedelta

    async def run(self, connection: Connection) -> bool:
        """Do one round; return whether there is more to do at once."""


async def run_forever(service: Service, pool: Pool) -> None:
    """Run rounds until cancelled; one that fails is logged and tried again in its time."""
    while True:
        more = False
        try:
            async with pool.lend() as connection:
                more = await service.run(connection)
        except Retryable as error:
            logger.debug("%s: %s", service.name, error)
        except LanewayError:
            logger.exception("%s failed", service.name)
        await asyncio.sleep(0 if more else service.interval.total_seconds())
