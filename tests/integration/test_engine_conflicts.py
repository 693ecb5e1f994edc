"""The broker retries calls that PostgreSQL aborts because of a deadlock."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from laneway.domain.messages import OutgoingMessage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from laneway.engine import Broker
    from tests.postgres import Connect

ALWAYS = datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)
CALLS: dict[str, Callable[[Broker], Awaitable[object]]] = {
    "purge": lambda broker: broker.messages.purge("jobs"),
    "seek": lambda broker: broker.groups.seek("jobs", "latest"),
    "delete_between": lambda broker: broker.messages.delete_between(["jobs"], *ALWAYS),
    "delete_group": lambda broker: broker.groups.delete("jobs", "more"),
}


@pytest.mark.parametrize("name", CALLS)
async def test_call_aborted_by_a_deadlock_is_retried(
    broker: Broker, connect: Connect, name: str
) -> None:
    group = "more" if name == "delete_group" else "default"
    await broker.groups.create("jobs", "more")
    await broker.push("jobs", [OutgoingMessage("1"), OutgoingMessage("2")])
    held = [await broker.claim("jobs", group=group) for _ in range(2)]
    first, last = sorted(delivery.receipt.token for [delivery] in held)
    rival, watch = await connect(), await connect()
    lock = "select from laneway.claim where token = $1 for update"
    # Whoever looks for deadlocks first is the one that is ended.
    await rival.execute("set deadlock_timeout = '1h'")
    async with rival.transaction():
        await rival.execute(lock, last)
        call = asyncio.ensure_future(CALLS[name](broker))
        while not await watch.fetchval("select exists (select from pg_locks where not granted)"):
            assert not call.done(), call
            await asyncio.sleep(0.001)
        await rival.execute(lock, first)
    await call
    assert await watch.fetchval("select count(*) from laneway.claim") == 0
