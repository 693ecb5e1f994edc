"""laneway.testing: handlers that run in the test, and workers that run until nothing is left."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import laneway
from laneway.domain.errors import InvalidRequest
from laneway.domain.messages import Status
from laneway.domain.runs import RunStatus
from tests.library.workers import make_app

if TYPE_CHECKING:
    from laneway import Connection, Proceed, Work


@pytest.fixture
def app() -> laneway.App:
    """Return an app without an address: nothing connects."""
    app = laneway.App()

    @app.handler("orders")
    async def accept(message: laneway.Message) -> str:
        message.progress(0.5)
        if message.payload["total"] < 0:
            raise laneway.Reject("negative")
        await app.connection.producer("receipts").enqueue(
            {"for": message.payload["id"]}, priority=3, headers={"trace": "7f"}
        )
        await app.connection.start("ship", message.payload["id"], run_id="order-1")
        return f"attempt {message.attempt}"

    @app.handler("blocking")
    def block(message: laneway.Message) -> int:
        return len(message.headers)

    @app.handler("batches", batch=10)
    async def count(messages: list[laneway.Message]) -> int:
        return len(messages)

    return app


async def test_handler_runs_without_a_database(app: laneway.App) -> None:
    with laneway.testing.inline(app) as jobs:
        assert await jobs.run("orders", {"id": 1, "total": 5}, attempt=2) == "attempt 2"
        found = jobs.assert_enqueued("receipts", {"for": 1}, priority=3)
        assert found.headers == {"trace": "7f"}
        jobs.assert_started("ship", 1)
        assert await jobs.run("blocking", None, headers={"a": 1}) == 1
        assert await jobs.run("batches", None) == 1
        with pytest.raises(laneway.Reject):
            await jobs.run("orders", {"id": 1, "total": -1})
    assert len(jobs.enqueued) == len(jobs.started) == 1


async def test_code_that_enqueues_is_recorded(app: laneway.App) -> None:
    with laneway.testing.inline(app) as jobs:
        ids = await jobs.connection.producer("orders").batch_enqueue(
            [1, 2], delay=timedelta(hours=1)
        )
    assert len(set(ids)) == 2
    assert [each.payload for each in jobs.enqueued] == [1, 2]
    assert jobs.assert_enqueued("orders", 2).delay == timedelta(hours=1)


async def test_missing_message_fails_the_test_and_lists_what_was_enqueued(
    app: laneway.App,
) -> None:
    with laneway.testing.inline(app) as jobs:
        await jobs.connection.producer("orders").enqueue("this one")
    with pytest.raises(AssertionError, match="this one"):
        jobs.assert_enqueued("orders", "another")
    with pytest.raises(AssertionError, match="priority=9"):
        jobs.assert_enqueued("orders", "this one", priority=9)
    with pytest.raises(AssertionError, match="nothing"):
        jobs.assert_started("ship")
    with pytest.raises(InvalidRequest, match="no fields"):
        jobs.assert_enqueued("orders", "this one", colour="red")


async def test_what_is_not_recorded_is_refused(app: laneway.App) -> None:
    with laneway.testing.inline(app) as jobs:
        with pytest.raises(InvalidRequest, match="not recorded"):
            await jobs.connection.consumer("orders").dequeue()
        with pytest.raises(InvalidRequest, match="not recorded"):
            await jobs.connection.run("order-1").status()
        with pytest.raises(InvalidRequest, match="0 handlers"):
            await jobs.run("unknown", 1)


async def test_middlewares_surround_the_handler(app: laneway.App) -> None:
    log: list[str] = []

    @app.middleware
    async def note(message: Work, proceed: Proceed) -> Any:
        log.append("before")
        try:
            return await proceed(message)
        finally:
            log.append("after")

    with laneway.testing.inline(app) as jobs:
        await jobs.run("blocking", None)
    assert log == ["before", "after"]


async def test_drain_runs_a_worker_until_nothing_is_ready(
    lane: Connection, address: str, queue: str
) -> None:
    app, name = make_app(address), f"flow-{uuid4().hex[:8]}"

    @laneway.step
    async def double(n: int) -> int:
        return 2 * n

    @app.workflow(name=name, queue=name)
    async def flow(n: int) -> int:
        return await double(n)

    @app.handler(queue)
    async def count_down(message: laneway.Message) -> None:
        if message.payload:
            await app.connection.producer(queue).enqueue(message.payload - 1)
        else:
            await app.connection.start(name, 21, queue=name, run_id=name)

    await lane.producer(queue).enqueue(3)
    await lane.producer(queue).enqueue(0, delay=timedelta(hours=1))
    await laneway.testing.drain(app)
    assert len(await lane.admin.messages(queue, Status.ACKNOWLEDGED)) == 4
    assert len(await lane.admin.messages(queue, Status.QUEUED)) == 1
    info = await lane.run(name).info()
    assert (info.status, info.result) == (RunStatus.COMPLETED, 42)
