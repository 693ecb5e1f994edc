"""The cost of many clients that wait, such as long polls on an empty queue."""

from __future__ import annotations

import asyncio
import re
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.http.connection import open_connection
from benchmarks.http.meter import OTHERS, Meter
from benchmarks.http.statements import log_statements
from benchmarks.results import PER_CENT, Bound, Figure, Row

if TYPE_CHECKING:
    from collections import Counter
    from datetime import timedelta

    from benchmarks.http.meter import Spent
    from benchmarks.http.server import RunningServer
    from benchmarks.http.stage import Stage
    from benchmarks.http.statements import StatementLog

_MOST = 3.0  # per cent of a core
# Maintenance that runs every few seconds may fall into one period and not into the other.
_SPARE = 10
# Requests in progress; the one that asks is among them.
_WAITERS = re.compile(r"^laneway_http_requests_in_flight ([\d.]+)", re.MULTILINE)


class NotWaiting(Exception):
    """Not all clients are waiting."""


@dataclass(frozen=True, slots=True)
class IdlePeriod:
    spent: Spent
    statements: Counter[str]
    length: timedelta

    @property
    def rate(self) -> float:
        return self.statements.total() / self.length.total_seconds()

    @property
    def server(self) -> float:
        """Per cent of a core."""
        return self.spent.server / self.spent.elapsed * 100

    @property
    def postgres(self) -> float:
        """Per cent of a core."""
        return self.spent.postgres / self.spent.elapsed * 100


async def measure_idle_polls(stage: Stage) -> list[Row]:
    """Compare a server with many long polls with the same server without any."""
    queue = await stage.make_queue("idle")
    request = f"GET /api/queue/message?timeout=600&queue={queue.name} HTTP/1.1\r\n"
    return [await compare_idle(stage, "idle-polls", "polls", f"{request}Host: localhost\r\n\r\n")]


async def compare_idle(stage: Stage, name: str, what: str, request: str) -> Row:
    """Compare a server with many clients that wait for an answer to a request with one without any."""
    count, length = stage.scale.idle_polls, stage.scale.idle_time
    async with log_statements(stage.connection) as log, AsyncExitStack() as stack:
        await asyncio.sleep(stage.scale.warm_up.total_seconds())
        alone = await _measure_period(stage, log, length)
        for number in range(count):
            stage.progress.step(what, number, count)
            client = await stack.enter_async_context(open_connection(stage.server))
            client.writer.write(request.encode())
        await _wait_for_waiters(stage.server, count)
        await asyncio.sleep(stage.scale.warm_up.total_seconds())
        found = await _measure_period(stage, log, length)
    return _make_row(name, what, found, alone, count)


def _make_row(name: str, what: str, found: IdlePeriod, alone: IdlePeriod, count: int) -> Row:
    more = found.statements.total() - alone.statements.total()
    allowed = found.length.total_seconds() + _SPARE
    new = [text for text in found.statements if text not in alone.statements]
    return Row(
        name=name,
        ours=Figure(found.server, PER_CENT, f"of a core, {count:,} {what}"),
        beside=Figure(alone.server, PER_CENT, f"of a core, without {what}"),
        rounds=1,
        target=Bound("at most", _MOST, "ours"),
        failure=None if more <= allowed else f"{more} more statements than without {what}",
        details={
            "statements a second": found.rate,
            f"without {what}": alone.rate,
            f"only with {what}": ", ".join(f"{found.statements[text]} x {text}" for text in new)
            or "none",
            "PostgreSQL, % of a core": found.postgres,
            f"without {what}, %": alone.postgres,
            OTHERS: found.spent.busy_cores,
        },
    )


async def _measure_period(stage: Stage, log: StatementLog, length: timedelta) -> IdlePeriod:
    mark = log.mark()
    meter = Meter.begin(stage)
    await asyncio.sleep(length.total_seconds())
    return IdlePeriod(meter.end(), log.count(mark), length)


async def _wait_for_waiters(server: RunningServer, count: int) -> None:
    async with open_connection(server) as client:
        for _ in range(100):
            text = (await client.get("/metrics")).body.decode()
            waiting = _WAITERS.search(text)
            if waiting is not None and float(waiting[1]) > count:
                return
            await asyncio.sleep(0.2)
    raise NotWaiting(f"not all of {count} clients are waiting after 20 s")
