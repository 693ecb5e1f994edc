"""Breakers and limits hold for all gateway processes together, and processes stop in time."""

from __future__ import annotations

import asyncio
import signal
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID, uuid4

import asyncpg
import pytest
import pytest_asyncio

from laneway.engine import Broker
from tests.postgres import make_database
from tests.protocol.gateway.world import (
    OUTBOUND,
    Client,
    World,
    answers,
    make_target,
    write_settings,
)
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

LANEWAY = Path(sys.executable).with_name("laneway")


class Place(NamedTuple):
    """flags: of the processes that send."""

    world: World
    flags: tuple[str, ...]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def place(
    server: str, target: str, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Place]:
    """Yield a server that sends nothing itself."""
    targets: dict[str, dict[str, Any]] = {
        "steady": make_target(target, "steady"),
        "hundred": make_target(target, "hundred"),
        "narrow": make_target(target, "narrow", concurrency=3),
        "paced": make_target(target, "paced", rate=10),
        "fragile": make_target(
            target, "fragile", breaker_failures=3, breaker_seconds=0.5, attempts=4
        ),
        "stopping": make_target(target, "stopping"),
        "hooked": make_target(
            target,
            "hooked",
            private_networks=["127.0.0.0/8"],
            callback_allowed=[f"{target}/hooks/"],
            callback_secrets=OUTBOUND,
        ),
    }
    for each in targets.values():
        each["private_networks"] = ["127.0.0.0/8"]
    flags = write_settings(
        tmp_path_factory.mktemp("processes"), targets, concurrency=16, shutdown_seconds=0.5
    )
    async with (
        make_database(server, "laneway_gateway_processes") as dsn,
        run_laneway(dsn, "--overdue-check-interval-ms", "100", *flags) as running,
    ):
        yield Place(World(running, dsn, target, {}), flags)
        assert "Traceback" not in running.log


@pytest.fixture
async def client(place: Place) -> AsyncIterator[Client]:
    world = place.world
    async with Client(world.server.url, world.target) as client:
        yield client


@asynccontextmanager
async def run_gateways(
    place: Place, count: int = 2
) -> AsyncIterator[list[asyncio.subprocess.Process]]:
    """Run gateway processes; kill those that the test does not stop."""
    world, flags = place
    processes = [
        await asyncio.create_subprocess_exec(
            LANEWAY,
            "gateway",
            "run",
            *flags,
            env={"PATH": "/usr/bin:/bin", "DATABASE_URL": world.dsn},
            stderr=asyncio.subprocess.PIPE,
        )
        for _ in range(count)
    ]
    try:
        for process in processes:
            assert process.stderr is not None
            line = await process.stderr.readline()
            assert b"delivers to" in line, line
        yield processes
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
            await process.communicate()


async def test_two_processes_send_each_transaction_once(client: Client, place: Place) -> None:
    made = [await client.accept("hundred", {"n": n}) for n in range(100)]
    async with run_gateways(place):
        calls = await client.calls("hundred", 100)
        for each in made:
            await client.until(each, "success")
    assert sorted(call["headers"]["idempotency-key"] for call in calls) == sorted(made)
    assert len(await client.calls("hundred")) == 100


async def test_concurrency_holds_across_processes(client: Client, place: Place) -> None:
    name = f"hold-{uuid4()}"
    for _ in range(20):
        await client.accept("narrow", answers({"hold": name}))
    async with run_gateways(place):
        await client.calls("narrow", 3)
        # A target without a limit is served meanwhile.
        await client.result("steady")
        assert len(await client.calls("narrow")) == 3
        await client.release(name)
        await client.calls("narrow", 20)
    assert await client.most_at_once("narrow") == 3


async def test_rate_holds_across_processes(client: Client, place: Place) -> None:
    for _ in range(30):
        await client.accept("paced")
    async with run_gateways(place):
        times = [call["at"] for call in await client.calls("paced", 30)]
    # Ten at once, then ten a second.
    assert times[29] - times[0] >= 1.7
    assert times[19] - times[0] >= 0.8


async def test_breaker_opens_keeps_attempts_and_closes(client: Client, place: Place) -> None:
    world = place.world
    name = f"hold-{uuid4()}"
    # Three failures open it; the probes fail until the target is well.
    await client.script("fragile", *[{"status": 503}] * 5, {"hold": name})
    made = [await client.accept("fragile", {"n": n}) for n in range(12)]
    async with run_gateways(place), Broker(world.dsn) as broker:
        async with asyncio.timeout(60):
            while not any(
                each.target == "fragile" and each.opened_at is not None
                for each in await broker.transactions.list_breakers()
            ):
                await asyncio.sleep(0.02)
        shown = (await client.http.get("/relay/pool-status")).json()["targets"]
        assert {each["name"]: each["breaker"] for each in shown}["fragile"] == "open"
        await client.release(name)
        for each in made:
            done = await client.until(each, "success")
            assert done["error_message"] is None
        [known] = [
            each for each in await broker.transactions.list_breakers() if each.target == "fragile"
        ]
        assert (known.opened_at, known.failures) == (None, 0)


async def test_processes_stop_with_calls_in_progress(client: Client, place: Place) -> None:
    world = place.world
    name = f"hold-{uuid4()}"
    made = [await client.accept("stopping", answers({"hold": name}, {})) for _ in range(40)]
    async with run_gateways(place, 1) as [process]:
        await client.calls("stopping", 16)
        process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
    called = {call["headers"]["idempotency-key"] for call in await client.calls("stopping")}
    assert len(called) == 16
    async with Broker(world.dsn) as broker:
        for each in made:
            found = await broker.transactions.find(UUID(each))
            assert found is not None
            # What was called is unknown; what was claimed only is as before.
            assert (found.sending_at is not None) == (each in called)
            assert found.status == "pending"
    await client.release(name)
    async with run_gateways(place, 1):
        for each in set(made) - called:
            await client.until(each, "success")
    assert len(await client.calls("stopping")) == 40


async def test_call_that_ends_in_time_is_recorded_while_the_process_stops(
    client: Client, place: Place
) -> None:
    name = f"hold-{uuid4()}"
    transaction_id = await client.accept("steady", answers({"hold": name}))
    async with run_gateways(place, 1) as [process]:
        await client.calls("steady", 1, key=transaction_id)
        process.send_signal(signal.SIGTERM)
        await client.release(name)
        async with asyncio.timeout(60):
            assert await process.wait() == 0
    assert (await client.status(transaction_id))["status"] in {"success", "pending"}


async def test_webhook_to_a_private_address_is_refused(client: Client, place: Place) -> None:
    """The target may be in a private network, but [gateway] allows none for webhooks."""
    world = place.world
    hook = f"{client.target}/hooks/{uuid4()}"
    async with run_gateways(place, 1):
        await client.result("hooked", webhook_url=hook)
        connection = await asyncpg.connect(world.dsn)
        try:
            async with asyncio.timeout(60):
                while not (
                    found := await connection.fetchrow(
                        "select * from laneway.gateway_endpoint where url = $1", hook
                    )
                ):
                    await asyncio.sleep(0.02)
        finally:
            await connection.close()
    assert found["disabled_at"] is not None
    assert "is private" in found["reason"]
    assert await client.calls(f"hooks/{hook.rpartition('/')[2]}") == []
