"""Several processes on one database, some of them killed."""

from __future__ import annotations

import asyncio
import os
import signal
from typing import TYPE_CHECKING, NamedTuple

import pytest_asyncio

from laneway.embedded.postmaster import read_postmaster
from tests.postgres import execute, make_database, open_directory
from tests.protocol.blocking import block, wait_for_blocked, wait_for_gauge, wait_until_refused
from tests.protocol.rest.calls import add, dequeue
from tests.protocol.rest.load import Load, check_account, drain
from tests.protocol.servers import make_queue, run_laneway, wait_for_workers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.protocol.servers import RunningServer

# No message becomes a dead letter because its consumers were killed.
PATIENT = '{"max_attempts": 1000}'
HASTE = ("--overdue-check-interval-ms", "100")


class Pair(NamedTuple):
    """Two servers on one database."""

    dsn: str
    one: RunningServer
    other: RunningServer


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def pair(server: str) -> AsyncIterator[Pair]:
    async with (
        make_database(server, "pair") as dsn,
        run_laneway(dsn) as one,
        run_laneway(dsn) as other,
    ):
        yield Pair(dsn, one, other)


async def test_push_to_one_server_wakes_a_long_poll_on_another(pair: Pair) -> None:
    await execute(pair.dsn, BLIND)
    await make_queue(pair.dsn, "woken")
    async with pair.one.client() as pushing, pair.other.client() as waiting:
        for number in range(5):
            poll = asyncio.ensure_future(dequeue(waiting, "woken", timeout=60))
            await wait_for_gauge(pair.other, "laneway_claim_pump_waiters", 1)
            message_id = await add(pushing, "woken", number)
            async with asyncio.timeout(30):
                message = await poll
            assert (message["id"], message["payload"]) == (message_id, number)


async def test_each_message_reaches_one_long_poll_of_several_servers(pair: Pair) -> None:
    await make_queue(pair.dsn, "shared")
    async with pair.one.client() as first, pair.other.client() as second:
        polls = [
            asyncio.ensure_future(dequeue(api, "shared", timeout=60))
            for api in (first, second)
            for _ in range(5)
        ]
        for server in (pair.one, pair.other):
            await wait_for_gauge(server, "laneway_claim_pump_waiters", 5)
        messages = [{"type": "job", "payload": n, "queue": "shared"} for n in range(10)]
        answer = await first.post("/queue/batch", json=messages)
        async with asyncio.timeout(30):
            dequeued = await asyncio.gather(*polls)
        assert sorted(message["id"] for message in dequeued) == sorted(answer.json()["ids"])
        assert sorted(message["payload"] for message in dequeued) == list(range(10))


async def test_message_dequeued_from_one_server_is_settled_through_another(pair: Pair) -> None:
    async with pair.one.client() as first, pair.other.client() as second:
        message_id = await add(first, "default")
        message = await dequeue(second, "default")
        receipt = {"id": message_id, "lock_token": message["lock_token"]}
        assert (await first.post("/queue/ack", json=receipt)).status_code == 200
        assert (await second.post("/queue/ack", json=receipt)).status_code == 400


async def test_queue_created_through_one_server_is_known_to_another(pair: Pair) -> None:
    async with pair.one.client() as first, pair.other.client() as second:
        assert (await first.post("/queues", json={"name": "fresh"})).status_code == 201
        message_id = await add(second, "fresh")
        assert (await dequeue(first, "fresh"))["id"] == message_id


async def test_killed_server_loses_no_confirmed_message(database: str) -> None:
    await make_queue(database, "load", PATIENT)
    async with run_laneway(database) as server:
        load = Load(server, "load", lease=1)
        async with load.run():
            await load.reach(added=120, settled=30)
            await server.stop(signal.SIGKILL)
    async with run_laneway(database, *HASTE) as server, server.client() as api:
        check_account(load, await drain(api, "load"))


