"""The PostgreSQL server, the database and the Laneway server that the rows of a run share."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.cpu import ServerClock
from benchmarks.engine.scale import FULL as ENGINE_SCALE
from benchmarks.engine.site import open_site
from benchmarks.http.queues import BenchQueue
from benchmarks.http.server import run_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.cpu import Clock
    from benchmarks.engine.site import Connection
    from benchmarks.http.scale import Scale
    from benchmarks.http.server import RunningServer
    from benchmarks.progress import Progress


@dataclass(frozen=True, slots=True)
class Stage:
    dsn: str
    postgres: str
    database_clock: Clock
    connection: Connection
    server: RunningServer
    scale: Scale
    progress: Progress

    async def make_queue(self, name: str) -> BenchQueue:
        return await BenchQueue.create(self.server, self.connection, name)

    async def settle(self) -> None:
        """Vacuum and checkpoint now, so that the next turn does not pay for the previous one."""
        await self.connection.execute("vacuum (analyze)")
        await self.connection.execute("checkpoint")


@asynccontextmanager
async def open_stage(scale: Scale, progress: Progress) -> AsyncIterator[Stage]:
    """Start the bundled PostgreSQL in a temporary directory, and a Laneway server on it."""
    async with (
        open_site(None, ENGINE_SCALE, progress) as site,
        site.open_database() as database,
        run_server(database.dsn) as server,
    ):
        yield Stage(
            dsn=database.dsn,
            postgres=site.postgres,
            database_clock=ServerClock(site.postmaster),
            connection=await database.connect(),
            server=server,
            scale=scale,
            progress=progress,
        )
