"""Concurrent load on dying connections loses and doubles nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.faults.concurrent import Run
from tests.sql import calls

if TYPE_CHECKING:
    from tests.postgres import Connect


@pytest.mark.invariant(3, 7)
@pytest.mark.parametrize(
    ("ordered", "messages"), [(False, 3000), (True, 1500)], ids=["shared", "ordered"]
)
async def test_every_message_is_acked_once_or_dead_with_a_reason(
    database: str, connect: Connect, *, ordered: bool, messages: int
) -> None:
    session = await connect()
    await calls.keep_nothing(session)
    queue = await calls.create_queue(session, ordered=ordered, max_attempts=6)
    run = Run(database, queue, ordered=ordered, messages=messages)
    log = await run.go(producers=6, consumers=6, kills=40)

    rows = await session.fetch("select lane_id, seq, reason, body::text from laneway.dead_letter")
    dead = {(row["lane_id"], row["seq"]) for row in rows}
    assert all(row["reason"] for row in rows)

    unknown = set(range(messages)) - log.pushed - log.perhaps_pushed
    assert not unknown
    delivered = {number: places for number, places in log.places.items() if places}
    seen = delivered.keys() | {int(row["body"]) for row in rows}
    assert log.pushed <= seen, "some were never delivered"
    assert all(len(places) == 1 for places in delivered.values()), "some were pushed twice"

    for places in delivered.values():
        for address in places:
            if address in dead:
                assert address not in log.acked
            else:
                assert address in log.acked or address in log.perhaps_acked
    for address, attempt in log.acked.items():
        assert log.attempts[address] == attempt, "delivered again after it was acked"

    counts = await calls.count(session, queue)
    assert (counts.queued, counts.processing, counts.dead) == (0, 0, len(dead))
    assert await calls.find_orphans(session) == {}
    assert log.kills > 0
    assert log.duplicates > 0
