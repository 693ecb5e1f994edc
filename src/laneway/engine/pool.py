"""A connection pool that lends connections without a round trip."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, urlsplit

import asyncpg

from laneway.domain.errors import BrokerClosed, LanewayError, Misconfigured, Retryable
from laneway.domain.loops import fail
from laneway.engine.sqlstates import check_dsn, explain_dsn, explain_failed_connection, translate

if TYPE_CHECKING:
    from laneway.domain.settings import ConnectionSettings
    from laneway.engine.procedures.call import Connection
    from laneway.engine.tasks import Tasks

logger = logging.getLogger(__name__)

# Session parameters of the engine, which override those of the role and the database. Parameters in
# the DSN take precedence.
PARAMETERS = {
    "jit": "off",
    # Each statement of a function must see what was committed while it waited for a lock before.
    "default_transaction_isolation": "read committed",
    # End statements whose client disconnected, and release their locks.
    "client_connection_check_interval": "2s",
    # The engine limits the time of its calls; calls that may take long have no limit.
    "statement_timeout": "0",
    "lock_timeout": "0",
    # Connections stay open, and a list is sent as fast as the client reads it.
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}


async def open_connection(
    dsn: str, settings: ConnectionSettings, *, direct: bool = False, name: str = "laneway"
) -> Connection:
    """Open a connection of the engine; direct: past a pooler, for a session of its own."""
    pooled = settings.through_pooler and not direct
    if direct and settings.direct_dsn is not None:
        dsn = settings.direct_dsn
    check_dsn(dsn)
    parameters = {"application_name": name}
    if not pooled:
        asked = dict(parse_qsl(urlsplit(dsn).query))
        parameters |= {key: value for key, value in PARAMETERS.items() if key not in asked}
    try:
        return await asyncpg.connect(
            dsn,
            timeout=settings.connect_timeout.total_seconds(),
            command_timeout=settings.call_timeout.total_seconds(),
            statement_cache_size=0 if pooled else 100,
            max_cached_statement_lifetime=0,
            server_settings=parameters,
        )
    except OSError as error:  # first: a refused certificate is a ValueError too
        raise explain_failed_connection(error) from error
    except ValueError as error:
        raise explain_dsn(error) from None
    except Exception as error:
        raise translate(error) from error


async def _close(connection: Connection) -> None:
    with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
        await connection.close(timeout=1)


class Loan:
    """A connection for the length of the context; a generator would cost three times as much."""

    __slots__ = ("_connection", "_kind", "_pool")

    def __init__(self, pool: Pool, kind: str | None) -> None:
        self._pool = pool
        self._kind = kind

    async def __aenter__(self) -> Connection:
        self._connection = await self._pool.acquire(self._kind)
        return self._connection

    async def __aexit__(self, *_: object) -> None:
        self._pool.release(self._connection)


class Pool:
    """Up to `size` connections, opened on demand; the most recently used is lent first.

    Each kind of work has a preferred connection, which it gets if it is idle: a session's first
    call of a function costs ten times as much. Once the database is known to be unreachable,
    `acquire` fails at once until a connection attempt in the background succeeds.
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
        self._homes: dict[str, Connection] = {}
        self._waiters: deque[asyncio.Future[Connection]] = deque()
        self._trouble: LanewayError | None = None
        self._closed = False

    @property
    def usage(self) -> tuple[int, int, int]:
        """The number of open connections, idle connections, and waiting callers."""
        return self._open, len(self._idle), len(self._waiters)

    async def acquire(self, kind: str | None = None) -> Connection:
        """Return a connection; the caller must return it with `release`."""
        connection = self._take_idle(kind)
        if connection is None:
            self._require_up()
            connection = await self._wait()
        homes = self._homes
        if kind is not None and kind not in homes and connection not in homes.values():
            homes[kind] = connection
        return connection

    def release(self, connection: Connection) -> None:
        if self._closed or connection.is_closed():
            self._open -= 1
            self._forget_home(connection)
            connection.terminate()
            if self._waiters and not self._closed:
                self._add(self._waiters[0])
            return
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        self._idle.append(connection)

    def lend(self, kind: str | None = None) -> Loan:
        return Loan(self, kind)

    async def close(self) -> None:
        """Close idle connections; lent ones are closed when they are returned."""
        self._closed = True
        self._fail_waiters(BrokerClosed("the broker is closed"))
        idle, self._idle = self._idle, []
        self._open -= len(idle)
        try:
            await asyncio.gather(*map(_close, idle))
        finally:
            # Close the connections when cancelled, too.
            for connection in idle:
                connection.terminate()

    def _require_up(self) -> None:
        if self._closed:
            raise BrokerClosed("the broker is closed")
        if self._trouble is not None:
            raise self._trouble.copy()

    def _take_idle(self, kind: str | None) -> Connection | None:
        home = None if kind is None else self._homes.get(kind)
        while idle := self._idle:
            if home in idle:
                connection = home
            else:
                preferred = self._homes.values()
                connection = next(
                    (item for item in reversed(idle) if item not in preferred), idle[-1]
                )
            idle.remove(connection)
            if not connection.is_closed():
                return connection
            self._open -= 1
            self._forget_home(connection)
        return None

    async def _wait(self) -> Connection:
        """Return the next connection that is returned, or opened if there may be another."""
        waiter: asyncio.Future[Connection] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        if self._open < self._size:
            self._add(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                self.release(waiter.result())
            raise

    def _add(self, waiter: asyncio.Future[Connection]) -> None:
        self._open += 1
        self._tasks.start(self._open_for(waiter), name="open a connection")

    async def _open_for(self, waiter: asyncio.Future[Connection]) -> None:
        """Open a connection for the longest waiting caller; raise its error if that fails."""
        try:
            self._require_up()
            connection = await open_connection(self._dsn, self._settings)
        except LanewayError as error:
            self._open -= 1
            if isinstance(error.__cause__, asyncpg.TooManyConnectionsError) and self._open > 0:
                # The existing connections will be returned.
                return
            if isinstance(error, Retryable | Misconfigured):
                self._go_down(error)
            if not waiter.done():
                fail(waiter, error.copy())
        except asyncio.CancelledError:
            self._open -= 1
            raise
        else:
            self.release(connection)

    def _forget_home(self, connection: Connection) -> None:
        for kind in [kind for kind, home in self._homes.items() if home is connection]:
            del self._homes[kind]

    def _go_down(self, error: LanewayError) -> None:
        if self._trouble is not None or self._closed:
            return
        if isinstance(error, Misconfigured):
            logger.warning("calls fail until this is fixed: %s", error)
        else:
            logger.warning("calls fail until the database is reachable: %s", error)
        self._trouble = error
        self._fail_waiters(error)
        self._tasks.start(self._come_back(), name="reconnect")

    def _fail_waiters(self, error: LanewayError) -> None:
        waiters, self._waiters = self._waiters, deque()
        for waiter in waiters:
            if not waiter.done():
                fail(waiter, error.copy())

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
            logger.warning("the database is reachable again")
            self._trouble = None
            self._open += 1
            self.release(connection)
            return
