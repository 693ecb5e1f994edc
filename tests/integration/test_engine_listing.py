"""Lists of messages, time ranges and samples, through the broker."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TYPE_CHECKING

import pytest

from laneway.domain.errors import QueueNotFound
from laneway.domain.listings import SORTS, MessageFilter
from laneway.domain.messages import Nack, OutgoingMessage, Status
from laneway.domain.settings import QueueSettings
from laneway.engine import listings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.ids import MessageId
    from laneway.domain.messages import Pushed, StoredMessage
    from laneway.engine import Broker
    from tests.postgres import Connect

EVERYTHING = MessageFilter()
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)


async def push(broker: Broker, count: int, *, queue: str = "jobs", kind: str = "a") -> list[Pushed]:
    bodies = [OutgoingMessage(f'{{"n": {number}}}', kind) for number in range(count)]
    return await broker.push(queue, bodies)


async def find_times(broker: Broker, ids: Sequence[MessageId]) -> list[datetime]:
    return [message.created_at for message in await broker.messages.find("jobs", ids) if message]


async def test_pages_are_consecutive_and_have_a_total(broker: Broker) -> None:
    pushed = [(await push(broker, 1))[0].id for _ in range(5)]
    first = await broker.listings.read_page(["jobs"], Status.QUEUED, EVERYTHING, limit=2)
    assert [message.id for message in first.messages] == pushed[:2:-1]
    assert (first.total, first.more) == (5, True)
    last = await broker.listings.read_page(["jobs"], Status.QUEUED, EVERYTHING, limit=2, offset=4)
    assert [message.id for message in last.messages] == pushed[:1]
    assert (last.total, last.more) == (5, False)
    beyond = await broker.listings.read_page(
        ["jobs"], Status.QUEUED, EVERYTHING, limit=2, offset=10
    )
    assert (list(beyond.messages), beyond.total, beyond.more) == ([], 5, False)


async def test_filtered_page_counts_what_matches(broker: Broker) -> None:
    await push(broker, 3, kind="a")
    await push(broker, 4, kind="b")
    wanted = MessageFilter(partitions=["b"])
    page = await broker.listings.read_page(None, Status.QUEUED, wanted, limit=2)
    assert (len(page.messages), page.total, page.more) == (2, 4, True)
    page = await broker.listings.read_page(None, Status.QUEUED, wanted, limit=10)
    assert (len(page.messages), page.total, page.more) == (4, 4, False)


async def test_every_sort_order_is_supported_by_the_database(broker: Broker) -> None:
    await push(broker, 2)
    for sort, status in product(SORTS, Status):
        page = await broker.listings.read_page(None, status, EVERYTHING, sort=sort)
        assert len(page.messages) == (2 if status is Status.QUEUED else 0)


async def test_page_and_its_total_cost_the_page_not_the_queue(
    broker: Broker, connect: Connect
) -> None:
    for _ in range(4):
        await push(broker, 5000)
    await broker.ack([delivery.receipt for delivery in await broker.claim("jobs", 5000)])
    groups = [(await broker.queues.get("jobs")).groups["default"].group_id]
    session = await connect()
    for status in Status:
        async with session.transaction():
            await session.fetch(
                "select * from laneway.list_messages($1, $2, p_limit => 10)", groups, status
            )
            total = await session.fetchval("select laneway.count_messages($1, $2)", groups, status)
            rows = await session.fetchval(
                "select sum(coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)) "
                "from pg_stat_xact_all_tables where relname like 'message\\_%'"
            )
        assert total == {Status.QUEUED: 15_000, Status.ACKNOWLEDGED: 5000}.get(status, 0)
        assert rows < 100, status


@pytest.mark.parametrize("ordered", [False, True])
async def test_edited_message_is_listed_as_edited(broker: Broker, *, ordered: bool) -> None:
    await broker.queues.create("edited", QueueSettings(ordered=ordered))
    (first, second) = await push(broker, 2, queue="edited")
    lease = timedelta(seconds=7)
    changed = await broker.messages.edit(
        "edited", first.id, {"body": '"new"', "lease": lease}, source=Status.QUEUED
    )
    assert changed
    page = await broker.listings.read_page(["edited"], Status.QUEUED, EVERYTHING, descending=False)
    assert [message.id for message in page.messages] == [first.id, second.id]
    assert (page.messages[0].body, page.messages[0].lease) == ('"new"', lease)
    found = await broker.listings.read_page(["edited"], Status.QUEUED, MessageFilter(search="NEW"))
    assert [message.id for message in found.messages] == [first.id]


async def test_unknown_queue_has_no_list(broker: Broker) -> None:
    with pytest.raises(QueueNotFound):
        await broker.listings.read_page(["nowhere"], Status.QUEUED, EVERYTHING)


@pytest.mark.parametrize("descending", [True, False])
async def test_list_read_in_pages_has_every_message_once(
    broker: Broker, connect: Connect, *, descending: bool
) -> None:
    # Seven share one moment, across more than one part.
    pushed = [item.id for item in await push(broker, 7)]
    session = await connect()
    await session.execute("update laneway.message set created_at = $1", LONG_AGO)
    pushed += [(await push(broker, 1, kind="b"))[0].id for _ in range(6)]
    parts = [
        [message.id for message in part]
        async for part in broker.listings.iterate(
            None, Status.QUEUED, EVERYTHING, chunk=3, descending=descending
        )
    ]
    seen = [message_id for part in parts for message_id in part]
    assert len(parts) > 2
    assert sorted(seen) == sorted(pushed)
    times = await find_times(broker, seen)
    assert times == sorted(times, reverse=descending)


@pytest.mark.parametrize("change", ["push", "ack"])
async def test_sorted_iteration_yields_every_message_once(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Sorted as far as the limit, then by age; changes in between repeat and omit nothing."""
    monkeypatch.setattr(listings, "MOST_SORTED", 6)
    messages = [OutgoingMessage(str(n), f"kind-{n % 4}", priority=n % 3) for n in range(12)]
    pushed = [(await broker.push("jobs", [message]))[0].id for message in messages]
    seen: list[StoredMessage] = []
    async for part in broker.listings.iterate(
        None, Status.QUEUED, EVERYTHING, sort="priority", chunk=2
    ):
        if not seen and change == "push":
            await broker.push("jobs", [OutgoingMessage("99", "kind-1", priority=9)])
        elif not seen:
            [taken] = await broker.claim("jobs")
            await broker.ack([taken.receipt])
            pushed = [each for each in pushed if each != taken.id or each == part[0].id]
        seen += part
    ids = [message.id for message in seen]
    assert len(set(ids)) == len(ids)
    assert set(pushed) <= set(ids)
    first = [message.priority for message in seen[:4]]
    assert first == sorted(first, reverse=True)


