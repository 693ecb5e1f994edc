"""The job queues that are compared, each behind the same interface.

Each worker is one program with a handler that only counts. It prints the number of jobs done and the
time, in nanoseconds: after the first and the last job, or with `lone` after each job.
"""

from __future__ import annotations

import abc
import asyncio
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pgqueuer
import procrastinate
import uvloop
from pgqueuer.adapters.drivers.asyncpg import AsyncpgDriver
from pgqueuer.domain.types import QueueExecutionMode

import laneway
from laneway.domain.settings import EngineSettings, MaintenanceSettings

if TYPE_CHECKING:
    from collections.abc import Callable

_CHUNK = 1000


class Contestant(abc.ABC):
    """One job queue on the database at `dsn`."""

    name: str
    # Tables to empty between turns, and the fraction of the jobs that a turn processes.
    tables: str | None = None
    part = 1.0

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn

    async def clear(self) -> None:
        """Remove what a turn left."""
        if self.tables is not None:
            connection = await asyncpg.connect(self.dsn)
            try:
                await connection.execute(f"truncate {self.tables} cascade")
            finally:
                await connection.close()

    @abc.abstractmethod
    async def install(self) -> None: ...

    @abc.abstractmethod
    async def push(self, n: int) -> None:
        """Push n jobs in batches."""

    @abc.abstractmethod
    async def push_one(self) -> None: ...

    @abc.abstractmethod
    async def open(self) -> None:
        """Connect, to push."""

    @abc.abstractmethod
    async def close(self) -> None: ...

    @abc.abstractmethod
    async def work(self, count: Callable[[], bool]) -> None:
        """Run a worker that calls `count` for each job and ends when that returns true."""


class Laneway(Contestant):
    name = "laneway"

    async def install(self) -> None:
        async with laneway.connect(self.dsn) as connection:
            await connection.install()
            await connection.admin.create_queue("jobs")

    async def open(self) -> None:
        quiet = EngineSettings(maintenance=MaintenanceSettings(enabled=False))
        self._connection = await laneway.connect(self.dsn, settings=quiet).__aenter__()
        self._producer = self._connection.producer("jobs")

    async def close(self) -> None:
        await self._connection.__aexit__(None, None, None)

    async def push(self, n: int) -> None:
        for start in range(0, n, _CHUNK):
            size = min(_CHUNK, n - start)
            await self._producer.batch_enqueue([{"n": k} for k in range(start, start + size)])

    async def push_one(self) -> None:
        await self._producer.enqueue({"n": 0})

    async def work(self, count: Callable[[], bool]) -> None:
        app = laneway.App(self.dsn)

        @app.handler("jobs")
        async def job(_: laneway.Message) -> None:
            if count():
                running.stop()

        running = app.worker()
        await running.run()


class Procrastinate(Contestant):
    name = "procrastinate"
    tables = "procrastinate_jobs"
    part = 0.05

    def __init__(self, dsn: str) -> None:
        super().__init__(dsn)
        self._app = procrastinate.App(
            connector=procrastinate.PsycopgConnector(conninfo=dsn, max_size=10)
        )

        @self._app.task(name="job")
        async def job(n: int) -> None:
            del n
            self._count()

        self._job = job
        self._done = asyncio.Event()
        self._counter: Callable[[], bool] = lambda: False

    async def install(self) -> None:
        async with self._app.open_async():
            await self._app.schema_manager.apply_schema_async()

    async def open(self) -> None:
        await self._app.open_async()

    async def close(self) -> None:
        await self._app.close_async()

    async def push(self, n: int) -> None:
        for start in range(0, n, _CHUNK):
            size = min(_CHUNK, n - start)
            await self._job.batch_defer_async(
                *({"n": k} for k in range(start, start + size))  # type: ignore[arg-type]
            )

    async def push_one(self) -> None:
        await self._job.defer_async(n=0)

    async def work(self, count: Callable[[], bool]) -> None:
        self._counter = count
        async with self._app.open_async():
            worker = asyncio.create_task(
                self._app.run_worker_async(
                    concurrency=10, install_signal_handlers=False, delete_jobs="successful"
                )
            )
            await self._done.wait()
            worker.cancel()
            await asyncio.gather(worker, return_exceptions=True)

    def _count(self) -> None:
        if self._counter():
            self._done.set()


class PgQueuer(Contestant):
    name = "pgqueuer"
    tables = "pgqueuer, pgqueuer_log"

    async def install(self) -> None:
        connection = await asyncpg.connect(self.dsn)
        try:
            await pgqueuer.Queries(AsyncpgDriver(connection)).install()
        finally:
            await connection.close()

    async def open(self) -> None:
        self._connection: Any = await asyncpg.connect(self.dsn)
        self._queries = pgqueuer.Queries(AsyncpgDriver(self._connection))

    async def close(self) -> None:
        await self._connection.close()

    async def push(self, n: int) -> None:
        for start in range(0, n, _CHUNK):
            size = min(_CHUNK, n - start)
            await self._queries.enqueue(["job"] * size, [b'{"n": 0}'] * size, [0] * size)

    async def push_one(self) -> None:
        await self._queries.enqueue("job", b'{"n": 0}', 0)

    async def work(self, count: Callable[[], bool]) -> None:
        connection = await asyncpg.connect(self.dsn)
        try:
            manager = pgqueuer.QueueManager(pgqueuer.Queries(AsyncpgDriver(connection)))

            @manager.entrypoint("job")
            async def job(_: pgqueuer.Job) -> None:
                if count():
                    manager.shutdown.set()

            # Batches of 100 are its fastest setting here. The default is 10.
            await manager.run(
                batch_size=100,
                dequeue_timeout=timedelta(seconds=30),
                mode=QueueExecutionMode.continuous,
            )
        finally:
            await connection.close()


CONTESTANTS: dict[str, type[Contestant]] = {
    kind.name: kind for kind in (Laneway, Procrastinate, PgQueuer)
}


def main() -> None:
    """Run a worker. Arguments: NAME DSN JOBS, and `lone` to print a line for each job."""
    name, dsn, jobs = sys.argv[1], sys.argv[2], int(sys.argv[3])
    lone = "lone" in sys.argv[4:]
    done = 0

    def count() -> bool:
        nonlocal done
        done += 1
        if done == 1 or lone or done == jobs:
            sys.stdout.write(f"{done} {time.time_ns()}\n")
            sys.stdout.flush()
        return done == jobs

    uvloop.run(CONTESTANTS[name](dsn).work(count))


if __name__ == "__main__":
    main()
