"""Long reads pause while the broker is busy, if processors are scarce."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import asyncpg

from laneway.lake import throttle
from laneway.lake.database import open_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pytest

MANY, FEW = 200_000, 10
# In a cycle of two seconds: when readers rest, half a second before its end, and when they read.
LATE, EARLY = 101.5, 100.25
# How long a reader ran, and how long it waited to.
CROWDED, ALONE = (10, 90), (90, 1)


@contextmanager
def somebody_at_work(dsn: str) -> Iterator[None]:
    """Have a statement under way on another connection."""
    begun, done = threading.Event(), threading.Event()

    async def work() -> None:
        connection = await asyncpg.connect(dsn)
        working = asyncio.create_task(connection.execute("select pg_sleep(600)"))
        watching = await asyncpg.connect(dsn)
        try:
            while not await watching.fetchval(
                "select exists (select from pg_stat_activity where state = 'active' and query like '%pg_sleep(600)'"
                " and pid <> pg_backend_pid())"
            ):
                await asyncio.sleep(0.01)
            begun.set()
            await asyncio.to_thread(done.wait)
        finally:
            working.cancel()
            await asyncio.gather(working, return_exceptions=True)
            await connection.close()
            await watching.close()

    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    try:
        assert begun.wait(60)
        yield
    finally:
        done.set()
        thread.join()


class Clock:
    """Tells the time and how long a reader ran and waited, and keeps how long it rested."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.times = LATE, CROWDED
        self.rests: list[float] = []
        patch.setattr(throttle, "time", lambda: self.now)
        patch.setattr(throttle, "sleep", self.rests.append)
        patch.setattr(throttle, "_read_times", lambda: self.times)


def test_reader_pauses_while_the_broker_is_busy(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    with somebody_at_work(database), open_database(database) as connection:
        throttle.Pace(connection, MANY).rest()
        assert clock.rests == [0.5]
        throttle.Pace(connection, FEW).rest()
        clock.now = EARLY
        throttle.Pace(connection, MANY).rest()
        clock.now, clock.times = LATE, ALONE
        throttle.Pace(connection, MANY).rest()
        assert clock.rests == [0.5]


def test_reader_does_not_pause_on_an_idle_broker(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock(monkeypatch)
    with open_database(database) as other, open_database(database) as connection:
        other.fetch("select 1 as one")
        throttle.Pace(connection, MANY).rest()
    assert clock.rests == []
