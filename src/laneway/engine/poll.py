"""The safety poll: checks once a second for messages that no wake-up announced."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from laneway.domain.errors import LanewayError
from laneway.engine.procedures.delivery import ready_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import timedelta

    from laneway.engine.pool import Pool
    from laneway.engine.pumps.claim import ClaimPump


class SafetyPoll:
    """One query for all groups in which consumers wait, and none if there are none."""

    def __init__(
        self, *, pool: Pool, pumps: Callable[[], Iterable[ClaimPump]], interval: timedelta
    ) -> None:
        self._pool = pool
        self._pumps = pumps
        self._interval = interval.total_seconds()

    async def run(self) -> None:
        while True:
            await asyncio.sleep(self._interval)
            waiting = {pump.group_id: pump for pump in self._pumps() if pump.has_sleepers}
            if waiting:
                await self._look(waiting)

    async def _look(self, waiting: dict[int, ClaimPump]) -> None:
        try:
            async with self._pool.lend() as connection:
                ready = await ready_groups(connection, list(waiting))
        except LanewayError as error:
            # Fail the waiting calls rather than wait for an unreachable database.
            for pump in waiting.values():
                pump.fail(error)
            return
        for group_id in ready:
            waiting[group_id].wake(delayed=True)
