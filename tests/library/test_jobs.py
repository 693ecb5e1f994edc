"""Jobs: results to wait for, progress to see, and cancellation."""

from __future__ import annotations

import asyncio
import json
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import laneway
from laneway.domain.errors import (
    InvalidRequest,
    JobCancelled,
    JobFailed,
    ResultNotFound,
)
from laneway.domain.messages import Progress, Status
from laneway.domain.workers import WorkerIdentity
from tests.library.conftest import QUIET
from tests.library.workers import make_app, running, settled, until

if TYPE_CHECKING:
    from laneway import Connection
    from tests.library.conftest import Place
    from tests.library.shell import Shell

LONG = timedelta(seconds=30)
HOUR = timedelta(hours=1)


async def test_result_of_a_job(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)

    @app.handler(queue, keep_results=HOUR)
    async def double(message: laneway.Message) -> int:
        return int(message.payload) * 2

    job = lane.job(await lane.producer(queue).enqueue(21))
    with pytest.raises(TimeoutError, match="still queued"):
        await job.result(timedelta(0))
    async with running(app):
        assert await job.result(LONG) == 42
    info = await job.info()
    assert (info.queue, info.status, info.result) == (queue, Status.ACKNOWLEDGED, 42)
    assert info.finished_at is not None


async def test_result_of_a_job_that_fails(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)

    @app.handler(queue, keep_results=HOUR)
    async def refuse(_: laneway.Message) -> None:
        raise laneway.Reject("no such customer")

    job = lane.job(str(await lane.producer(queue).enqueue(1)))
    async with running(app):
        with pytest.raises(JobFailed, match="no such customer"):
            await job.result(LONG)


async def test_job_without_a_kept_result(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)

    @app.handler(queue)
    async def handle(_: laneway.Message) -> int:
        return 1

    job = lane.job(await lane.producer(queue).enqueue(1))
    async with running(app):
        with pytest.raises(ResultNotFound):
            await job.result(LONG)
    with pytest.raises(ResultNotFound):
        await lane.job("1-999999999-1").result(LONG)
    with pytest.raises(ResultNotFound):
        await lane.job("1-999999999-1").info()


async def test_progress_is_seen_while_the_handler_runs(
    lane: Connection, address: str, queue: str, place: Place, shell: Shell
) -> None:
    app, go = make_app(address), asyncio.Event()

    @app.handler(queue)
    async def work(message: laneway.Message) -> None:
        message.progress(0.25, "reading")
        message.progress(0.4, "parsing")
        await go.wait()

    job = lane.job(await lane.producer(queue).enqueue(1))

    async def reported() -> Progress | None:
        return await job.progress()

    async with running(app):
        assert await until(reported) == Progress(0.4, "parsing")
        (row,) = await lane.admin.messages(queue, Status.PROCESSING)
        assert row.progress == (0.4, "parsing")
        listed = await asyncio.to_thread(
            shell.run, "queue", "messages", queue, "--status", "processing", "--format", "json"
        )
        (shown,) = json.loads(listed.stdout)
        assert (shown["progress"], shown["note"]) == (0.4, "parsing")
        async with httpx.AsyncClient(base_url=f"{place.url}/api") as client:
            page = await client.get("/queue/processing/messages", params={"queueName": queue})
        (message,) = page.json()["messages"]
        assert (message["progress"], message["progress_note"]) == (0.4, "parsing")
        go.set()
        await until(lambda: settled(lane, queue, 1))
    assert await job.progress() is None


async def test_note_of_any_characters_is_reported(
    lane: Connection, address: str, queue: str
) -> None:
    app, go = make_app(address), asyncio.Event()

    @app.handler(queue)
    async def work(message: laneway.Message) -> None:
        message.progress(0.5, "file a\0b\udc80")
        await go.wait()

    job = lane.job(await lane.producer(queue).enqueue(1))

    async def reported() -> Progress | None:
        return await job.progress()

    async with running(app):
        try:
            assert await until(reported) == Progress(0.5, "file a\ufffdb?")
        finally:
            go.set()