async def test_range_of_time_lists_every_state(broker: Broker) -> None:
    await push(broker, 3)
    (taken,) = await broker.claim("jobs")
    (failed,) = await broker.claim("jobs")
    await broker.nack([Nack(*failed.receipt, dead=True)])
    found = await broker.listings.list_between(None, LONG_AGO, datetime.now(UTC) + HOUR, limit=10)
    states = {message.id: message.status for message in found}
    assert len(states) == 3
    assert (states[taken.id], states[failed.id]) == ("processing", "dead")
    assert await broker.listings.list_between(None, LONG_AGO, LONG_AGO + HOUR, limit=10) == []


async def test_range_of_time_narrows_a_list(broker: Broker) -> None:
    before = [item.id for item in await push(broker, 2)]
    middle = await push(broker, 2)
    after = [item.id for item in await push(broker, 2)]
    since, until = await find_times(broker, [item.id for item in middle])
    wanted = MessageFilter(since=since, until=until)
    page = await broker.listings.read_page(["jobs"], Status.QUEUED, wanted)
    assert {message.id for message in page.messages} == {item.id for item in middle}
    page = await broker.listings.read_page(
        ["jobs"], Status.QUEUED, MessageFilter(since=until + timedelta(microseconds=1))
    )
    assert {message.id for message in page.messages} == set(after)
    page = await broker.listings.read_page(
        ["jobs"], Status.QUEUED, MessageFilter(until=since - timedelta(microseconds=1))
    )
    assert {message.id for message in page.messages} == set(before)


async def test_deleting_a_range_of_time_takes_every_state_and_leaves_the_rest(
    broker: Broker,
) -> None:
    early = [item.id for item in await push(broker, 3)]
    middle = await push(broker, 9)
    times = await find_times(broker, [item.id for item in middle])
    late = [item.id for item in await push(broker, 2)]
    taken = await broker.claim("jobs", 9)
    # Of the nine, six are in flight with the early three: one acked, one dead, one released, one
    # archived, two still held; three wait.
    await broker.ack([taken[3].receipt])
    await broker.nack([Nack(*taken[4].receipt, dead=True), Nack(*taken[5].receipt, delay=HOUR)])
    await broker.messages.archive("jobs", [taken[6].id], source=Status.PROCESSING)
    since, until = times[0], times[-1]
    assert await broker.messages.delete_between(["jobs"], since, until) == 9
    assert await broker.messages.find("jobs", [item.id for item in middle]) == [None] * 9
    (counts,) = await broker.statistics.counts("jobs")
    assert (counts.queued, counts.processing, counts.acknowledged) == (2, 3, 0)
    assert (counts.dead, counts.archived) == (0, 0)
    assert [delivery.id for delivery in await broker.claim("jobs", 10)] == late
    assert await broker.ack([delivery.receipt for delivery in taken[:3]]) == []
    assert await broker.ack([delivery.receipt for delivery in taken[7:]]) == [0, 1]
    assert await broker.messages.delete_between(None, LONG_AGO, datetime.now(UTC) + HOUR) == 5
    assert await broker.messages.find("jobs", [*early, *late]) == [None] * 5


async def test_sizes_are_sampled_from_the_newest(broker: Broker) -> None:
    assert await broker.statistics.sample_sizes(None) == (0, 0)
    await broker.push("jobs", [OutgoingMessage('"1234"'), OutgoingMessage('"12345678"', "b")])
    assert await broker.statistics.sample_sizes(["jobs"]) == (8, 10)
    assert await broker.queues.list_partitions(None) == ["", "b"]


async def test_retention_step_removes_whole_steps(broker: Broker, connect: Connect) -> None:
    settings = QueueSettings(retention=timedelta(0), retention_step=timedelta(days=36_500))
    queue = await broker.queues.create("steps", settings)
    assert queue.settings.retention_step == timedelta(days=36_500)
    await push(broker, 3, queue="steps")
    await broker.ack([delivery.receipt for delivery in await broker.claim("steps", 3)])
    session = await connect()
    trim = "select laneway.trim_queue($1)"
    assert await session.fetchval(trim, queue.queue_id) == 0
    await broker.queues.update("steps", {"retention_step": None})
    assert await session.fetchval(trim, queue.queue_id) == 3
