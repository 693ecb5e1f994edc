"""Keys, locks and timers survive a kill of the server and a crash of PostgreSQL."""

from __future__ import annotations

import asyncio
import signal
from base64 import b64encode
from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import pytest

from laneway.domain.kv import KvOperation, LockOperation
from laneway.domain.messages import OutgoingMessage
from laneway.domain.settings import EngineSettings, MaintenanceSettings, QueueSettings
from laneway.domain.timers import TimerOperation
from laneway.embedded import EmbeddedPostgres
from laneway.engine import Broker
from tests.faults.test_crash import ALONE, SLOW_WRITER, crash, repeat
from tests.postgres import find_binaries, open_directory
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

HOUR = timedelta(hours=1)
PAYLOAD = b64encode(b"1").decode()


@pytest.mark.invariant(8)
async def test_answered_writes_survive_a_postgresql_crash() -> None:
    acquire = LockOperation("acquire", "job", "a", HOUR)
    with open_directory() as folder:
        async with (
            EmbeddedPostgres(
                folder / "data", settings=SLOW_WRITER, binaries=find_binaries()
            ) as server,
            Broker(server.dsn, ALONE) as broker,
        ):
            await broker.schema.install()
            await broker.queues.create("jobs", QueueSettings(ordered=True))
            [written] = await broker.kv.apply([KvOperation("put", "space", "k", "1", HOUR)])
            [deleted] = await broker.kv.apply([KvOperation("put", "space", "gone", "1", HOUR)])
            await broker.kv.apply([KvOperation("delete", "space", "gone")])
            timer = TimerOperation(
                "jobs", "t", OutgoingMessage('"due"', "p", dedup_key="t"), timedelta(0), uuid4()
            )
            await broker.streams.transact((), (), timers=[timer], guards={"jobs": 0}, new={})
            [held] = await broker.locks.apply([acquire])
            await broker.locks.apply([LockOperation("release", "job", token=held.token)])
            await asyncio.to_thread(crash, server.pid)
            [found] = await repeat(lambda: broker.kv.apply([KvOperation("get", "space", "k")]))
            assert (found.value, found.version) == ("1", written.version)
            [again] = await broker.kv.apply(
                [KvOperation("put", "space", "gone", "2", HOUR, expect=0)]
            )
            assert (again.version or 0) > (deleted.version or 0)
            [taken] = await broker.locks.apply([acquire])
            assert taken.applied
            assert (taken.token or 0) > (held.token or 0)
            assert await broker.timers.find("jobs", "t") is not None
            # Another process maintains the database from now on.
            both = EngineSettings(maintenance=MaintenanceSettings(candidacy=timedelta(seconds=0.1)))
            async with Broker(server.dsn, both) as other:
                [message] = await other.claim("jobs", wait=timedelta(seconds=30))
                assert message.body == '"due"'
                assert await other.timers.find("jobs", "t") is None


@pytest.mark.invariant(8)
async def test_timers_are_pushed_once_whenever_the_server_is_killed(database: str) -> None:
    """Each server sets timers that are due while it, or the next one, is killed."""
    answered: set[str] = set()
    asked: set[str] = set()
    for round_number in range(4):
        async with run_laneway(database) as running, running.client() as client:
            client.base_url = httpx.URL(f"{running.url}/api/v1")

            async def schedule(writer: int, client: httpx.AsyncClient = client) -> None:
                for turn in range(1000):
                    keys = [f"{round_number}-{writer}-{turn}-{n}" for n in range(20)]  # noqa: B023
                    asked.update(keys)
                    answer = await client.post(
                        "/timers", json={"operations": list(map(make, keys))}
                    )
                    assert answer.status_code == 200, answer.text
                    answered.update(keys)

            async def kill(running: Any = running, before: int = len(answered)) -> None:
                while len(answered) < before + 300:
                    await asyncio.sleep(0.01)
                await running.stop(signal.SIGKILL)

            await asyncio.gather(kill(), *map(schedule, range(2)), return_exceptions=True)
    async with run_laneway(database) as running, running.client() as client:
        client.base_url = httpx.URL(f"{running.url}/api/v1")
        async with asyncio.timeout(60):
            while (await client.get("/timers/jobs")).json()["rows"]:
                await asyncio.sleep(0.02)
        pushed = [key async for key in read_keys(client)]
    assert len(answered) >= 1200
    assert len(set(pushed)) == len(pushed)
    assert answered <= set(pushed) <= asked


def make(key: str) -> dict[str, Any]:
    return {
        "op": "schedule",
        "queue": "jobs",
        "timerKey": key,
        "payload": PAYLOAD,
        "delayMs": 200 if key.endswith("0") else 0,
        "txn": key,
    }


async def read_keys(client: httpx.AsyncClient) -> AsyncIterator[str]:
    offset = 0
    while True:
        entry = {"queue": "jobs", "offset": offset, "maxBytes": 2**23}
        [found] = (await client.post("/fetch", json={"entries": [entry]})).json()["entries"]
        if not found["records"]:
            return
        for record in found["records"]:
            yield record["transactionId"]
        offset = found["records"][-1]["offset"] + 1