async def test_progress_of_another_client_leaves_the_list_of_messages_readable(
    lane: Connection, queue: str
) -> None:
    name = f"worker-of-{queue}"
    await lane.backend.workers.register(
        WorkerIdentity(name, "worker", "host", 1, [queue], HOUR, "worker")
    )
    message_id = await lane.producer(queue).enqueue(1)
    assert await lane.consumer(queue, name=name).dequeue() is not None
    progress = {str(message_id): Progress(7, "\0" * 1000), "\0": Progress(0, "")}
    await lane.backend.workers.record_heartbeat(name, handled=0, failed=0, progress=progress)
    (row,) = await lane.admin.messages(queue, Status.PROCESSING)
    assert row.progress == (1, "\ufffd" * 200)


async def test_progress_of_a_handler_in_a_thread(
    lane: Connection, address: str, queue: str
) -> None:
    app, go = make_app(address), threading.Event()

    @app.handler(queue)
    def work(message: laneway.Message) -> None:
        message.progress(1)
        go.wait(30)

    job = lane.job(await lane.producer(queue).enqueue(1))

    async def reported() -> Progress | None:
        return await job.progress()

    async with running(app):
        try:
            assert await until(reported) == Progress(1, "")
        finally:
            go.set()


@pytest.mark.parametrize("report", [(1.1, ""), ("half", ""), (0.5, "x" * 201)])
async def test_progress_is_a_share_and_a_short_note(
    lane: Connection, queue: str, report: tuple[Any, str]
) -> None:
    await lane.producer(queue).enqueue(1)
    message = await lane.consumer(queue).dequeue()
    assert message is not None
    with pytest.raises(InvalidRequest):
        message.progress(*report)


async def test_only_handlers_report_progress(lane: Connection, queue: str) -> None:
    await lane.producer(queue).enqueue(1)
    message = await lane.consumer(queue).dequeue()
    assert message is not None
    with pytest.raises(InvalidRequest, match="no worker"):
        message.progress(0.5)


async def test_cancelled_job_ends_its_handler(lane: Connection, address: str, queue: str) -> None:
    app, started, ended = make_app(address), asyncio.Event(), asyncio.Event()

    @app.handler(queue, keep_results=HOUR, lock_time=HOUR)
    async def work(_: laneway.Message) -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            ended.set()
            raise

    job = lane.job(await lane.producer(queue).enqueue(1))
    async with running(app) as worker:
        await started.wait()
        assert await job.cancel()
        with pytest.raises(JobCancelled):
            await job.result(LONG)
        async with asyncio.timeout(30):
            await ended.wait()

        async def reported() -> bool:
            return (await lane.admin.get_worker(worker.worker_id)).failed == 1

        await until(reported)
        assert not await job.cancel()
    (dead,) = await lane.admin.dlq_list(queue)
    assert dead.error == "cancelled"


async def test_cancelled_job_that_is_queued_never_runs(
    lane: Connection, address: str, queue: str
) -> None:
    app, ran = make_app(address), []

    @app.handler(queue)
    async def work(message: laneway.Message) -> None:
        ran.append(message.payload)

    producer = lane.producer(queue)
    job = lane.job(await producer.enqueue("cancelled"))
    later = lane.job(await producer.enqueue("later", delay=HOUR))
    await producer.enqueue("other")
    assert await job.cancel()
    assert await later.cancel()
    async with running(app):
        await until(lambda: settled(lane, queue, 1))
    assert ran == ["other"]
    with pytest.raises(JobCancelled):
        await job.result(LONG)
    # It can be tried again, as any dead letter.
    assert await lane.admin.dlq_redrive(queue) == 2


async def test_jobs_of_synchronous_programs(place: Place, queue: str) -> None:
    def work() -> bool:
        with laneway.sync.connect(place.dsn, settings=QUIET) as lane:
            job = lane.job(lane.producer(queue).enqueue(1))
            assert job.info().status is Status.QUEUED
            return job.cancel()

    assert await asyncio.to_thread(work)


async def test_command_cancels_a_job(lane: Connection, queue: str, shell: Shell) -> None:
    message = await lane.producer(queue).enqueue(1)
    done = await asyncio.to_thread(shell.run, "queue", "cancel", str(message))
    assert done.returncode == 0
    again = await asyncio.to_thread(shell.run, "queue", "cancel", str(message))
    assert again.returncode == 4
    assert "neither queued nor in flight" in again.stderr
