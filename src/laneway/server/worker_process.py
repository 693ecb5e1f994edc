"""One worker process: reads its orders, serves, and stops with its parent."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys

import msgspec
import uvloop

from laneway.domain.loops import ignore_lost_connections
from laneway.server.logs import set_up_logs
from laneway.server.server_process import serve
from laneway.server.shared_counters import Sheet
from laneway.server.supervision import Orders


def main() -> None:
    orders = msgspec.json.decode(sys.stdin.buffer.readline(), type=Orders)
    set_up_logs(orders.settings.log_level, orders.settings.log_format)
    uvloop.run(_work(orders))


async def _work(orders: Orders) -> None:
    _follow_parent()
    ignore_lost_connections(asyncio.get_running_loop())
    listeners = [socket.socket(fileno=number) for number in orders.listeners]
    file = os.fdopen(orders.sheet, "r+b", buffering=0)
    with Sheet(file, workers=orders.settings.workers) as sheet:
        await serve(
            orders.dsn, orders.settings, listeners=listeners, sheet=sheet, worker=orders.worker
        )


def _follow_parent() -> None:
    """Stop when the parent's end of the pipe closes, that is, when the parent ends."""
    loop = asyncio.get_running_loop()
    pipe = sys.stdin.fileno()

    def stop() -> None:
        loop.remove_reader(pipe)
        os.kill(os.getpid(), signal.SIGTERM)

    loop.add_reader(pipe, stop)


if __name__ == "__main__":
    main()
