"""One process is the maintenance leader, and another takes over when it ends."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from laneway.domain.messages import OutgoingMessage
from laneway.domain.settings import (
    EngineSettings,
    MaintenanceSettings,
    QueueSettings,
    WakeupSettings,
)
from laneway.domain.workers import WorkerIdentity, WorkerState
from laneway.engine import Broker
from laneway.engine.maintenance import make_services
from laneway.engine.maintenance.reclaim import Reclaim
from tests.integration.conftest import QUIET

if TYPE_CHECKING:
    from tests.postgres import Connect

MINUTE = timedelta(minutes=1)
MOMENT = timedelta(milliseconds=20)

# Everything at once and often; no net under the wake-ups.
BUSY = EngineSettings(
    wakeups=WakeupSettings(safety_poll=timedelta(hours=1)),
    maintenance=MaintenanceSettings(
        candidacy=MOMENT,
        expire=MOMENT,
        rotate=MOMENT,
        retain=MOMENT,
        idle=MOMENT,
        dedup=MOMENT,
        outbox=timedelta(hours=1),
    ),
)


async def test_second_process_takes_over_maintenance(database: str) -> None:
    async with Broker(database, BUSY) as second:
        async with Broker(database, BUSY) as first:
            holders = {
                asyncio.ensure_future(b.leads_maintenance.wait()): b for b in (first, second)
            }
            done, waiting = await asyncio.wait(holders, return_when=asyncio.FIRST_COMPLETED)
            for task in waiting:
                task.cancel()
            assert len(done) == 1
            # Long enough for the other to have stood for election several times.
            await asyncio.sleep(0.1)
            assert first.leads_maintenance.is_set() != second.leads_maintenance.is_set()
        await second.leads_maintenance.wait()


async def test_lost_session_releases_maintenance_leadership(
    database: str, connect: Connect
) -> None:
    async with Broker(database, BUSY) as broker:
        await broker.leads_maintenance.wait()
        looker = await connect()
        holder = await looker.fetchval(_HOLDER)
        await looker.execute("select pg_terminate_backend($1)", holder)
        while (now := await looker.fetchval(_HOLDER)) is None or now == holder:
            await asyncio.sleep(0.01)
        await broker.leads_maintenance.wait()


async def test_broker_without_maintenance_never_leads(database: str, connect: Connect) -> None:
    async with Broker(database, QUIET) as broker:
        await broker.queues.create("jobs")
        assert not broker.leads_maintenance.is_set()
        assert await (await connect()).fetchval(_HOLDER) is None


@pytest.mark.parametrize("ordered", [False, True])
async def test_expired_lease_is_delivered_to_a_waiting_consumer(
    database: str,
    *,
    ordered: bool,
) -> None:
    async with Broker(database, BUSY) as broker, Broker(database, QUIET) as other:
        await other.queues.create("jobs", QueueSettings(ordered=ordered))
        await other.push("jobs", [OutgoingMessage("1")])
        [lost] = await other.claim("jobs", lease=timedelta(milliseconds=100))
        [again] = await broker.claim("jobs", wait=MINUTE)
        assert (again.id, again.attempt) == (lost.id, 2)
        assert await other.ack([lost.receipt]) == [0]
        assert await other.ack([again.receipt]) == []


async def test_expiry_wakes_waiters_of_other_processes(database: str) -> None:
    deaf = replace(QUIET, wakeups=WakeupSettings(safety_poll=timedelta(hours=1)))
    async with Broker(database, BUSY), Broker(database, deaf) as other:
        await other._core.notices.listening.wait()
        await other.queues.create("jobs")
        await other.push("jobs", [OutgoingMessage("1")])
        await other.claim("jobs", lease=timedelta(milliseconds=100))
        [again] = await other.claim("jobs", wait=MINUTE)
        assert again.attempt == 2


async def test_more_expired_leases_than_one_batch_return(database: str) -> None:
    settings = replace(BUSY, maintenance=replace(BUSY.maintenance, expire_batch=3))
    async with Broker(database, settings) as broker:
        await broker.queues.create("jobs")
        await broker.push("jobs", [OutgoingMessage(str(n)) for n in range(10)])
        lease = timedelta(milliseconds=50)
        await asyncio.gather(*[broker.claim("jobs", lease=lease) for _ in range(10)])
        seen: list[str] = []
        while len(seen) < 10:
            seen += [delivery.body for delivery in await broker.claim("jobs", 10, wait=MINUTE)]
        assert sorted(seen) == [str(n) for n in range(10)]


async def test_outbox_message_reaches_its_queue_and_wakes_consumers(
    database: str, connect: Connect
) -> None:
    async with Broker(database, BUSY) as broker:
        await broker.queues.create("jobs")
        waiting = asyncio.ensure_future(broker.claim("jobs", wait=MINUTE))
        own = await connect()
        async with own.transaction():
            await own.execute("select laneway.outbox_push('jobs', '\"inside\"', 'p')")
        [delivery] = await waiting
        assert (delivery.body, delivery.partition) == ('"inside"', "p")


async def test_outbox_message_without_a_notification_is_found(
    database: str, connect: Connect
) -> None:
    looking = replace(BUSY, maintenance=replace(BUSY.maintenance, outbox=MOMENT))
    async with Broker(database, looking) as broker:
        await broker.queues.create("jobs")
        own = await connect()
        told: list[object] = []
        await own.add_listener("laneway_outbox", lambda *notice: told.append(notice))
        await own.execute("select setval('laneway.outbox_notice', 9223372036854775807)")
        await own.execute("select laneway.outbox_push('jobs', '\"inside\"')")
        [delivery] = await broker.claim("jobs", wait=MINUTE)
        assert delivery.body == '"inside"'
        assert not told


async def test_outbox_message_that_cannot_be_moved_is_logged_once(
    database: str, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    looking = replace(BUSY, maintenance=replace(BUSY.maintenance, outbox=MOMENT))
    own = await connect()
    async with Broker(database, looking) as broker:
        await broker.queues.create("jobs")
        async with own.transaction():
            await own.execute("select laneway.outbox_push('jobs', '1')")
            await own.execute("update laneway.outbox set delay = '999999 years'")
        for n in ("2", "3"):
            await own.execute("select laneway.outbox_push('jobs', $1)", n)
            [delivery] = await broker.claim("jobs", wait=MINUTE)
            assert delivery.body == n
        while not caplog.messages:
            await asyncio.sleep(0.01)
    [told] = [record for record in caplog.records if record.levelname == "WARNING"]
    assert 'push to queue "jobs" failed' in told.message
    assert "at most 1000 years" in told.message


async def test_outbox_message_of_a_deleted_queue_is_logged(
    database: str, connect: Connect, caplog: pytest.LogCaptureFixture
) -> None:
    own = await connect()
    async with Broker(database, BUSY) as broker:
        queue = await broker.queues.create("gone")
        async with own.transaction():
            await own.execute("select laneway.outbox_push('gone', '1')")
            await broker.queues.delete("gone")
        while not caplog.messages:
            await asyncio.sleep(0.01)
    [told] = caplog.messages
    assert f"push to queue {queue.queue_id} failed" in told
    assert "does not exist" in told


async def test_segments_rotate_and_old_ones_are_dropped(database: str, connect: Connect) -> None:
    async with Broker(database, BUSY) as broker:
        await broker.queues.create("jobs")
        [first] = await broker.push("jobs", [OutgoingMessage("1")])
        [delivery] = await broker.claim("jobs")
        await broker.ack([delivery.receipt])
        looker = await connect()
        await looker.execute(
            "update laneway.policy set segment_interval = '1 microsecond', retention = '0',"
            " event_retention = '0'"
        )
        while await looker.fetchval(
            "select exists (select from laneway.segment where segment = $1)", first.segment
        ):
            await asyncio.sleep(0.01)
        [place] = await broker.push("jobs", [OutgoingMessage("2")])
        assert place.segment > first.segment
        assert place.seq == first.seq + 1


async def test_dedup_keys_are_removed_after_their_window(database: str, connect: Connect) -> None:
    async with Broker(database, BUSY) as broker:
        await broker.queues.create("jobs", QueueSettings(dedup_window=timedelta(milliseconds=50)))
        await broker.push("jobs", [OutgoingMessage("1", dedup_key="k")])
        looker = await connect()
        while await looker.fetchval("select count(*) from laneway.dedup_key"):
            await asyncio.sleep(0.01)
        [again] = await broker.push("jobs", [OutgoingMessage("2", dedup_key="k")])
        assert not again.duplicate


async def test_old_stopped_workers_are_removed(database: str, connect: Connect) -> None:
    keeping = MaintenanceSettings(keep_workers=timedelta(hours=1))
    async with Broker(database, QUIET) as broker:
        await broker.queues.create("jobs")
        for worker_id in ("old", "young", "polling"):
            await broker.workers.register(
                WorkerIdentity(worker_id, worker_id, "host", 1, ["jobs"], MINUTE)
            )
        for worker_id in ("old", "young"):
            await broker.workers.step(worker_id, WorkerState.STOPPED)
        connection = await connect()
        await connection.execute(
            "update laneway.worker set stopped_at = stopped_at - interval '61 minutes' where name = 'old'"
        )
        await Reclaim(keeping, broker._core.wakeups).run(connection)
        assert {worker.name for worker in await broker.workers.list_all()} == {"young", "polling"}


async def test_every_maintenance_service_runs(database: str, connect: Connect) -> None:
    async with Broker(database, QUIET) as broker:
        services = make_services(
            MaintenanceSettings(),
            broker._core.wakeups,
            outbox=asyncio.Event(),
            timers=asyncio.Event(),
        )
        connection = await connect()
        for service in services:
            assert await service.run(connection) is False
        assert len({service.name for service in services}) == len(services)


_HOLDER = """
select pid from pg_locks where locktype = 'advisory' and granted and objid = 1
and classid = 'laneway.segment'::regclass::oid
and database = (select oid from pg_database where datname = current_database())
"""
