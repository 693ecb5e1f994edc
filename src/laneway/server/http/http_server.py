"""Accepts connections, runs the application for each request, and stops gracefully."""

from __future__ import annotations

import asyncio
import logging
import time
from contextlib import suppress
from datetime import timedelta
from email.utils import formatdate
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from laneway.server.errors import ClientGone
from laneway.server.http.connection import Connection
from laneway.server.http.time_limits import TimeLimits

if TYPE_CHECKING:
    import socket
    from collections.abc import Awaitable, Callable, Sequence

    from laneway.server.http.exchange import Exchange
    from laneway.server.settings import Limits

    Application: TypeAlias = Callable[[Exchange], Awaitable[None]]

logger = logging.getLogger(__name__)

_BACKLOG = 2048
_PERIOD = timedelta(seconds=1)
# How long cancelled requests may take to end.
_CANCELLATION = timedelta(seconds=1)


class HttpServer:
    """Serves an application. Make it inside the event loop that runs it.

    connections: all open ones. date_line: the Date header, as of this second.
    """

    def __init__(self, application: Application, limits: Limits) -> None:
        self.loop = asyncio.get_running_loop()
        self.limits = limits
        self.connections: set[Connection] = set()
        self.date_line = _write_date()
        self._application = application
        self._exchanges: set[Exchange] = set()
        self._stopping = asyncio.Event()
        self._ended = asyncio.Event()

    async def serve(
        self,
        listeners: Sequence[socket.socket],
        *,
        shutdown: timedelta,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        """Serve until stop() is called, and then finish the running requests.

        The listeners are closed first. shutdown: how long the running requests may take.
        ready: called once connections are accepted.
        """
        servers = [
            await self.loop.create_server(
                partial(Connection, self), sock=listener, backlog=_BACKLOG
            )
            for listener in listeners
        ]
        ready()
        await self._stopping.wait()
        for server in servers:
            server.close()
        for listener in listeners:
            listener.close()
        for connection in list(self.connections):
            connection.shut_down()
        await self._finish(shutdown)

    def stop(self) -> None:
        """Stop; called again, do not wait for the running requests."""
        if self._stopping.is_set():
            self._ended.set()
        self._stopping.set()

    async def enforce_time_limits(self) -> None:
        """Check the connections' time limits once a second, and keep the date current."""
        limits = TimeLimits(self.limits)
        while True:
            await asyncio.sleep(_PERIOD.total_seconds())
            self.date_line = _write_date()
            limits.enforce(list(self.connections), self.loop.time())

    def start(self, exchange: Exchange) -> None:
        """Run the application for a request."""
        self._exchanges.add(exchange)
        exchange.task = self.loop.create_task(self._run(exchange))

    def add_connection(self, connection: Connection) -> None:
        self.connections.add(connection)
        if self._stopping.is_set():
            # Accepted just before the listeners were closed.
            connection.shut_down()

    def remove_connection(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._check_end()

    async def _run(self, exchange: Exchange) -> None:
        try:
            await self._application(exchange)
        except ClientGone:
            pass
        except Exception:
            logger.exception("%s %s failed", exchange.method, exchange.path)
        else:
            if not exchange.complete and not exchange.is_gone():
                logger.error("%s %s: no complete response", exchange.method, exchange.path)
        finally:
            exchange.fail()
            self._exchanges.discard(exchange)
            if self._stopping.is_set():
                self._check_end()

    def _check_end(self) -> None:
        if self._stopping.is_set() and not self.connections and not self._exchanges:
            self._ended.set()

    async def _finish(self, shutdown: timedelta) -> None:
        """Wait until every connection is closed, and end those that are left."""
        self._check_end()
        with suppress(TimeoutError):
            async with asyncio.timeout(shutdown.total_seconds()):
                await self._ended.wait()
        tasks = [exchange.task for exchange in self._exchanges if exchange.task is not None]
        if tasks:
            logger.error("%d requests did not finish before the stop and are cancelled", len(tasks))
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_CANCELLATION.total_seconds())
        for connection in list(self.connections):
            connection.transport.abort()


def _write_date() -> bytes:
    return b"date: %b\r\n" % formatdate(time.time(), usegmt=True).encode()
