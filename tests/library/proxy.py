"""A TCP proxy before a database or server that a test can cut."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING, Self
from urllib.parse import parse_qs, urlsplit

if TYPE_CHECKING:
    from types import TracebackType


class Proxy:
    """Passes on what comes to `address`; after `cut` nobody is there, or one who does not answer.

    After `mend` it passes on again, at the same place.
    """

    def __init__(self, address: str) -> None:
        self._parts = urlsplit(address)
        self._open = asyncio.Event()
        self._open.set()
        self._cut = False
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", 0)
        place = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        parts = self._parts
        if parts.scheme == "postgresql":
            place, query = f"{parts.username}@{place}", "sslmode=disable"
        else:
            query = ""
        self.address = parts._replace(netloc=place, query=query).geturl()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.cut()

    async def cut(self, *, silently: bool = False) -> None:
        """Close all; silently: only pass nothing on any more."""
        self._open.clear()
        if silently:
            return
        self._cut = True
        self._server.close()
        for writer in self._writers:
            writer.close()
        for pipe in self._pipes:
            pipe.cancel()
        if self._pipes:
            await asyncio.wait(self._pipes)

    async def mend(self) -> None:
        """Be there again after a cut that was not silent."""
        port = urlsplit(self.address).port
        self._cut = False
        self._open.set()
        self._server = await asyncio.start_server(self._pass_on, "127.0.0.1", port)

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._keep(writer)
        if not self._open.is_set():
            return
        query = parse_qs(self._parts.query)
        if "host" in query:
            path = f"{query['host'][0]}/.s.PGSQL.{query['port'][0]}"
            far_reader, far_writer = await asyncio.open_unix_connection(path)
        else:
            far_reader, far_writer = await asyncio.open_connection(
                self._parts.hostname, self._parts.port
            )
        self._keep(far_writer)
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            self._pipes.add(asyncio.create_task(self._pipe(source, sink)))

    def _keep(self, writer: asyncio.StreamWriter) -> None:
        """Have it closed by the cut, or at once when that came while it was being opened."""
        self._writers.append(writer)
        if self._cut:
            writer.close()

    async def _pipe(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await source.read(65536):
                if self._open.is_set():
                    sink.write(data)
                    await sink.drain()
        sink.close()
