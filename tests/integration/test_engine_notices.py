"""Notifications: single pushes notify in their own commit, pushes under load separately."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from laneway.domain.errors import MessageTooLarge, Misconfigured, QueueExists
from laneway.domain.messages import OutgoingMessage
from laneway.domain.settings import (
    ConnectionSettings,
    MaintenanceSettings,
    QueueSettings,
    WakeupSettings,
)
from laneway.engine import Broker
from laneway.engine import notifications as notices_module
from laneway.engine.notifications import SESSION, WAKE, Notices
from laneway.engine.procedures import notification
from tests.integration.conftest import QUIET

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from laneway.engine.procedures.call import Connection
    from tests.postgres import Connect

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)

# No net: what is not woken stays asleep, and the test runs into its timeout.
DEAF = replace(QUIET, wakeups=WakeupSettings(safety_poll=HOUR))
# It hears nothing.
EARLESS = replace(QUIET, wakeups=WakeupSettings(safety_poll=HOUR, listen=False))
# After one push it is never calm again, and tells others of the next, then no more.
RESTLESS = replace(QUIET, wakeups=WakeupSettings(safety_poll=HOUR, notify_pause=HOUR))


@pytest.fixture
def mute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have no broker tell anybody of a push but by the push itself."""
    monkeypatch.setattr(Notices, "tell_wake", lambda *_: None)


@pytest.mark.usefixtures("mute")
async def test_single_push_notifies_in_its_own_commit(database: str) -> None:
    async with sleeper(database) as waiting, Broker(database, DEAF) as pusher:
        await pusher.push("jobs", [OutgoingMessage("1")])
        assert await waiting == ["1"]


@pytest.mark.usefixtures("mute")
async def test_single_delayed_push_notifies_its_due_time(database: str) -> None:
    async with sleeper(database) as waiting, Broker(database, DEAF) as pusher:
        await pusher.push("jobs", [OutgoingMessage("1", delay=timedelta(milliseconds=50))])
        assert await waiting == ["1"]


@pytest.mark.usefixtures("mute")
async def test_push_to_a_delaying_queue_notifies_its_due_time(database: str) -> None:
    settings = QueueSettings(delay=timedelta(milliseconds=50))
    async with sleeper(database, settings) as waiting, Broker(database, DEAF) as pusher:
        await pusher.push("jobs", [OutgoingMessage("1")])
        assert await waiting == ["1"]


@pytest.mark.usefixtures("mute")
async def test_each_quiet_period_has_its_own_notification(database: str, connect: Connect) -> None:
    heard = await listen(connect)
    quick = replace(DEAF, wakeups=WakeupSettings(notify_pause=timedelta(microseconds=1)))
    async with Broker(database, quick) as pusher:
        await pusher.queues.create("jobs")
        for n in range(3):
            await pusher.push("jobs", [OutgoingMessage(str(n))])
        assert len({(await heard.get())[0] for _ in range(3)}) == 1


async def test_consecutive_pushes_notify_separately_from_their_commits(
    database: str, connect: Connect
) -> None:
    heard = await listen(connect)
    looker = await connect()
    await looker.execute("select laneway.create_queue('jobs')")
    async with Broker(database, RESTLESS) as pusher:
        await pusher._core.notices.listening.wait()
        listener = await looker.fetchval(
            "select pid from pg_stat_activity"
            " where datname = current_database() and application_name = 'laneway notices'"
            " order by backend_start desc limit 1"
        )
        for n in range(3):
            await pusher.push("jobs", [OutgoingMessage(str(n))])
        first, second = await heard.get(), await heard.get()
        assert first[0] != listener
        assert second[0] == listener
        assert first[1] == second[1]


async def test_push_concurrent_with_a_notifying_push_neither_waits_nor_is_missed(
    database: str, connect: Connect
) -> None:
    other = await connect()
    async with (
        sleeper(database) as waiting,
        Broker(database, DEAF) as pusher,
        other.transaction(),
    ):
        assert await other.fetchval("select laneway.notify_at_commit(':0')")
        await pusher.push("jobs", [OutgoingMessage("1")])
        assert await waiting == ["1"]


