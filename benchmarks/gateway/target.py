"""A target that answers every call at once, in a process of its own: `python target.py` prints its URL."""

from __future__ import annotations

import asyncio
import sys
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import uvloop

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
_LENGTH = b"content-length:"
_END = b"\r\n\r\n"


class Target(asyncio.Protocol):
    """Reads one request after the other from a connection."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: asyncio.WriteTransport = transport  # type: ignore[assignment]
        self._read = b""

    def data_received(self, data: bytes) -> None:
        self._read += data
        while (end := self._read.find(_END)) >= 0:
            head = self._read[:end].lower()
            _, found, rest = head.partition(_LENGTH)
            length = int(rest.partition(b"\r\n")[0]) if found else 0
            if len(self._read) < end + len(_END) + length:
                return
            self._read = self._read[end + len(_END) + length :]
            self._transport.write(_ANSWER)


@asynccontextmanager
async def run_target() -> AsyncIterator[str]:
    """Yield the target's URL."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, __file__), stdout=asyncio.subprocess.PIPE
    )
    try:
        reader = process.stdout
        yield "" if reader is None else (await reader.readline()).decode().strip()
    finally:
        process.terminate()
        await process.wait()


async def main() -> None:
    server = await asyncio.get_running_loop().create_server(Target, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    sys.stdout.write(f"http://{host}:{port}/\n")
    sys.stdout.flush()
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