async def test_killed_worker_process_loses_nothing_and_the_others_continue(database: str) -> None:
    await make_queue(database, "load", PATIENT)
    async with run_laneway(database, "--workers", "2", *HASTE) as server:
        load = Load(server, "load", lease=1)
        async with load.run():
            await load.reach(added=80, settled=20)
            victim = (await wait_for_workers(server, 2))[0]
            os.kill(victim, signal.SIGKILL)
            # Clients that had a connection to it are gone; newcomers find the other one.
            survivors = Load(server, "load", lease=1)
            async with survivors.run():
                await survivors.reach(added=80, settled=20)
        load.merge(survivors)
        async with server.client() as api:
            check_account(load, await drain(api, "load"))
        assert await server.stop() == 0


async def test_killed_database_loses_no_confirmed_message() -> None:
    with open_directory() as folder:
        data = folder / "data"
        flags = ("--data-dir", str(data), *HASTE)
        async with run_laneway("", *flags) as server:
            async with server.client() as api:
                await api.post("/queues", json={"name": "load", "max_attempts": 1000})
            load = Load(server, "load", lease=1)
            async with load.run():
                await load.reach(added=80, settled=20)
                killed = kill_database(data)
                # Those who are refused meanwhile go on by themselves.
                await load.reach(added=80, settled=20)
                # And once more, this time with nobody there to start it again.
                assert kill_database(data) != killed
                await server.stop(signal.SIGKILL)
        async with run_laneway("", *flags) as server:
            async with server.client() as api:
                check_account(load, await drain(api, "load"))
            assert await server.stop() == 0


async def test_stopped_server_leaves_only_delivered_messages_in_flight(
    database: str,
) -> None:
    await make_queue(database, "load", PATIENT)
    async with run_laneway(database) as server:
        load = Load(server, "load", lease=600)
        # More workers than work: claims are under way whenever the signal comes.
        async with load.run(producers=2, workers=6):
            await load.reach(added=120, settled=60)
            assert await server.stop() == 0
        assert "Traceback" not in server.log
    async with run_laneway(database) as server, server.client() as api:
        held = await api.get(
            "/queue/processing/messages", params={"queueName": "load", "limit": 1000}
        )
        in_hand = {message["id"] for message in held.json()["messages"]}
        # Only messages that were delivered and whose ack was not answered.
        assert load.held - load.perhaps_settled <= in_hand <= load.held
        waiting = await api.get("/queue/messages/batch", params={"queue": "load", "count": 100})
        assert {message["attempt_count"] for message in waiting.json()["messages"]} <= {1}


async def test_requests_in_the_database_finish_when_the_server_stops(database: str) -> None:
    async with run_laneway(database) as server, server.client() as api:
        async with block(database, "message"):
            adding = [asyncio.ensure_future(add(api, "default", n)) for n in range(5)]
            await wait_for_gauge(server, "laneway_push_pump_messages", 5)
            stopping = asyncio.ensure_future(server.stop())
            await wait_until_refused(server)
            assert not any(each.done() for each in adding)
        assert await stopping == 0
        ids = await asyncio.gather(*adding)
    async with run_laneway(database) as server, server.client() as api:
        assert sorted(message["id"] for message in await drain(api, "default")) == sorted(ids)


async def test_claim_during_the_stop_is_released(database: str) -> None:
    async with run_laneway(database) as server, server.client() as api:
        message_id = await add(api, "default")
        async with block(database, "claim"):
            poll = asyncio.ensure_future(api.get("/queue/message", params={"timeout": 60}))
            await wait_for_blocked(database)
            stopping = asyncio.ensure_future(server.stop())
            async with asyncio.timeout(30):
                assert (await poll).status_code == 404
        assert await stopping == 0
    async with run_laneway(database) as server, server.client() as api:
        message = await dequeue(api, "default")
        assert (message["id"], message["attempt_count"]) == (message_id, 1)


# The look once a second finds nothing any more: only word from the other process wakes.
BLIND = """
    create or replace function laneway.ready_groups(p_group_ids int[]) returns setof int
    language sql stable as 'select null::int where false'
"""


def kill_database(data: Path) -> int:
    """Kill the server's own PostgreSQL; return the number its process had."""
    postmaster = read_postmaster(data / "postgres")
    assert postmaster is not None
    os.kill(postmaster.pid, signal.SIGKILL)
    return postmaster.pid
