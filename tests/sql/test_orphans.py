"""Rows with a missing parent are found in every table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sql.calls import claim, create_queue, find_orphans, move, nack, push

if TYPE_CHECKING:
    from tests.sql.calls import Session

# What nobody but a person at the tables does: no foreign key is looked at.
UNGUARDED = "set session_replication_role = replica"


async def fill(session: Session) -> None:
    """Have a row in every table that points to another."""
    queue = await create_queue(session, ordered=True)
    places = await push(
        session, queue, ["1", "2", "3", "4"], keys=list("abcd"), partitions=list("abcd")
    )
    await nack(session, await claim(session, queue, 1), dead=True)
    await claim(session, queue, 1)
    await move(session, queue, places[3:], source="queued", target="archived")
    await session.execute("select laneway.outbox_push('work', '1')")
    await session.execute("select laneway.start_workflow('run', 'flow', 'work', '[]')")
    await session.execute("""
        insert into laneway.workflow_step (run_id, step) values ('run', 'one');
        insert into laneway.consumer_activity select q.queue_id, 'me', 1, now() from laneway.queue q;
        insert into laneway.move_task (queue_id, total) select q.queue_id, 1 from laneway.queue q;
        insert into laneway.receive_attempt
        select q.queue_id, 'x', '{}', '{}', '{}', '{}', now(), 0 from laneway.queue q;
        insert into laneway.stream_trace (lane_id, key, group_name, event_type, names, data)
        select l.lane_id, 'x', 'g', 'e', '{}', '{}' from laneway.lane l limit 1;
        insert into laneway.parked (reader_id, seq, segment, group_id, lane_id, partition, priority, available_at, attempt)
        select r.reader_id, 999, 2, r.group_id, r.lane_id, '', 0, now(), 0 from laneway.reader r limit 1;
        insert into laneway.gap select r.reader_id, 999, 999, true from laneway.reader r limit 1;
        insert into laneway.retry select r.reader_id, 999, 1, null from laneway.reader r limit 1;
        insert into laneway.revision (reader_id, seq, partition, priority, created_at, body)
        select r.reader_id, 999, '', 0, now(), '1' from laneway.reader r limit 1;
    """)
    assert await find_orphans(session) == {}
    await session.execute(UNGUARDED)


OF_READER = {"progress", "claim", "parked", "gap", "retry", "revision", "dead_letter", "archive"}


@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        ("delete from laneway.reader", OF_READER),
        ("delete from laneway.progress", {"reader"}),
        ("delete from laneway.lane", {"reader", "stream_trace"}),
        ("delete from laneway.consumer_group", {"reader", "queue"}),
        (
            "delete from laneway.queue",
            {
                "lane",
                "consumer_group",
                "dedup_key",
                "outbox",
                "workflow",
                "consumer_activity",
                "move_task",
                "receive_attempt",
            },
        ),
        ("delete from laneway.workflow", {"workflow_step"}),
        ("update laneway.claim set lane_id = 999", {"claim"}),
        ("update laneway.dead_letter set group_id = 999", {"dead_letter"}),
        ("insert into laneway.segment (segment) values (998)", {"segment"}),
    ],
)
async def test_missing_parents_are_found(
    session: Session, statement: str, tables: set[str]
) -> None:
    await fill(session)
    await session.execute(statement)
    assert set(await find_orphans(session)) == tables


async def test_deleted_queue_leaves_no_orphans(session: Session) -> None:
    await fill(session)
    await session.execute("set session_replication_role = origin")
    await session.execute("select laneway.delete_queue('work', true)")
    assert await find_orphans(session) == {}
