"""Calls of the broker."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

from laneway.domain.errors import (
    GroupExists,
    GroupNotFound,
    InvalidMessage,
    InvalidRequest,
    InvalidSetting,
    LeaseLost,
    MessageTooLarge,
    QueueExists,
    QueueNotEmpty,
    QueueNotFound,
)
from laneway.domain.ids import MessageId
from laneway.domain.messages import Nack, Outcome, OutgoingMessage, Receipt, Status
from laneway.domain.settings import ConnectionSettings, QueueSettings, WakeupSettings
from laneway.engine import Broker
from laneway.engine import catalog as catalog_module
from laneway.engine.procedures.queues import list_queues
from tests.integration.conftest import QUIET
from tests.postgres import execute

if TYPE_CHECKING:
    from laneway.domain.messages import Delivery
    from tests.postgres import Connect

SECOND = timedelta(seconds=1)


async def test_claimed_message_has_every_field_of_the_push(broker: Broker) -> None:
    message = OutgoingMessage(
        '{"a": "\\u0000",  "b": [1, null]}',
        partition="mail",
        priority=5,
        dedup_key="k1",
        headers='{"trace":  "t"}',
        lease=timedelta(minutes=2),
        max_attempts=7,
    )
    [pushed] = await broker.push("jobs", [message])
    [delivery] = await broker.claim("jobs", consumer="worker-1")
    assert delivery.id == pushed.id
    assert delivery.body == message.body
    assert delivery.headers == message.headers
    assert (delivery.partition, delivery.priority, delivery.attempt) == ("mail", 5, 1)
    assert (delivery.dedup_key, delivery.lease, delivery.max_attempts) == (
        "k1",
        timedelta(minutes=2),
        7,
    )
    [stored] = await broker.messages.find("jobs", [pushed.id])
    assert stored is not None
    assert (stored.status, stored.consumer, stored.token) == (
        Status.PROCESSING,
        "worker-1",
        delivery.token,
    )
    assert stored.until == delivery.until


async def test_batch_keeps_its_order(broker: Broker) -> None:
    pushed = await broker.push("jobs", [OutgoingMessage(str(n)) for n in range(250)])
    assert [place.seq for place in pushed] == list(range(1, 251))
    claimed = await broker.claim("jobs", 300)
    assert [delivery.body for delivery in claimed] == [str(n) for n in range(250)]


async def test_push_to_several_queues_at_once(broker: Broker) -> None:
    await broker.queues.create("other")
    pushed = await broker.push_each(
        [
            ("jobs", OutgoingMessage("1")),
            ("other", OutgoingMessage("2", partition="p")),
            ("jobs", OutgoingMessage("3")),
        ]
    )
    assert await bodies(broker, "jobs") == ["1", "3"]
    assert await bodies(broker, "other") == ["2"]
    assert pushed[0].lane == pushed[2].lane != pushed[1].lane


async def test_empty_push_does_nothing(broker: Broker) -> None:
    assert await broker.push("jobs", []) == []
    assert await broker.push_each([]) == []
    assert await broker.ack([]) == []


async def test_repeated_key_is_a_duplicate(broker: Broker) -> None:
    [first] = await broker.push("jobs", [OutgoingMessage("1", dedup_key="k")])
    again, fresh = await broker.push(
        "jobs", [OutgoingMessage("2", dedup_key="k"), OutgoingMessage("3", dedup_key="l")]
    )
    assert again == first._replace(duplicate=True)
    assert not fresh.duplicate
    assert await bodies(broker, "jobs") == ["1", "3"]


async def test_claim_by_partition_and_priority(broker: Broker) -> None:
    await broker.push(
        "jobs",
        [
            OutgoingMessage("1", partition="a"),
            OutgoingMessage("2", partition="b"),
            OutgoingMessage("3", partition="b", priority=1),
        ],
    )
    [delivery] = await broker.claim("jobs", partition="b", priority=0)
    assert delivery.body == "2"
    [delivery] = await broker.claim("jobs", partition="a")
    assert delivery.body == "1"


async def test_lease_of_a_claim_overrides_that_of_the_queue(broker: Broker) -> None:
    await broker.push("jobs", [OutgoingMessage("1"), OutgoingMessage("2")])
    [long] = await broker.claim("jobs", lease=timedelta(hours=1))
    [usual] = await broker.claim("jobs")
    assert long.until - usual.until > timedelta(minutes=50)


async def test_claim_of_zero_messages_is_refused(broker: Broker) -> None:
    with pytest.raises(InvalidRequest, match="cannot claim 0"):
        await broker.claim("jobs", 0)


async def test_ack_returns_the_messages_whose_lease_was_lost(broker: Broker) -> None:
    await broker.push("jobs", [OutgoingMessage(str(n)) for n in range(5)])
    claimed = await broker.claim("jobs", 5)
    receipts = [delivery.receipt for delivery in claimed]
    stranger = Receipt(uuid4(), receipts[1].lane, receipts[1].seq)
    assert await broker.ack([receipts[0], stranger, receipts[4]]) == [1]
    assert await broker.ack(receipts) == [0, 4]
    [counts] = await broker.statistics.counts("jobs")
    assert (counts.queued, counts.processing, counts.acknowledged) == (0, 0, 5)


async def test_token_in_its_text_form_settles(broker: Broker) -> None:
    await broker.push("jobs", [OutgoingMessage("1")])
    [delivery] = await broker.claim("jobs")
    assert await broker.ack([delivery.receipt._replace(token=str(delivery.token))]) == []


async def test_nack_counts_attempts_until_dead_letter(broker: Broker) -> None:
    await broker.push("jobs", [OutgoingMessage("1", max_attempts=2)])
    [first] = await broker.claim("jobs")
    assert await broker.nack([Nack(*first.receipt, reason="no")]) == [Outcome.REQUEUED]
    assert await broker.nack([Nack(*first.receipt)]) == [Outcome.LOST]
    [second] = await broker.claim("jobs")
    assert second.attempt == 2
    assert await broker.nack([Nack(*second.receipt, reason="still no")]) == [Outcome.DEAD]
    [stored] = await broker.messages.find("jobs", [second.id])
    assert stored is not None
    assert (stored.status, stored.error) == (Status.DEAD, "still no")


async def test_nack_may_dead_letter_or_delay(broker: Broker) -> None:
    await broker.push("jobs", [OutgoingMessage("1"), OutgoingMessage("2")])
    first, second = await broker.claim("jobs", 2)
    outcomes = await broker.nack(
        [Nack(*first.receipt, dead=True), Nack(*second.receipt, delay=timedelta(hours=1))]
    )
    assert outcomes == [Outcome.DEAD, Outcome.REQUEUED]
    [counts] = await broker.statistics.counts("jobs")
    assert (counts.dead, counts.delayed) == (1, 1)


async def test_release_counts_no_attempt(broker: Broker) -> None:
    await broker.push("jobs", [OutgoingMessage("1"), OutgoingMessage("2")])
    first, second = await broker.claim("jobs", 2)
    assert await broker.release([first.receipt]) == []
    assert await broker.release([second.receipt], delay=timedelta(hours=1)) == []
    assert await broker.release([first.receipt, second.receipt]) == [0, 1]
    [again] = await broker.claim("jobs", 2)
    assert (again.id, again.attempt) == (first.id, 1)


async def test_extend_sets_a_new_expiry(broker: Broker) -> None:
    await broker.push("jobs", [OutgoingMessage("1"), OutgoingMessage("2")])
    first, second = await broker.claim("jobs", 2)
    await broker.ack([second.receipt])
    moved, lost = await broker.extend([first.receipt, second.receipt], lease=timedelta(hours=1))
    assert moved is not None
    assert moved - first.until > timedelta(minutes=50)
    assert lost is None


async def test_broker_works_through_a_pooler(database: str) -> None:
    settings = replace(QUIET, connections=ConnectionSettings(through_pooler=True))
    async with Broker(database, settings) as broker:
        await broker.queues.create("jobs")
        await broker.push("jobs", [OutgoingMessage("1"), OutgoingMessage("2")])
        assert await bodies(broker, "jobs") == ["1", "2"]


async def test_transaction_settles_and_pushes(broker: Broker) -> None:
    await broker.queues.create("done")
    await broker.push("jobs", [OutgoingMessage("1")])
    [delivery] = await broker.claim("jobs")
    [pushed] = await broker.transact([delivery.receipt], [("done", OutgoingMessage('"ok"'))])
    [result] = await broker.claim("done")
    assert (result.id, result.body) == (pushed.id, '"ok"')
    assert (await broker.statistics.counts("jobs"))[0].acknowledged == 1


async def test_transaction_with_a_lost_lease_changes_nothing(broker: Broker) -> None:
    await broker.push("jobs", [OutgoingMessage("1"), OutgoingMessage("2")])
    first, second = await broker.claim("jobs", 2)
    await broker.ack([first.receipt])
    with pytest.raises(LeaseLost):
        await broker.transact([first.receipt, second.receipt], [("jobs", OutgoingMessage("3"))])
    [counts] = await broker.statistics.counts("jobs")
    assert (counts.queued, counts.processing, counts.acknowledged) == (0, 1, 1)


async def test_transaction_of_acks_alone(broker: Broker) -> None:
    await broker.push("jobs", [OutgoingMessage("1")])
    [delivery] = await broker.claim("jobs")
    assert await broker.transact([delivery.receipt], []) == []
    assert await broker.ack([delivery.receipt]) == [0]


async def test_queue_is_made_changed_renamed_and_deleted(broker: Broker) -> None:
    settings = QueueSettings(
        ordered=True,
        lease=timedelta(minutes=5),
        max_attempts=None,
        backoff=SECOND,
        delay=SECOND,
        retention=timedelta(days=3),
        message_ttl=timedelta(days=1),
        dedup_scope="partition",
        description="ünïcode",
        options={"namespace": "n", "deep": [1, {"a": None}]},
    )
    made = await broker.queues.create("q", settings)
    assert made.settings == settings
    assert made.groups["default"].ordered
    changed = await broker.queues.update("q", {"lease": SECOND, "delay": None, "options": {}})
    assert changed.settings.lease == SECOND
    assert changed.settings.delay is None
    assert changed.settings.backoff == SECOND
    renamed = await broker.queues.rename("q", "r")
    assert renamed.queue_id == made.queue_id
    assert [queue.name for queue in await broker.queues.list_all()] == ["jobs", "r"]
    await broker.queues.delete("r")
    with pytest.raises(QueueNotFound, match='"r" not found'):
        await broker.queues.get("r")


async def test_queue_with_messages_is_deleted_by_force_only(broker: Broker) -> None:
    await broker.push("jobs", [OutgoingMessage("1")])
    with pytest.raises(QueueNotEmpty):
        await broker.queues.delete("jobs")
    await broker.queues.delete("jobs", force=True)
    with pytest.raises(QueueNotFound):
        await broker.push("jobs", [OutgoingMessage("1")])


async def test_unknown_queues_and_groups_are_refused(broker: Broker) -> None:
    with pytest.raises(QueueNotFound):
        await broker.push("none", [OutgoingMessage("1")])
    with pytest.raises(QueueNotFound):
        await broker.push_each([("jobs", OutgoingMessage("1")), ("none", OutgoingMessage("1"))])
    with pytest.raises(QueueNotFound):
        await broker.claim("none")
    with pytest.raises(GroupNotFound, match='group "none" of queue "jobs" not found'):
        await broker.claim("jobs", group="none")
    for call in (
        broker.queues.update("none", {"lease": SECOND}),
        broker.queues.rename("none", "x"),
        broker.queues.delete("none"),
        broker.groups.create("none", "g"),
        broker.groups.seek("none", "latest"),
    ):
        with pytest.raises(QueueNotFound):
            await call
    with pytest.raises(GroupNotFound):
        await broker.groups.delete("jobs", "none")


async def test_taken_names_and_invalid_settings_are_refused(broker: Broker) -> None:
    await broker.queues.create("other")
    with pytest.raises(QueueExists):
        await broker.queues.create("jobs")
    with pytest.raises(QueueExists):
        await broker.queues.rename("other", "jobs")
    with pytest.raises(GroupExists):
        await broker.groups.create("jobs", "default")
    with pytest.raises(InvalidSetting):
        await broker.queues.create("bad", QueueSettings(max_attempts=0))
    with pytest.raises(InvalidSetting):
        await broker.queues.update("jobs", {"lease": timedelta(0)})
    with pytest.raises(InvalidSetting):
        await broker.groups.create("jobs", "g", ordered=True)
    with pytest.raises(InvalidSetting):
        await broker.groups.delete("jobs", "default")


@pytest.mark.parametrize(
    "message",
    [
        OutgoingMessage("{"),
        OutgoingMessage(""),
        OutgoingMessage("1", headers="{"),
        OutgoingMessage('"\x00"'),
        OutgoingMessage('"\ud800"'),
        OutgoingMessage("1", priority=40_000),
        OutgoingMessage("1", partition="a\x00"),
        OutgoingMessage("[" * 20_000 + "]" * 20_000),
    ],
    ids=["cut", "empty", "headers", "nul", "surrogate", "priority", "partition", "deep"],
)
async def test_bad_message_is_refused_and_nothing_written(
    broker: Broker, message: OutgoingMessage
) -> None:
    with pytest.raises(InvalidMessage):
        await broker.push("jobs", [OutgoingMessage("1"), message])
    assert await bodies(broker, "jobs") == []


async def test_big_message_is_refused_by_its_index(broker: Broker) -> None:
    await broker.queues.update("jobs", {"max_bytes": 100})
    big = OutgoingMessage('"' + "x" * 99 + '"')
    with pytest.raises(MessageTooLarge, match="message 1 is 101 bytes"):
        await broker.push("jobs", [OutgoingMessage("1"), big])
    assert await bodies(broker, "jobs") == []


async def test_groups_start_at_their_positions_and_are_independent(
    broker: Broker,
) -> None:
    await broker.push("jobs", [OutgoingMessage("1")])
    between = datetime.now(UTC)
    await broker.groups.create("jobs", "all")
    await broker.groups.create("jobs", "new", start="new")
    await broker.groups.create("jobs", "since", start=between)
    await broker.push("jobs", [OutgoingMessage("2")])
    assert await bodies(broker, "jobs", group="all") == ["1", "2"]
    assert await bodies(broker, "jobs", group="new") == ["2"]
    assert await bodies(broker, "jobs", group="since") == ["2"]
    assert await bodies(broker, "jobs") == ["1", "2"]
    assert [group.name for group in await broker.groups.list_all("jobs")] == [
        "default",
        "all",
        "new",
        "since",
    ]
    await broker.groups.delete("jobs", "all")
    with pytest.raises(GroupNotFound):
        await broker.claim("jobs", group="all")


async def test_seek_moves_a_group_back_and_forward(broker: Broker) -> None:
    await broker.push("jobs", [OutgoingMessage(str(n)) for n in range(4)])
    [first, *_] = await broker.claim("jobs", 4)
    assert await broker.groups.seek("jobs", "earliest") == 1
    assert await bodies(broker, "jobs") == ["0", "1", "2", "3"]
    await broker.groups.seek("jobs", first.seq + 2)
    assert await bodies(broker, "jobs") == ["2", "3"]
    await broker.groups.seek("jobs", first.created_at)
    assert await bodies(broker, "jobs") == ["0", "1", "2", "3"]
    await broker.groups.seek("jobs", "earliest", partition="")
    await broker.groups.seek("jobs", "latest")
    assert await bodies(broker, "jobs") == []


async def test_messages_are_moved_between_states(broker: Broker) -> None:
    [place] = await broker.push("jobs", [OutgoingMessage("1")])
    unknown = MessageId(place.segment, place.lane, 99)
    moved = await broker.messages.move(
        "jobs", [place.id, unknown], source=Status.QUEUED, target=Status.PROCESSING, consumer="me"
    )
    assert list(moved) == [place.id]
    [token] = await broker.messages.find_leases("jobs", [place.id])
    assert moved[place.id] == token is not None
    assert await broker.messages.move(
        "jobs", [place.id], source=Status.PROCESSING, target=Status.DEAD, reason="by hand"
    ) == {place.id: None}
    assert await broker.messages.find_leases("jobs", [place.id, unknown]) == [None, None]
    assert await broker.dead_letters.redrive("jobs") == 1
    [delivery] = await broker.claim("jobs")
    assert (delivery.id, delivery.attempt) == (place.id, 1)


async def test_messages_are_deleted_and_archived(broker: Broker) -> None:
    gone, kept = await broker.push("jobs", [OutgoingMessage("1"), OutgoingMessage("2")])
    assert await broker.messages.delete("jobs", [gone.id], source=Status.QUEUED) == {gone.id}
    assert await broker.messages.delete("jobs", [gone.id], source=Status.QUEUED) == set()
    assert await broker.messages.archive("jobs", [kept.id], source=Status.QUEUED) == {kept.id}
    nothing, stored = await broker.messages.find("jobs", [gone.id, kept.id])
    assert nothing is None
    assert stored is not None
    assert stored.status == Status.ARCHIVED
    assert await broker.claim("jobs") == []


async def test_message_is_edited(broker: Broker) -> None:
    [place] = await broker.push("jobs", [OutgoingMessage("1")])
    body = '{"b":  "\\u0000"}'
    assert await broker.messages.edit(
        "jobs",
        place.id,
        {"body": body, "partition": "p", "priority": 3, "lease": SECOND, "headers": "[1,  2]"},
        source=Status.QUEUED,
    )
    assert not await broker.messages.edit("jobs", place.id, {"priority": 1}, source=Status.DEAD)
    [delivery] = await broker.claim("jobs")
    assert (delivery.body, delivery.partition, delivery.priority) == (body, "p", 3)
    assert delivery.headers == "[1,  2]"


async def test_message_is_edited_to_null_and_without_headers(broker: Broker) -> None:
    [place] = await broker.push("jobs", [OutgoingMessage("1", headers="{}")])
    assert await broker.messages.edit(
        "jobs", place.id, {"body": "null", "headers": None}, source=Status.QUEUED
    )
    [delivery] = await broker.claim("jobs")
    assert (delivery.body, delivery.headers) == ("null", None)


async def test_bad_edit_is_refused(broker: Broker) -> None:
    [place] = await broker.push("jobs", [OutgoingMessage("1")])
    with pytest.raises(InvalidMessage):
        await broker.messages.edit(
            "jobs", place.id, {"body": '1, "priority": 9'}, source=Status.QUEUED
        )
    with pytest.raises(InvalidMessage):
        await broker.messages.edit("jobs", place.id, {"max_attempts": 0}, source=Status.QUEUED)
    assert await bodies(broker, "jobs") == ["1"]


async def test_purge_by_state(broker: Broker) -> None:
    await broker.push("jobs", [OutgoingMessage(str(n)) for n in range(3)])
    [delivery] = await broker.claim("jobs")
    assert await broker.messages.purge("jobs", status=Status.QUEUED) == 2
    assert await broker.ack([delivery.receipt]) == []
    assert await broker.messages.purge("jobs") == 1


async def test_messages_are_located_by_their_ids(broker: Broker) -> None:
    [place] = await broker.push("jobs", [OutgoingMessage("1")])
    assert await broker.messages.locate([place.id, MessageId(2, 999, 1)]) == ["jobs", None]


async def test_counts_of_all_groups(broker: Broker) -> None:
    await broker.groups.create("jobs", "second")
    await broker.push("jobs", [OutgoingMessage("1")])
    await broker.claim("jobs")
    found = {(count.queue, count.group): count for count in await broker.statistics.counts()}
    assert found["jobs", "default"].processing == 1
    assert found["jobs", "second"].queued == 1


async def test_queue_recreated_by_another_process_is_found(broker: Broker, database: str) -> None:
    await broker.push("jobs", [OutgoingMessage("1")])
    await execute(database, "select laneway.delete_queue('jobs', true)")
    await execute(database, "select laneway.create_queue('jobs')")
    await broker.push("jobs", [OutgoingMessage("2")])
    assert await bodies(broker, "jobs") == ["2"]


async def test_group_created_by_another_process_is_found(broker: Broker, database: str) -> None:
    await broker.push("jobs", [OutgoingMessage("1")])
    await execute(database, "select laneway.create_group('jobs', 'late')")
    assert await bodies(broker, "jobs", group="late") == ["1"]


async def bodies(broker: Broker, queue: str, *, group: str = "default") -> list[str]:
    """Claim and settle all there is, and return the bodies in order."""
    claimed: list[Delivery] = await broker.claim(queue, 1000, group=group)
    assert await broker.ack([delivery.receipt for delivery in claimed]) == []
    return [delivery.body for delivery in claimed]


async def test_cached_queue_is_refreshed_before_it_expires(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr(catalog_module, "monotonic", lambda: now)
    wakeups = WakeupSettings(listen=False, catalog_age=timedelta(seconds=4))
    async with Broker(database, replace(QUIET, wakeups=wakeups)) as broker:
        await broker.queues.create("jobs")
        before = await broker._core.catalog.find("jobs")
        now = 3.5
        assert [broker._core.catalog.peek("jobs") for _ in range(3)] == [before] * 3
        while broker._core.catalog.peek("jobs") is before:
            await asyncio.sleep(0.001)
        now = 6.5
        assert broker._core.catalog.peek("jobs") is not None
        now = 12.0
        assert broker._core.catalog.peek("jobs") is None


def hold_first_look_up(monkeypatch: pytest.MonkeyPatch) -> tuple[asyncio.Event, asyncio.Event]:
    """Have the next look-up of a queue wait with what it found; return when it does, and until when."""
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def list_slowly(*args: Any) -> object:
        found = await list_queues(*args)
        if not begun.is_set():
            begun.set()
            await go_on.wait()
        return found

    monkeypatch.setattr(catalog_module, "list_queues", list_slowly)
    return begun, go_on


async def test_queue_created_during_a_lookup_is_found(
    broker: Broker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, go_on = hold_first_look_up(monkeypatch)
    early = asyncio.ensure_future(broker.queues.get("new"))
    await begun.wait()
    await (await connect()).execute("select laneway.create_queue('new')")
    late = asyncio.ensure_future(broker.queues.get("new"))
    await asyncio.sleep(0)
    go_on.set()
    with pytest.raises(QueueNotFound):
        await early
    assert (await late).name == "new"


async def test_queue_changed_during_a_lookup_is_found_with_the_change(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker._core.catalog.forget("jobs")
    begun, go_on = hold_first_look_up(monkeypatch)
    early = asyncio.ensure_future(broker.queues.get("jobs"))
    await begun.wait()
    await broker.queues.update("jobs", {"description": "changed"})
    assert (await broker.queues.get("jobs")).settings.description == "changed"
    go_on.set()
    assert (await early).settings.description != "changed"
