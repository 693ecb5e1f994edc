"""Recurring maintenance reads little, however long the log is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from tests.sql.calls import (
    claim,
    create_group,
    create_queue,
    keep_nothing,
    purge,
    push,
    release,
    retain,
    rotate,
)

if TYPE_CHECKING:
    from tests.sql.calls import Queue, Session

LANES = 20
FEW, MANY = 5, 2000

ROUNDS = [
    "laneway.ready_groups(array(select group_id from laneway.consumer_group))",
    "laneway.next_due(1)",
    "laneway.expire_claims(1000, clock_timestamp() - interval '10 s')",
    "laneway.redrive_by_policy(null, 500)",
    "laneway.run_moves(500)",
    "laneway.sweep_sqs()",
    "laneway.drain_outbox(1000)",
    "laneway.find_dead_workers(null)",
    "laneway.maintain_streams(p_trim => true)",
    "laneway.sweep_idle(1000)",
    "laneway.sweep_dedup_keys(10000)",
    "laneway.sweep_forgotten(1000)",
    "laneway.sweep_results(1000)",
    "laneway.sweep_lanes(0, 1000)",
    "laneway.recover_unlogged(null)",
    "laneway.rotate()",
    "laneway.retain()",
    "laneway.count_by_state()",
]


@pytest.mark.parametrize("settled", [True, False], ids=["settled", "waiting"])
async def test_a_round_reads_no_more_of_a_long_log_than_of_a_short_one(
    session: Session, *, settled: bool
) -> None:
    work = await create_queue(session, "work")
    stream = await create_queue(session, "stream", ordered=True)
    await create_group(session, stream, "readers", ordered=True)
    pages = []
    for messages in (FEW, MANY):
        for queue in (work, stream):
            await fill(session, queue, messages)
        if settled:
            await session.execute(
                "update laneway.progress p set seq = laneway.newest_seq(r.lane_id, p.segment) "
                "from laneway.reader r where r.reader_id = p.reader_id"
            )
        await session.execute("analyze")
        pages.append({call: await count_pages(session, call) for call in ROUNDS})
    few, many = pages
    assert {
        call: (few[call], many[call]) for call in ROUNDS if many[call] > 1.5 * few[call] + 20
    } == {}


async def test_retention_reads_no_more_of_a_long_segment_than_of_a_short_one(
    session: Session,
) -> None:
    queue = await create_queue(session)
    await keep_nothing(session)
    held, settled = [], []
    for messages in (FEW, MANY):
        await fill(session, queue, messages)
        segment = await rotate(session) - 2
        # One lane's last message holds the segment.
        await read_all(session, queue, but=f"lane {LANES - 1}")
        await session.execute("analyze")
        held.append(await count_pages(session, "laneway.retain()"))
        assert await retain(session) == []
        await read_all(session, queue)
        settled.append(await count_pages(session, f"laneway.segment_settled({segment})"))
        assert await retain(session) == [segment]
    assert held[1] <= 1.5 * held[0] + 20
    assert settled[1] <= 1.5 * settled[0] + 20


async def read_all(session: Session, queue: Queue, *, but: str | None = None) -> None:
    """Put the readers at their lanes' ends, but in one partition before the last message."""
    await session.execute(
        "update laneway.progress p set seq = laneway.newest_seq(l.lane_id, laneway.current_segment(true)) "
        "- (l.partition is not distinct from $2)::int "
        "from laneway.reader r join laneway.lane l on l.lane_id = r.lane_id "
        "where r.reader_id = p.reader_id and l.queue_id = $1",
        queue.queue_id,
        but,
    )


SETTLEMENTS = {
    "ack": "laneway.ack_many($1, $2, $3, $3, true)",
    "ack beside another claim": (
        "laneway.ack_many($1::uuid[] || gen_random_uuid(), $2::int[] || 1, $3::bigint[] || 1::bigint,"
        " $3::bigint[] || 1::bigint, false)"
    ),
    "extend": "laneway.extend_many($1, $2, $3, array_fill(interval '1 min', array[cardinality($1::uuid[])]))",
    "release": "laneway.release_many($1, $2, $3)",
    "nack": "laneway.nack_many($1, $2, $3)",
}


@pytest.mark.parametrize("way", SETTLEMENTS)
async def test_a_message_of_a_claim_of_many_lanes_costs_no_more_than_of_few(
    session: Session, way: str
) -> None:
    queue = await create_queue(session)
    costs = {}
    for lanes in (40, 40, 400):
        partitions = [f"partition {n}" for n in range(lanes)]
        # Redelivered, each is a part of the claim.
        await push(session, queue, ["1"] * lanes, partitions=partitions)
        await release(session, await claim(session, queue, lanes))
        claimed = await claim(session, queue, lanes)
        assert len({each.token for each in claimed}) == 1
        await session.execute("analyze laneway.claim")
        columns = (
            [each.token for each in claimed],
            [each.lane_id for each in claimed],
            [each.seq for each in claimed],
        )
        plan = await session.fetchval(
            f"explain (analyze, buffers, format json) select * from {SETTLEMENTS[way]}", *columns
        )
        top = json.loads(plan)[0]["Plan"]
        costs[lanes] = (top["Shared Hit Blocks"] + top["Shared Read Blocks"]) / lanes
        await purge(session, queue)
    assert costs[400] < 2 * costs[40]


async def fill(session: Session, queue: Queue, messages: int) -> None:
    """Push as many messages to each of some lanes."""
    for lane in range(LANES):
        await session.execute(
            "select laneway.push_many(array[$1::int], array_fill($2::json, array[$3::int]), array[$4::text])",
            queue.queue_id,
            json.dumps("x" * 100),
            messages,
            f"lane {lane}",
        )


async def count_pages(session: Session, call: str) -> int:
    """Return how many pages the call reads, its functions' statements planned already."""
    await session.fetch(f"select * from {call}")
    plans = await session.fetchval(f"explain (analyze, buffers, format json) select * from {call}")
    plan = json.loads(plans)[0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])