@pytest.mark.usefixtures("mute")
async def test_failed_push_wakes_no_consumer(database: str, connect: Connect) -> None:
    heard = await listen(connect)
    async with Broker(database, DEAF) as pusher:
        await pusher.queues.create("jobs", QueueSettings(max_bytes=10))
        with pytest.raises(MessageTooLarge):
            await pusher.push("jobs", [OutgoingMessage('"much too long"')])
    own = await connect()
    transaction = own.transaction()
    await transaction.start()
    await own.execute("select laneway.push('jobs', '1')")
    await transaction.rollback()
    await own.execute("select pg_notify('laneway_wake', 'nothing before')")
    assert (await heard.get())[1] == "nothing before"


async def test_broker_that_cannot_listen_notifies_of_every_push(database: str) -> None:
    async with sleeper(database) as first, Broker(database, EARLESS) as pusher:
        await pusher.push("jobs", [OutgoingMessage("1")])
        assert await first == ["1"]
        async with sleeper(database) as second:
            pusher._core.notices.note_notified()
            await pusher.push("jobs", [OutgoingMessage("2")])
            assert await second == ["2"]


async def test_broker_notifies_of_its_last_push_before_it_closes(
    database: str, connect: Connect
) -> None:
    heard = await listen(connect)
    await (await connect()).execute("select laneway.create_queue('jobs')")
    async with Broker(database, RESTLESS) as pusher:
        await pusher._core.notices.listening.wait()
        for n in range(2):
            await pusher.push("jobs", [OutgoingMessage(str(n))])
            await heard.get()
        await pusher.push("jobs", [OutgoingMessage("2")])
        assert heard.empty()
    assert await heard.get()


async def test_lone_broker_notifies_the_first_listener_that_joins(
    database: str, connect: Connect
) -> None:
    heard = await listen(connect, name="not one of them")
    async with Broker(database, DEAF) as pusher:
        await be_alone(pusher)
        await asyncio.sleep(0.05)
        while not heard.empty():
            heard.get_nowait()
        for _ in range(3):
            await pusher.push("jobs", [OutgoingMessage("2")])
            await asyncio.sleep(0.02)
        assert heard.empty()
        async with Broker(database, DEAF):
            assert await heard.get()


