"""The library through PgBouncer in transaction mode."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import psycopg
import pytest

import laneway
from laneway import step
from laneway.domain.errors import Misconfigured
from tests.library.workers import QUICK, running, until
from tests.pgbouncer import run_pgbouncer

if TYPE_CHECKING:
    from laneway import Message
    from tests.library.conftest import Place

LONG = timedelta(seconds=20)


@pytest.mark.parametrize("direct", [True, False], ids=["past it", "polling"])
async def test_library_works_through_a_pooler(place: Place, queue: str, *, direct: bool) -> None:
    name = f"flow-{uuid4().hex[:8]}"
    seen: list[int] = []
    async with run_pgbouncer(place.dsn) as pooled:
        app = laneway.App(
            pooled, pooled=True, direct_dsn=place.dsn if direct else None, worker=QUICK
        )

        @app.handler(queue, concurrency=20)
        async def handle(message: Message) -> None:
            if message.payload % 50 == 0 and message.attempt == 1:
                raise ValueError("again")
            await asyncio.sleep(0)
            seen.append(message.payload)

        @step
        async def double(n: int) -> int:
            return n * 2

        @app.workflow(name=name)
        async def flow(n: int) -> int:
            return await double(await double(n))

        async with running(app), app.connect() as lane:
            assert await lane.verify() == []
            producer = lane.producer(queue)
            # Many at once: statements of different clients mix in the three sessions.
            await asyncio.gather(*(producer.enqueue(n) for n in range(200)))
            with psycopg.connect(pooled, prepare_threshold=None) as connection:
                await producer.enqueue_in(connection, 200)
            await until(lambda: look(seen, 201))
            run = await lane.start(name, 5)
            assert await run.result(LONG) == 20
            consumer = lane.consumer(queue, group="default")
            assert await consumer.dequeue() is None
            waiting = asyncio.ensure_future(consumer.dequeue(wait=LONG))
            metrics = await lane.admin.queue_metrics(queue)
            assert (metrics.acknowledged, metrics.dead) == (201, 0)
            waiting.cancel()
    assert sorted(seen) == list(range(201))


async def look(seen: list[int], n: int) -> bool:
    return len(seen) >= n


async def test_undeclared_pooler_fails_without_retries(place: Place) -> None:
    async with run_pgbouncer(place.dsn) as pooled, laneway.connect(pooled) as lane:
        with pytest.raises(Misconfigured, match="connect with pooled=True"):
            await lane.admin.list_queues()
