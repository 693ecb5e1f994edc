"""A cancelled pop releases what it claimed."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from laneway.domain.messages import OutgoingMessage
from laneway.domain.settings import EngineSettings, MaintenanceSettings, QueueSettings
from laneway.engine import Broker
from laneway.server.claims import Claims
from laneway.server.queen.claims import claim_first
from laneway.server.queen.pops import PopAny

if TYPE_CHECKING:
    from collections.abc import Sequence

QUIET = EngineSettings(maintenance=MaintenanceSettings(enabled=False))
LONG = timedelta(minutes=5)


class Request:
    """A call as far as its claims need one."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker


async def pop_any(broker: Broker, names: Sequence[str]) -> None:
    call: Any = Request(broker)
    async with Claims(call) as claims:
        await claim_first(
            broker,
            claims,
            names,
            wanted=PopAny(wait=True, consumer_group="readers"),
            left=LONG,
            start="all",
            changed=asyncio.get_running_loop().create_future(),
        )


async def test_cancelled_pop_of_many_queues_releases_its_claims(database: str) -> None:
    names = ("one", "other")
    async with Broker(database, QUIET) as broker, asyncio.timeout(60):
        for name in names:
            await broker.queues.create(name, QueueSettings(ordered=True))
        before = asyncio.all_tasks()
        pop = asyncio.ensure_future(pop_any(broker, names))
        await asyncio.sleep(0)
        claims = asyncio.all_tasks() - before - {pop}
        assert len(claims) == len(names)
        answered: list[object] = []

        def cancel_pop(claim: asyncio.Task[object]) -> None:
            if not answered:
                answered.append(claim.result())
                pop.cancel()

        for claim in claims:
            # Called after the pop's own: its wait is over, and it has not run yet.
            claim.add_done_callback(cancel_pop)
        await broker.push("one", [OutgoingMessage('"x"')])
        with pytest.raises(asyncio.CancelledError):
            await pop
        assert answered[0]
        [delivery] = await broker.claim("one", group="readers")
        assert delivery.attempt == 1
