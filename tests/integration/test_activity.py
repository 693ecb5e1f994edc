"""Activity: every process reads each event once, also events that commit late."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.activity import ActivitySettings, Monitor
from laneway.activity.builtin import make_registry
from laneway.activity.recorder import Recorder
from laneway.activity.updates import Change
from laneway.domain.activity import ActivityFilter, AnomalyFilter, Kind
from laneway.domain.messages import Nack, OutgoingMessage, Status
from laneway.domain.settings import QueueSettings
from laneway.engine import Broker
from tests.integration.conftest import QUIET
from tests.sql.calls import NOISE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.activity.feed import Subscription
    from laneway.activity.updates import Update
    from laneway.domain.activity import Event, EventBatch, Snapshot
    from tests.postgres import Connect

MOMENT = timedelta(milliseconds=10)
EAGER = ActivitySettings(look=MOMENT, record=MOMENT, patience=MOMENT)
LARGE = OutgoingMessage(f'"{"x" * 6000}"')
EVERYTHING = ActivityFilter()


async def look(broker: Broker, seen: Snapshot, limit: int = 1000) -> EventBatch:
    return await broker.activity.follow(seen, limit=limit, large=5000)


def kinds(events: Sequence[Event]) -> list[str]:
    return [event.kind for event in events]


async def test_events_are_followed_in_order(broker: Broker) -> None:
    seen = await broker.activity.read_snapshot()
    await broker.push("jobs", [OutgoingMessage("1", "job", 4), LARGE])
    [first, second] = await broker.claim("jobs", 2, consumer="worker")
    await broker.ack([first.receipt])
    await broker.nack([Nack(*second.receipt, reason="broken")])
    found = await look(broker, seen)
    assert kinds(found.events) == ["pushed", "pushed", "claimed", "claimed", "acked", "nacked"]
    assert not found.more
    [pushed] = [event for event in found.events[:2] if event.priority == 0]
    assert (pushed.queue, pushed.large_seqs, pushed.large_sizes) == ("jobs", [1], [6002])
    claimed = found.events[2]
    assert claimed.consumer == "worker"
    assert claimed.last_created is not None
    assert claimed.last_created <= claimed.at
    nacked = found.events[5]
    assert (nacked.reason, nacked.attempt, nacked.max_attempts) == ("broken", 1, 3)
    assert nacked.since == second.until - timedelta(seconds=30)
    assert (await look(broker, found.seen)).events == []


async def test_consumers_of_a_shared_claim_are_followed_as_one(broker: Broker) -> None:
    # From then on no claim waits for the queue to be looked up, and one call carries all.
    await broker._core.notices.listening.wait()
    await broker.push("jobs", [OutgoingMessage(str(n)) for n in range(5)])
    seen = await broker.activity.read_snapshot()
    taken = [each for [each] in await asyncio.gather(*[broker.claim("jobs") for _ in range(5)])]
    assert len({each.token for each in taken}) == 1
    await asyncio.gather(*[broker.ack([taken[n].receipt]) for n in (3, 0, 1)])
    found = await look(broker, seen)
    runs = [(event.kind, event.first_seq, event.last_seq) for event in found.events]
    assert runs == [("claimed", 1, 5), ("acked", 1, 2), ("acked", 4, 4)]
    assert {event.token for event in found.events} == {taken[0].token}


async def test_late_commit_is_followed_and_delays_no_other_event(
    broker: Broker, connect: Connect
) -> None:
    await broker.queues.create("other")
    late = await connect()
    seen = await broker.activity.read_snapshot()
    async with late.transaction():
        queue = await broker.queues.get("other")
        await late.fetch("select * from laneway.push_many($1, $2)", [queue.queue_id], ["1"])
        await broker.push("jobs", [OutgoingMessage("1")])
        first = await look(broker, seen)
        assert [event.queue for event in first.events] == ["jobs"]
        await broker.push("jobs", [OutgoingMessage("2")])
        second = await look(broker, first.seen)
        assert [event.queue for event in second.events] == ["jobs"]
    third = await look(broker, second.seen)
    assert [event.queue for event in third.events] == ["other"]
    assert (await look(broker, third.seen)).events == []


async def test_bounded_reads_return_every_event_once(broker: Broker, connect: Connect) -> None:
    late = await connect()
    queue = await broker.queues.create("other")
    start = await broker.activity.read_snapshot()
    await broker.push("jobs", [OutgoingMessage("1")])
    async with late.transaction():
        await late.fetch("select * from laneway.push_many($1, $2)", [queue.queue_id], ["1"])
        for _ in range(4):
            await broker.push("jobs", [OutgoingMessage("1")])
        found = await look(broker, start, limit=2)
        assert found.more
        events = list(found.events)
    while found.events:
        found = await look(broker, found.seen, limit=2)
        events += found.events
    assert len(events) == 6
    assert len({event.event_id for event in events}) == 6


async def test_events_of_a_transaction_are_followed_together(broker: Broker) -> None:
    pushed = await broker.push("jobs", [OutgoingMessage(str(n)) for n in range(5)])
    seen = await broker.activity.read_snapshot()
    await broker.messages.delete("jobs", [each.id for each in pushed], source=Status.QUEUED)
    await broker.push("jobs", [OutgoingMessage("1")])
    found = await look(broker, seen, limit=2)
    assert kinds(found.events) == ["deleted_many"] * 5
    assert kinds((await look(broker, found.seen, limit=2)).events) == ["pushed"]


async def test_concurrent_followers_store_each_event_once(database: str, broker: Broker) -> None:
    async with Broker(database, QUIET) as second:
        place = await broker.activity.find_place()
        await broker.push("jobs", [LARGE])
        recorders = [Recorder(each, EAGER, make_registry()) for each in (broker, second)]
        places = await asyncio.gather(*(recorder.look(place) for recorder in recorders))
        assert all(looked.busy for looked in places)
        for recorder, (seen, _, _) in zip(recorders, places, strict=True):
            assert await recorder.look(seen) == (seen, False, False)
        assert await broker.activity.count_anomalies(AnomalyFilter()) == [
            ("large_payload", "info", 1)
        ]


async def test_two_maintenance_leaders_store_each_anomaly_once(database: str) -> None:
    async with AsyncExitStack() as stack:
        brokers = [await stack.enter_async_context(Broker(database, QUIET)) for _ in range(2)]
        await brokers[0].queues.create("jobs")
        for broker in brokers:
            broker.leads_maintenance.set()
            await stack.enter_async_context(Monitor(broker, EAGER))
        for n in range(40):
            await brokers[n % 2].push("jobs", [LARGE])
        await brokers[0].push("jobs", [OutgoingMessage("1")] * 10)
        # The last one is an anomaly of another kind: everything before it has been read.
        while ("bulk_enqueue", "info", 1) not in await brokers[0].activity.count_anomalies(
            AnomalyFilter()
        ):
            await asyncio.sleep(0.01)
        assert set(await brokers[0].activity.count_anomalies(AnomalyFilter())) == {
            ("bulk_enqueue", "info", 1),
            ("large_payload", "info", 40),
        }


async def test_new_leader_continues_where_the_old_one_stopped(
    database: str, broker: Broker
) -> None:
    broker.leads_maintenance.set()
    async with Monitor(broker, EAGER):
        await broker.push("jobs", [LARGE])
        while not await broker.activity.count_anomalies(AnomalyFilter()):
            await asyncio.sleep(0.01)
    await broker.push("jobs", [LARGE])
    async with Broker(database, QUIET) as second:
        second.leads_maintenance.set()
        async with Monitor(second, EAGER):
            while await second.activity.count_anomalies(AnomalyFilter()) != [
                ("large_payload", "info", 2)
            ]:
                await asyncio.sleep(0.01)


async def test_only_the_maintenance_leader_records_activity(broker: Broker) -> None:
    async with Monitor(broker, EAGER) as monitor, monitor.feed.subscribe() as updates:
        await broker.push("jobs", [LARGE])
        assert await updates.take(timedelta(seconds=30)) is not None
    assert await broker.activity.count_anomalies(AnomalyFilter()) == []


async def test_position_from_another_cluster_is_ignored(broker: Broker, connect: Connect) -> None:
    looker = await connect()
    await looker.execute("update laneway.activity set seen = '999999999999:999999999999:'")
    place = await broker.activity.find_place()
    await broker.push("jobs", [OutgoingMessage("1")])
    assert kinds((await look(broker, place)).events) == ["pushed"]


async def test_lease_that_expired_long_ago_is_a_zombie_anomaly(
    broker: Broker, connect: Connect
) -> None:
    looker = await connect()
    place = await broker.activity.find_place()
    await broker.push("jobs", [OutgoingMessage("1")])
    await broker.claim("jobs")
    await looker.execute("update laneway.claim set until = until - interval '91 seconds'")
    await looker.execute("select * from laneway.expire_claims()")
    await Recorder(broker, EAGER, make_registry()).look(place)
    found = await broker.activity.list_anomalies(AnomalyFilter(severity="critical"))
    assert [(each.anomaly.type, each.kind) for each in found] == [("zombie_message", "expired")]


async def test_history_keeps_the_order_of_sessions_that_draw_ids_in_blocks(
    broker: Broker, connect: Connect
) -> None:
    early, late = await connect(), await connect()
    # The claim's session has drawn its block of ids before the push's session did.
    await early.execute("select laneway.create_queue('early', '{}')")
    queue = await broker.queues.get("jobs")
    await late.fetch("select * from laneway.push_many($1, $2)", [queue.queue_id], ["1"])
    group = queue.groups["default"].group_id
    [claim] = await early.fetch("select * from laneway.claim_many($1, '{1}')", group)
    await late.fetch(
        "select * from laneway.ack_many($1, $2, $3, $3)", [claim["token"]], [claim["lane_id"]], [1]
    )
    entries = (
        await broker.activity.list_entries(ActivityFilter(queue_ids=[queue.queue_id]))
    ).entries
    assert [entry.kind for entry in entries][:3] == ["acked", "claimed", "pushed"]
    message = entries[0].message
    assert message is not None
    history = await broker.activity.list_message_entries(message)
    assert [entry.kind for entry in history] == ["pushed", "claimed", "acked"]


async def test_runs_are_listed_message_by_message(broker: Broker) -> None:
    await broker.push("jobs", [OutgoingMessage(str(n)) for n in range(5)])
    page = await broker.activity.list_entries(ActivityFilter(kinds=["pushed"]), limit=2, offset=2)
    assert page.total == 5
    assert [entry.message and entry.message.seq for entry in page.entries] == [3, 4]
    assert {entry.batch for entry in page.entries} == {5}
    beyond = await broker.activity.list_entries(ActivityFilter(kinds=["pushed"]), offset=9)
    assert beyond == ([], 5)


async def test_anomalous_activity_is_listed_apart(broker: Broker) -> None:
    place = await broker.activity.find_place()
    await broker.push("jobs", [OutgoingMessage("1"), LARGE])
    await Recorder(broker, EAGER, make_registry()).look(place)
    wanted = replace(EVERYTHING, kinds=["pushed"])
    anomalous_entries = await broker.activity.list_entries(replace(wanted, anomalous=True))
    assert [entry.message and entry.message.seq for entry in anomalous_entries.entries] == [2]
    assert anomalous_entries.entries[0].anomalies[0].type == "large_payload"
    ordinary = await broker.activity.list_entries(replace(wanted, anomalous=False))
    assert [entry.message and entry.message.seq for entry in ordinary.entries] == [1]
    typed = await broker.activity.list_entries(replace(wanted, anomaly_type="bulk_move"))
    assert typed == ([], 0)


async def test_anomaly_is_limited_to_its_own_lane_of_a_push(broker: Broker) -> None:
    place = await broker.activity.find_place()
    pushed = await broker.push("jobs", [OutgoingMessage("1", "a"), LARGE._replace(partition="b")])
    await Recorder(broker, EAGER, make_registry()).look(place)
    assert [each.seq for each in pushed] == [1, 1]
    wanted = replace(EVERYTHING, kinds=["pushed"])
    everything = await broker.activity.list_entries(wanted)
    assert [len(entry.anomalies) for entry in everything.entries] == [0, 1]
    anomalous_entries = await broker.activity.list_entries(replace(wanted, anomalous=True))
    assert [entry.message for entry in anomalous_entries.entries] == [pushed[1].id]
    ordinary = await broker.activity.list_entries(replace(wanted, anomalous=False))
    assert [entry.message for entry in ordinary.entries] == [pushed[0].id]


async def test_clearing_activity_keeps_acknowledgements(broker: Broker) -> None:
    place = await broker.activity.find_place()
    await broker.push("jobs", [LARGE])
    [taken] = await broker.claim("jobs", consumer="worker")
    await broker.ack([taken.receipt])
    await Recorder(broker, EAGER, make_registry()).look(place)
    assert len(await broker.activity.list_consumers()) == 1
    await broker.activity.clear()
    assert await broker.activity.list_entries(EVERYTHING) == ([], 0)
    assert await broker.activity.list_message_entries(taken.id) == []
    assert await broker.activity.list_anomalies(AnomalyFilter()) == []
    assert await broker.activity.list_consumers() == []
    [message] = await broker.messages.find("jobs", [taken.id])
    assert message is not None
    assert message.acknowledged_at is not None
    await broker.push("jobs", [OutgoingMessage("1")])
    assert [entry.kind for entry in (await broker.activity.list_entries(EVERYTHING)).entries] == [
        "pushed"
    ]


async def test_claim_is_counted_once_before_and_after_detectors_read_it(broker: Broker) -> None:
    place = await broker.activity.find_place()
    await broker.push("jobs", [OutgoingMessage(str(n)) for n in range(5)])
    recorder = Recorder(broker, EAGER, make_registry())
    for count, n in ((2, 2), (5, 3)):
        await broker.claim("jobs", n, consumer="worker")
        unread = await broker.activity.list_consumers()
        looked = await recorder.look(place)
        place = looked.seen
        assert looked.busy
        assert await broker.activity.list_consumers() == unread
        assert [(each.consumer, each.claimed) for each in unread] == [("worker", count)]


async def test_cleared_claims_are_not_counted_later(broker: Broker) -> None:
    place = await broker.activity.find_place()
    await broker.push("jobs", [OutgoingMessage("1")])
    await broker.claim("jobs", consumer="worker")
    await broker.activity.clear()
    recorder = Recorder(broker, EAGER, make_registry())
    while (looked := await recorder.look(place)).busy:
        place = looked.seen
    assert await broker.activity.list_consumers() == []


async def test_activity_past_retention_is_removed(broker: Broker) -> None:
    place = await broker.activity.find_place()
    await broker.push("jobs", [LARGE])
    await broker.claim("jobs", consumer="worker")
    await Recorder(broker, EAGER, make_registry()).look(place)
    await broker.activity.set_event_retention(timedelta(0))
    assert await broker.activity.list_entries(EVERYTHING) == ([], 0)
    assert await broker.activity.list_anomalies(AnomalyFilter()) == []
    # What was large and who took it, and that it was taken at once if it was.
    assert await broker.activity.sweep(limit=10) in {2, 3}
    assert await broker.activity.sweep(limit=10) == 0
    assert await broker.activity.list_consumers() == []


async def test_queue_without_events_is_not_followed(broker: Broker) -> None:
    await broker.queues.create("quiet", QueueSettings(record_events=False))
    seen = await broker.activity.read_snapshot()
    [pushed] = await broker.push("quiet", [OutgoingMessage("1")])
    await broker.activity.record_refusals([(pushed.id, None)])
    assert (await look(broker, seen)).events == []


async def test_consumers_with_names_too_long_to_index_are_counted(broker: Broker) -> None:
    place = await broker.activity.find_place()
    await broker.push("jobs", [OutgoingMessage("1"), OutgoingMessage("2")])
    for end in "ab":
        await broker.claim("jobs", consumer=NOISE + end)
    await Recorder(broker, EAGER, make_registry()).look(place)
    [both] = await broker.activity.list_consumers()
    assert (both.consumer, both.claimed) == (NOISE[:500], 2)


async def test_refused_acknowledgement_is_on_record(broker: Broker) -> None:
    [pushed] = await broker.push("jobs", [OutgoingMessage("1")])
    await broker.activity.record_refusals([(pushed.id, None)])
    history = await broker.activity.list_message_entries(pushed.id)
    assert [entry.kind for entry in history] == ["pushed", Kind.ACK_REFUSED]


async def take(updates: Subscription) -> Update:
    update = await updates.take(timedelta(seconds=30))
    assert update is not None
    return update


async def test_feed_reports_events_of_other_processes(database: str, broker: Broker) -> None:
    async with (
        Broker(database, QUIET) as other,
        Monitor(broker, EAGER) as monitor,
        monitor.feed.subscribe() as updates,
    ):
        [pushed] = await other.push("jobs", [OutgoingMessage('{"a": 1}', "job")])
        added = await take(updates)
        assert (added.change, added.queue, list(added.ids)) == ("enqueue", "jobs", [pushed.id])
        assert [facts.body for facts in added.messages] == ['{"a": 1}']
        [taken] = await other.claim("jobs")
        assert (await take(updates)).change is Change.DEQUEUE
        await other.ack([taken.receipt])
        assert (await take(updates)).change is Change.ACKNOWLEDGE


async def test_feed_skips_events_beyond_its_limit(broker: Broker) -> None:
    settings = replace(EAGER, look_events=2)
    monitor = Monitor(broker, settings)
    async with monitor.feed.subscribe() as updates:
        for _ in range(5):
            await broker.push("jobs", [OutgoingMessage("1")])
        async with monitor:
            skipped = await take(updates)
            assert (skipped.queue, skipped.force_refresh) == (None, True)
            [pushed] = await broker.push("jobs", [OutgoingMessage("2")])
            assert list((await take(updates)).ids) == [pushed.id]


async def test_feed_begins_with_each_subscription(broker: Broker) -> None:
    async with Monitor(broker, EAGER) as monitor:
        async with monitor.feed.subscribe() as updates:
            await broker.push("jobs", [OutgoingMessage("1")])
            await take(updates)
        await broker.push("jobs", [OutgoingMessage("2")])
        async with monitor.feed.subscribe() as updates:
            [pushed] = await broker.push("jobs", [OutgoingMessage("3")])
            assert list((await take(updates)).ids) == [pushed.id]
