"""Elects the maintenance leader of a database, and runs the services in it."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from laneway.domain.errors import LanewayError
from laneway.engine.maintenance.service import run_forever
from laneway.engine.pool import Pool, open_connection
from laneway.engine.procedures.maintenance import read_clock, try_maintenance_lock
from laneway.engine.tasks import Tasks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import timedelta

    from laneway.domain.settings import ConnectionSettings
    from laneway.engine.maintenance.service import Service
    from laneway.engine.procedures.call import Connection

logger = logging.getLogger(__name__)

# Enough that a slow service does not delay the fast ones.
CONNECTIONS = 2


class Keeper:
    """Tries to acquire leadership by a session lock, and runs the services until it is lost."""

    def __init__(
        self,
        dsn: str,
        *,
        connections: ConnectionSettings,
        services: Sequence[Service],
        candidacy: timedelta,
    ) -> None:
        self._dsn = dsn
        self._connections = connections
        self._services = services
        self._candidacy = candidacy.total_seconds()
        self.elected = asyncio.Event()

    async def run(self) -> None:
        while True:
            try:
                connection = await open_connection(
                    self._dsn, self._connections, direct=True, name="laneway maintenance"
                )
                try:
                    await self._win(connection)
                    await self._serve(connection)
                finally:
                    # Terminating the session releases its lock at once.
                    connection.terminate()
            except LanewayError as error:
                logger.debug("cannot run maintenance in this process, retrying: %s", error)
            await asyncio.sleep(self._candidacy)

    async def _win(self, connection: Connection) -> None:
        while True:
            if await try_maintenance_lock(connection):
                return
            await asyncio.sleep(self._candidacy)

    async def _serve(self, connection: Connection) -> None:
        tasks = Tasks()
        pool = Pool(self._dsn, settings=self._connections, tasks=tasks, size=CONNECTIONS)
        lost = asyncio.Event()
        connection.add_termination_listener(lambda _: lost.set())
        logger.info("acquired maintenance leadership")
        self.elected.set()
        try:
            for service in self._services:
                tasks.start(run_forever(service, pool), name=service.name)
            while not connection.is_closed():
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._candidacy):
                        await lost.wait()
                # A session that does not answer may have lost its lock unnoticed.
                await read_clock(connection)
        finally:
            self.elected.clear()
            await tasks.close()
            await pool.close()
            logger.info("released maintenance leadership")
