"""The broker while its database is unreachable, and while it closes."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import asyncpg
import pytest

from laneway.domain.errors import BrokerClosed, Misconfigured, Retryable, Unavailable
from laneway.domain.messages import OutgoingMessage
from laneway.domain.settings import ConnectionSettings, QueueSettings
from laneway.engine import Broker
from laneway.sql.migrate import install
from tests.integration.conftest import QUIET
from tests.postgres import name_database, run_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from laneway.embedded import EmbeddedPostgres
    from tests.postgres import Connect

MINUTE = timedelta(minutes=1)


async def test_calls_fail_fast_while_the_database_is_unreachable_and_recover() -> None:
    async with own_server() as server, Broker(server.dsn, QUIET) as broker:
        await broker.queues.create("jobs")
        await broker.push("jobs", [OutgoingMessage("1")])
        [delivery] = await broker.claim("jobs")
        waiting = asyncio.ensure_future(broker.claim("jobs", wait=MINUTE))
        await server.stop()
        for call in (
            lambda: broker.push("jobs", [OutgoingMessage("2")]),
            lambda: broker.claim("jobs"),
            lambda: broker.ack([delivery.receipt]),
            lambda: broker.statistics.counts(),  # noqa: PLW0108 - evaluated when called, as the others
            lambda: broker.queues.create("other"),
        ):
            async with asyncio.timeout(20):
                with pytest.raises(Unavailable):
                    await call()
        async with asyncio.timeout(20):
            with pytest.raises(Unavailable):
                await waiting
        await server.start()
        await until_back(lambda: broker.push("jobs", [OutgoingMessage("3")]))
        assert await broker.ack([delivery.receipt]) == []
        assert [found.body for found in await broker.claim("jobs", 10)] == ["3"]


async def test_killed_database_loses_no_confirmed_push() -> None:
    async with own_server() as server, Broker(server.dsn, QUIET) as broker:
        await broker.queues.create("jobs")
        known: list[str] = []
        stop = asyncio.Event()

        async def produce(name: int) -> None:
            n = 0
            while not stop.is_set():
                n += 1
                body = f"{name}{n:06}"
                with suppress(Retryable):
                    await broker.push("jobs", [OutgoingMessage(body)])
                    known.append(body)
                await asyncio.sleep(0)

        producers = [asyncio.ensure_future(produce(name)) for name in (1, 2, 3)]
        while len(known) < 100:
            await asyncio.sleep(0.001)
        os.kill(server.pid, signal.SIGKILL)
        before = len(known)
        # The server is started again by its owner.
        while len(known) < before + 200:
            await asyncio.sleep(0.01)
        stop.set()
        await asyncio.gather(*producers)
        found: set[str] = set()
        while claimed := await broker.claim("jobs", 1000):
            found |= {delivery.body for delivery in claimed}
        assert set(known) <= found


async def test_killed_connections_are_replaced(broker: Broker, connect: Connect) -> None:
    await asyncio.gather(*[broker.push("jobs", [OutgoingMessage("1")]) for _ in range(20)])
    await (await connect()).execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where datname = current_database() and application_name like 'laneway%'"
    )
    await until_back(lambda: broker.push("jobs", [OutgoingMessage("2")]))
    await broker._core.notices.listening.wait()
    assert len(await broker.claim("jobs", 100)) >= 21


async def test_waiter_is_woken_after_the_listener_was_lost(database: str, connect: Connect) -> None:
    async with Broker(database, QUIET) as broker, Broker(database, QUIET) as other:
        await broker.queues.create("jobs")
        await broker._core.notices.listening.wait()
        await (await connect()).execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name = 'laneway notices'"
        )
        while broker._core.notices.listening.is_set():
            await asyncio.sleep(0.001)
        waiting = asyncio.ensure_future(broker.claim("jobs", wait=MINUTE))
        await other.push("jobs", [OutgoingMessage("1")])
        assert [delivery.body for delivery in await waiting] == ["1"]


async def test_broker_starts_before_its_database() -> None:
    async with own_server() as server:
        dsn = server.dsn
        await server.stop()
        async with Broker(dsn, QUIET) as broker:
            with pytest.raises(Unavailable):
                await broker.queues.create("jobs")
            await server.start()
            await until_back(lambda: broker.queues.create("jobs"))


async def test_missing_database_differs_from_an_unreachable_one(server: str) -> None:
    async with Broker(name_database(server, "no_such_database"), QUIET) as broker:
        with pytest.raises(Misconfigured, match="no_such_database"):
            await broker.queues.list_all()


async def test_missing_schema_is_reported(blank_database: str) -> None:
    async with Broker(blank_database, QUIET) as broker:
        with pytest.raises(Misconfigured, match="admin install"):
            await broker.queues.list_all()


async def test_hanging_database_times_out(database: str, connect: Connect) -> None:
    settings = replace(
        QUIET, connections=ConnectionSettings(call_timeout=timedelta(milliseconds=200))
    )
    async with Broker(database, settings) as broker:
        await broker.queues.create("jobs", QueueSettings(ordered=True))
        await broker.push("jobs", [OutgoingMessage("1")])
        blocker = await connect()
        async with blocker.transaction():
            await hold_lanes(blocker)
            with pytest.raises(Unavailable, match="in time"):
                await broker.push("jobs", [OutgoingMessage("2")])
        await until_back(lambda: broker.push("jobs", [OutgoingMessage("3")]))


async def test_closing_finishes_pushes_and_answers_waiters(database: str, connect: Connect) -> None:
    async with Broker(database, QUIET) as broker:
        await broker.queues.create("jobs", QueueSettings(ordered=True))
        await broker.queues.create("quiet")
        await broker.push("jobs", [OutgoingMessage("0")])
        blocker = await connect()
        transaction = blocker.transaction()
        await transaction.start()
        await hold_lanes(blocker)
        waiting = asyncio.ensure_future(broker.claim("quiet", wait=MINUTE))
        flying = asyncio.ensure_future(broker.push("jobs", [OutgoingMessage("1")]))
        while broker._pushes.calls < 2 or not broker._claims:
            await asyncio.sleep(0.001)
        pending = asyncio.ensure_future(broker.push("jobs", [OutgoingMessage("2")]))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.05, asyncio.ensure_future, transaction.rollback())
    assert await waiting == []
    assert len(await flying) == len(await pending) == 1
    with pytest.raises(BrokerClosed):
        await broker.push("jobs", [OutgoingMessage("3")])
    with pytest.raises(BrokerClosed):
        await broker.claim("jobs")
    with pytest.raises(BrokerClosed):
        await broker.queues.list_all()
    assert len(await claim_all(database)) == 3


async def test_closing_cancels_calls_that_hang(database: str, connect: Connect) -> None:
    settings = replace(QUIET, shutdown=timedelta(milliseconds=100))
    blocker = await connect()
    async with Broker(database, settings) as broker:
        await broker.queues.create("jobs", QueueSettings(ordered=True))
        await broker.push("jobs", [OutgoingMessage("0")])
        transaction = blocker.transaction()
        await transaction.start()
        await hold_lanes(blocker)
        flying = asyncio.ensure_future(broker.push("jobs", [OutgoingMessage("1")]))
        while broker._pushes.calls < 2:
            await asyncio.sleep(0.001)
        pending = asyncio.ensure_future(broker.push("jobs", [OutgoingMessage("2")]))
        await asyncio.sleep(0)
    with pytest.raises(Unavailable, match="may or may not"):
        await flying
    with pytest.raises(BrokerClosed):
        await pending
    await transaction.rollback()


async def test_closed_broker_leaves_no_tasks_or_connections(
    database: str, connect: Connect
) -> None:
    before = asyncio.all_tasks()
    async with Broker(database) as broker:
        await broker.queues.create("jobs")
        await asyncio.gather(*[broker.push("jobs", [OutgoingMessage("1")]) for _ in range(50)])
        await broker.leads_maintenance.wait()
        await broker._core.notices.listening.wait()
    assert asyncio.all_tasks() == before
    looker = await connect()
    # A session that was told to end may take a moment to be gone.
    while await looker.fetchval(
        "select count(*) from pg_stat_activity"
        " where datname = current_database() and application_name like 'laneway%'"
    ):
        await asyncio.sleep(0.01)


@asynccontextmanager
async def own_server() -> AsyncIterator[EmbeddedPostgres]:
    async with run_server() as server:
        connection = await asyncpg.connect(server.dsn)
        await install(connection)
        await connection.close()
        yield server


async def until_back(call: Callable[[], Awaitable[object]]) -> None:
    """Make the call until the database answers it."""
    while True:
        with suppress(Unavailable):
            await call()
            return
        await asyncio.sleep(0.02)


async def hold_lanes(connection: asyncpg.Connection[asyncpg.Record]) -> None:
    await connection.execute(
        "select pg_advisory_xact_lock('laneway.lane'::regclass::oid::int, lane_id)"
        " from laneway.lane"
    )


async def claim_all(dsn: str) -> list[str]:
    async with Broker(dsn, QUIET) as broker:
        return [delivery.body for delivery in await broker.claim("jobs", 100)]