async def test_listeners_that_join_and_leave_silently_are_noticed(
    database: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(notices_module, "CENSUS", 0.0)
    other = await connect()
    async with Broker(database, DEAF) as pusher:
        for name in (SESSION, f"{SESSION} - host"):
            await be_alone(pusher)
            await other.execute("select set_config('application_name', $1, false)", name)
            await be_alone(pusher, alone=False)
            await other.execute("select set_config('application_name', 'gone', false)")


async def test_broker_notifies_where_it_cannot_see_other_listeners(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> bool:
        raise Misconfigured("permission denied for view pg_stat_activity")

    monkeypatch.setattr(notices_module, "is_only_one", fail)
    monkeypatch.setattr(notices_module, "CENSUS", 0.0)
    async with sleeper(database) as waiting, Broker(database, DEAF) as pusher:
        await pusher._core.notices.listening.wait()
        pusher._core.notices.note_notified()
        await pusher.push("jobs", [OutgoingMessage("1")])
        assert await waiting == ["1"]
        assert pusher._core.notices.listening.is_set()


async def test_lone_broker_without_a_listener_notifies_in_its_pushes(
    database: str, connect: Connect
) -> None:
    settings = replace(DEAF, connections=ConnectionSettings(reconnect_limit=HOUR))
    async with Broker(database, settings) as pusher:
        await be_alone(pusher)
        await (await connect()).execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = current_database() and application_name = $1",
            SESSION,
        )
        while pusher._core.notices.listening.is_set():
            await asyncio.sleep(0.001)
        await pusher.messages.purge("jobs")
        async with sleeper(database) as waiting:
            await asyncio.sleep(0.05)  # a calm
            await pusher.push("jobs", [OutgoingMessage("1")])
            assert await waiting == ["1"]


async def be_alone(pusher: Broker, *, alone: bool = True) -> None:
    """Push until it knows that it is alone, or is not."""
    with suppress(QueueExists):
        await pusher.queues.create("jobs")
    await pusher._core.notices.listening.wait()
    while pusher._core.notices._alone is not alone:
        await pusher.push("jobs", [OutgoingMessage("1")])
        await asyncio.sleep(0.001)


async def test_broker_that_only_pushes_gets_no_notifications(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    hearers: list[Notices] = []
    hear = Notices._hear_wake

    def note_and_hear(notices: Notices, payload: str) -> None:
        hearers.append(notices)
        hear(notices, payload)

    monkeypatch.setattr(Notices, "_hear_wake", note_and_hear)
    async with sleeper(database) as waiting, Broker(database, DEAF) as pusher:
        await pusher._core.notices.listening.wait()
        await pusher.push("jobs", [OutgoingMessage("1")])
        assert await waiting == ["1"]
        assert pusher._core.notices not in hearers


async def test_first_waiter_finds_messages_pushed_before_it_was_known(
    database: str, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = asyncio.Event()

    async def listen_later(
        connection: Connection, channel: str, hear: Callable[[str], None]
    ) -> None:
        if channel == WAKE:
            await gate.wait()
        await notification.listen(connection, channel, hear)

    monkeypatch.setattr("laneway.engine.notifications.listen", listen_later)
    async with sleeper(database, hears=False) as waiting:
        own = await connect()
        await own.execute(
            "select laneway.push_many(array[queue_id], array['1'::json]) from laneway.queue"
        )
        assert not waiting.done()
        gate.set()
        assert await waiting == ["1"]


async def test_push_in_sql_wakes_consumers(database: str, connect: Connect) -> None:
    async with sleeper(database) as waiting:
        await (await connect()).execute("select laneway.push('jobs', '1')")
        assert await waiting == ["1"]


async def test_commit_of_an_outbox_push_wakes_another_process(
    database: str, connect: Connect
) -> None:
    keeping = replace(DEAF, maintenance=MaintenanceSettings(outbox=HOUR))
    async with Broker(database, keeping) as keeper, sleeper(database) as waiting:
        await keeper.leads_maintenance.wait()
        await keeper._core.notices.listening.wait()
        own = await connect()
        async with own.transaction():
            await own.execute("select laneway.outbox_push('jobs', '1')")
        assert await waiting == ["1"]


async def test_pushes_through_many_brokers_wake_for_every_message(database: str) -> None:
    """Some come after a calm, some in a row, some beside those of other brokers."""
    async with Broker(database, DEAF) as consumer:
        await consumer.queues.create("jobs")

        async def produce(name: str) -> None:
            async with Broker(database, DEAF) as pusher:
                for n in range(20):
                    await pusher.push("jobs", [OutgoingMessage(f'"{name}{n}"')])
                    await asyncio.sleep(0.001 * (n % 7))

        producing = asyncio.gather(*[produce(name) for name in "abcd"])
        seen: list[str] = []
        while len(seen) < 80:
            seen += [item.body for item in await consumer.claim("jobs", 10, wait=MINUTE)]
        await producing
        assert sorted(seen) == sorted(f'"{name}{n}"' for name in "abcd" for n in range(20))


@asynccontextmanager
async def sleeper(
    database: str, settings: QueueSettings | None = None, *, hears: bool = True
) -> AsyncIterator[asyncio.Future[list[str]]]:
    """Yield what a broker of its own gets that found nothing and waits."""
    async with Broker(database, DEAF) as broker:
        with suppress(QueueExists):
            await broker.queues.create("jobs", settings)
        if hears:
            broker._core.notices.await_wakes()
            await broker._core.notices.listening.wait()

        async def take() -> list[str]:
            return [delivery.body for delivery in await broker.claim("jobs", wait=MINUTE)]

        waiting = asyncio.ensure_future(take())
        while not broker._claims or any(pump._running_calls for pump in broker._claims.values()):
            await asyncio.sleep(0.001)
        yield waiting


async def listen(connect: Connect, *, name: str = SESSION) -> asyncio.Queue[tuple[int, str]]:
    """Return what is told from now on, with the process that told it; name: as whom to listen."""
    heard: asyncio.Queue[tuple[int, str]] = asyncio.Queue()
    connection = await connect()
    await connection.execute("select set_config('application_name', $1, false)", name)
    await connection.add_listener(
        "laneway_wake", lambda _, pid, _channel, payload: heard.put_nowait((pid, str(payload)))
    )
    return heard
