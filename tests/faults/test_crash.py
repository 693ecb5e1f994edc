"""Claims survive a crash of PostgreSQL, unless the queue gave up their durability."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from laneway.domain.errors import Retryable
from laneway.domain.messages import Nack, OutgoingMessage
from laneway.domain.settings import EngineSettings, MaintenanceSettings, QueueSettings
from laneway.embedded import EmbeddedPostgres
from laneway.engine import Broker
from tests.postgres import find_binaries, open_directory

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

# An asynchronous commit stays in memory for this long, so that a crash loses it.
SLOW_WRITER = {"wal_writer_delay": "10s", "autovacuum": "off"}
# No other commit writes it out earlier.
ALONE = EngineSettings(maintenance=MaintenanceSettings(enabled=False))

SHARED = QueueSettings(lease=timedelta(hours=1))
CASES = {
    "shared": SHARED,
    "ordered": replace(SHARED, ordered=True),
    "ordered-anyway": replace(SHARED, ordered=True, durable_claims=False),
}


@pytest.mark.invariant(8)
@pytest.mark.parametrize("name", CASES)
async def test_claim_survives_a_postgresql_crash(name: str) -> None:
    before, after, again = await claim_and_crash(CASES[name])
    assert before == 1
    assert after == 0, "claimed a second time while the first consumer has its lease"
    assert again == 2, "the attempt before the crash counts"


async def test_claims_without_durability_may_be_lost_in_a_crash() -> None:
    before, after, again = await claim_and_crash(replace(SHARED, durable_claims=False))
    assert before == 1
    assert after == 1, "this crash came before the claim was written"
    assert again == 2


async def claim_and_crash(settings: QueueSettings) -> tuple[int, int, int]:
    """Return one message's attempts: before the crash, after it (0: not claimed), after a nack.

    The consumer that claimed it last nacks it.
    """
    with open_directory() as folder:
        async with (
            EmbeddedPostgres(
                folder / "data", settings=SLOW_WRITER, binaries=find_binaries()
            ) as server,
            Broker(server.dsn, ALONE) as broker,
        ):
            await broker.schema.install()
            await broker.queues.create("jobs", settings)
            await broker.push("jobs", [OutgoingMessage("1")])
            [first] = await broker.claim("jobs")
            await asyncio.to_thread(crash, server.pid)
            found = await repeat(lambda: broker.claim("jobs"))
            [current] = found or [first]
            nack = Nack(*current.receipt)._replace(delay=timedelta(0))
            await repeat(lambda: broker.nack([nack]))
            [last] = await repeat(lambda: broker.claim("jobs"))
            return first.attempt, found[0].attempt if found else 0, last.attempt


def crash(postmaster: int) -> None:
    """Kill PostgreSQL with all its processes, so that none of them answers any more."""
    process = psutil.Process(postmaster)
    process.suspend()
    processes = [process, *process.children()]
    for each in processes:
        each.kill()
    psutil.wait_procs(processes, timeout=30)


async def repeat(call: Callable[[], Awaitable[Any]]) -> Any:
    """Call until the database is back."""
    async with asyncio.timeout(60):
        while True:
            try:
                return await call()
            except Retryable:
                await asyncio.sleep(0.02)
