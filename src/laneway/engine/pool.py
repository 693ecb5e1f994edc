"""Connections that are held open and lent out without a round trip."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

import asyncpg

from laneway.domain.errors import BrokerClosed, Misconfigured, Retryable
from laneway.engine.sqlstates import translate

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from laneway.domain.errors import LanewayError
    from laneway.domain.settings import ConnectionSettings
    from laneway.engine.procedures.call import Connection
    from laneway.engine.tasks import Tasks

logger = logging.getLogger(__name__)


async def open_connection(
    dsn: str, settings: ConnectionSettings, *, direct: bool = False, name: str = "laneway"
) -> Connection:
    """Connect as the engine does; direct: past a pooler, for what needs a session of its own."""
    pooled = settings.through_pooler and not direct
    parameters = {"application_name": name}
    if not pooled:
        parameters["jit"] = "off"
        # Each statement of a function must see what the locks before it waited for.
        parameters["default_transaction_isolation"] = "read committed"
        # What nobody waits for any more ends, and its locks with it.
        parameters["client_connection_check_interval"] = "2s"
    if direct and settings.direct_dsn is not None:
        dsn = settings.direct_dsn
    try:
        return await asyncpg.connect(
            dsn,
            timeout=settings.connect_timeout.total_seconds(),
            command_timeout=settings.call_timeout.total_seconds(),
            statement_cache_size=0 if pooled else 100,
            max_cached_statement_lifetime=0,
            server_settings=parameters,
        )
    except Exception as error:
        raise translate(error) from error


class Pool:
    """Up to `size` connections, opened as they are needed, the one used last lent out first.

    Once the database is known to be away, `acquire` fails at once until a connection made in the
    background says that it is back.
    """

    def __init__(
        self, dsn: str, *, settings: ConnectionSettings, tasks: Tasks, size: int | None = None
    ) -> None:
        self._dsn = dsn
        self._settings = settings
        self._tasks = tasks
        self._size = settings.size if size is None else size
        self._open = 0
        self._idle: list[Connection] = []
        self._waiters: deque[asyncio.Future[Connection]] = deque()
        self._trouble: LanewayError | None = None
        self._closed = False

    @property
    def usage(self) -> tuple[int, int, int]:
        """How many connections are open, how many of them idle, and how many callers wait."""
        return self._open, len(self._idle), len(self._waiters)

    async def acquire(self) -> Connection:
        """Return a connection that the caller gives back with `release`, whatever happens."""
        while self._idle:
            connection = self._idle.pop()
            if not connection.is_closed():
                return connection
            self._open -= 1
        self._require_up()
        if self._open < self._size:
            opened = await self._try_open()
            if opened is not None:
                return opened
        return await self._wait()

    def release(self, connection: Connection) -> None:
        if self._closed or connection.is_closed():
            self._open -= 1
            connection.terminate()
            if self._waiters and not self._closed:
                self._tasks.start(self._replace(), name="replace a connection")
            return
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        self._idle.append(connection)

    @asynccontextmanager
    async def lend(self) -> AsyncIterator[Connection]:
        connection = await self.acquire()
        try:
            yield connection
        finally:
            self.release(connection)

    async def close(self) -> None:
        """Close what is idle; what is lent out is closed as it comes back."""
        self._closed = True
        self._fail_waiters(BrokerClosed("the broker is closed"))
        idle, self._idle = self._idle, []
        self._open -= len(idle)
        for connection in idle:
            with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await connection.close(timeout=1)

    def _require_up(self) -> None:
        if self._closed:
            raise BrokerClosed("the broker is closed")
        if self._trouble is not None:
            raise self._trouble.copy()

    async def _try_open(self) -> Connection | None:
        """Return None when the server has no more connections to give but we have some."""
        self._open += 1
        try:
            connection = await open_connection(self._dsn, self._settings)
        except BaseException as error:
            self._open -= 1
            if isinstance(error.__cause__, asyncpg.TooManyConnectionsError) and self._open > 0:
                return None
            if isinstance(error, Retryable | Misconfigured):
                self._go_down(error)
            raise
        if self._closed:
            self._open -= 1
            connection.terminate()
            raise BrokerClosed("the broker is closed")
        return connection

    async def _wait(self) -> Connection:
        waiter: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.release(waiter.result())
            raise

    async def _replace(self) -> None:
        with suppress(Retryable, Misconfigured, BrokerClosed):
            self._require_up()
            connection = await self._try_open()
            if connection is not None:
                self.release(connection)

    def _go_down(self, error: LanewayError) -> None:
        if self._trouble is not None or self._closed:
            return
        logger.warning("the database is away, calls fail until it is back: %s", error)
        self._trouble = error
        self._fail_waiters(error)
        self._tasks.start(self._come_back(), name="reconnect")

    def _fail_waiters(self, error: LanewayError) -> None:
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(error.copy())

    async def _come_back(self) -> None:
        pause = self._settings.reconnect_pause
        while not self._closed:
            await asyncio.sleep(pause.total_seconds())
            pause = min(pause * 2, self._settings.reconnect_limit)
            try:
                connection = await open_connection(self._dsn, self._settings)
            except (Retryable, Misconfigured) as error:
                self._trouble = error
                continue
            logger.warning("the database is back")
            self._trouble = None
            self._open += 1
            self.release(connection)
            return
