"""Workers whose handlers succeed, fail, hang, block and take batches, on both transports."""

from __future__ import annotations

import asyncio
import functools
import os
import threading
import time
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from laneway import PartialFailure, Reject, Retry, Snooze, Status
from laneway.domain.errors import InvalidRequest, InvalidSetting, ResultNotFound
from laneway.domain.workers import WorkerState
from laneway.worker.middlewares import Metrics, trace
from tests.library.workers import (
    beaten,
    listed,
    look,
    make_app,
    reason,
    running,
    settled,
    until,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator

    from laneway import Connection, Message

MOMENT = timedelta(milliseconds=200)
SECOND = timedelta(seconds=1)


def double(message: Message) -> int:
    """Double a number, in a process: found there by name."""
    elsewhere: bool = os.getpid() != message.headers["pid"]
    return int(message.payload) * 2 + elsewhere * 1000


def hang(message: Message) -> None:
    del message
    time.sleep(60)


async def test_successful_handler_acks(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)
    seen = []

    @app.handler(queue)
    async def handle(message: Message) -> None:
        seen.append(message.payload)

    await lane.producer(queue).batch_enqueue(range(200))
    async with running(app) as worker:
        await until(lambda: settled(lane, queue, 200))
        assert worker.handled == 200
    assert sorted(seen) == list(range(200))
    (info,) = await lane.admin.list_workers(queue)
    assert (info.state, info.handled, info.failed) == (WorkerState.STOPPED, 200, 0)


async def test_failing_handler_nacks_with_the_reason_and_the_worker_continues(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    @app.handler(queue, retry=Retry(max_attempts=2, backoff=timedelta(0)))
    async def handle(message: Message) -> None:
        if message.payload == "bad":
            raise ValueError("no such thing")

    await lane.producer(queue).batch_enqueue(["bad", "good", "bad", "good"])
    async with running(app):
        dead = await until(lambda: listed(lane, queue, Status.DEAD, 2))
        await until(lambda: settled(lane, queue, 2))
    assert {reason(item) for item in dead} == {"ValueError: no such thing"}
    assert {item.attempt for item in dead} == {2}


async def test_reject_dead_letters_at_once(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)

    @app.handler(queue)
    async def handle(_: Message) -> None:
        raise Reject("not ours")

    await lane.producer(queue).enqueue(1)
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    assert (dead.error, dead.attempt) == ("not ours", 1)


async def test_non_retryable_error_dead_letters_at_once(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    @app.handler(queue, retry=Retry(max_attempts=9, on=(ConnectionError,)))
    async def handle(_: Message) -> None:
        raise KeyError("x")

    await lane.producer(queue).enqueue(1)
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    assert dead.attempt == 1


async def test_snoozed_message_is_redelivered_without_counting_an_attempt(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)
    attempts = []

    @app.handler(queue)
    async def handle(message: Message) -> None:
        attempts.append(message.attempt)
        if len(attempts) < 4:
            raise Snooze(timedelta(milliseconds=20))

    await lane.producer(queue).enqueue(1)
    async with running(app):
        await until(lambda: settled(lane, queue, 1))
    assert attempts == [1, 1, 1, 1]


async def test_handler_timeout_is_a_failure(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)

    @app.handler(queue, timeout=MOMENT, retry=Retry(max_attempts=1))
    async def handle(_: Message) -> None:
        await asyncio.sleep(60)

    await lane.producer(queue).enqueue(1)
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    assert reason(dead) == "TimeoutError: the handler took longer than 0.2 s"


async def test_handler_that_ignores_its_timeout_has_failed(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    @app.handler(queue, timeout=MOMENT, retry=Retry(max_attempts=1))
    async def handle(_: Message) -> None:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(60)

    await lane.producer(queue).enqueue(1)
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    assert reason(dead) == "TimeoutError: the handler took longer than 0.2 s"


async def test_lock_is_extended_while_the_handler_runs(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)
    attempts = []

    @app.handler(queue, lock_time=SECOND)
    async def handle(message: Message) -> None:
        attempts.append(message.attempt)
        await asyncio.sleep(2.5)

    await lane.producer(queue).enqueue(1)
    async with running(app):
        await until(lambda: settled(lane, queue, 1))
    assert attempts == [1]


async def test_handler_that_blocks_the_loop_keeps_its_lease_and_heartbeat(
    lane: Connection, address: str, queue: str
) -> None:
    """Blocked in a thread of its own, so that the test's loop can look on."""
    app = make_app(address)
    attempts = []

    @app.handler(queue, lock_time=SECOND)
    async def handle(message: Message) -> None:
        attempts.append(message.attempt)
        time.sleep(2.5)

    await lane.producer(queue).enqueue(1)
    worker = app.worker()
    thread = threading.Thread(target=lambda: asyncio.run(worker.run()))
    thread.start()
    try:
        await until(lambda: look(lambda: bool(attempts)))
        before = await lane.admin.get_worker(worker.worker_id)
        await until(lambda: beaten(lane, worker.worker_id, before.heartbeat_at), within=2)
        await until(lambda: settled(lane, queue, 1))
    finally:
        worker.stop()
        await asyncio.to_thread(thread.join)
    assert attempts == [1]


async def test_worker_notices_a_lost_lease_and_its_late_ack_changes_nothing(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)
    ended = asyncio.Event()
    messages = []

    @app.handler(queue, lock_time=MOMENT, concurrency=1, prefetch=0)
    async def handle(message: Message) -> None:
        messages.append(message)
        if len(messages) > 1:
            return
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.set()
            raise

    await lane.producer(queue).enqueue(1)
    async with running(app):
        await until(lambda: look(lambda: bool(messages)))
        # Taken from it, as when its lock had ended, and not to be had for an hour.
        assert await lane.backend.release([messages[0].receipt], delay=SECOND * 3600) == []
        async with asyncio.timeout(10):
            await ended.wait()
        assert messages[0].lost
        # It goes on with others.
        await lane.producer(queue).enqueue(2)
        await until(lambda: settled(lane, queue, 1))
    assert await lane.consumer(queue).delete(messages[0]) is False
    assert (await lane.admin.queue_metrics(queue)).pending == 1


async def test_blocking_handler_runs_in_a_thread(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)
    threads = set()

    @app.handler(queue, concurrency=3)
    def handle(message: Message) -> None:
        threads.add(threading.current_thread())
        if message.payload == 0:
            raise StopIteration
        time.sleep(0.05)

    await lane.producer(queue).batch_enqueue(range(6))
    async with running(app):
        await until(lambda: settled(lane, queue, 5))
    assert threading.main_thread() not in threads
    assert 1 <= len(threads) <= 3


async def square(message: Message) -> int:
    return int(message.payload) ** 2


def log_calls(function: Callable[[Message], Awaitable[int]]) -> Callable[[Message], Any]:
    """Decorate as one does who has not thought of asynchronous functions."""

    @functools.wraps(function)
    def call(message: Message) -> Any:
        return function(message)

    return call


class Squarer:
    async def __call__(self, message: Message) -> int:
        return await square(message)


@pytest.mark.parametrize(
    "handler",
    # It is the lambda that is tested.
    [log_calls(square), lambda message: square(message), Squarer()],  # noqa: PLW0108 - see above
    ids=range(3),
)
async def test_wrapped_asynchronous_handler_is_awaited(
    lane: Connection, address: str, queue: str, handler: Callable[[Message], Any]
) -> None:
    app = make_app(address)
    app.handler(queue, keep_results=SECOND * 60)(handler)
    message = await lane.producer(queue).enqueue(7)
    async with running(app):
        await until(lambda: settled(lane, queue, 1))
    assert await lane.job_result(message) == 49


async def test_handler_that_returns_a_generator_has_failed(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    def count(message: Message) -> Iterator[int]:
        yield message.payload

    @app.handler(queue, retry=Retry(max_attempts=1))
    def handle(message: Message) -> Iterator[int]:
        return count(message)

    await lane.producer(queue).enqueue(7)
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    assert "returned a generator, whose code has not run" in str(dead.error)


async def test_handler_in_a_process_of_its_own(place: Any, lane: Connection, queue: str) -> None:
    app = make_app(place.dsn)
    app.handler(queue, executor="process", concurrency=1, keep_results=SECOND * 60)(double)
    message = await lane.producer(queue).enqueue(21, headers={"pid": os.getpid()})
    async with running(app):
        await until(lambda: settled(lane, queue, 1))
    assert await lane.job_result(message) == 1042


async def test_process_that_hangs_is_killed(place: Any, lane: Connection, queue: str) -> None:
    app = make_app(place.dsn)
    app.handler(
        queue, executor="process", concurrency=1, timeout=SECOND * 3, retry=Retry(max_attempts=1)
    )(hang)
    await lane.producer(queue).enqueue(1)
    began = time.monotonic()
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    assert "longer than 3 s" in str(dead.error)
    assert time.monotonic() - began < 40


async def test_batch_handler_takes_lists(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)
    sizes = []

    @app.handler(queue, batch=20, concurrency=1, prefetch=40)
    async def handle(messages: list[Message]) -> None:
        sizes.append(len(messages))

    await lane.producer(queue).batch_enqueue(range(50))
    async with running(app):
        await until(lambda: settled(lane, queue, 50))
    assert sum(sizes) == 50
    assert max(sizes) == 20


async def test_batch_may_fail_in_part(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)

    @app.handler(queue, batch=10, concurrency=1, retry=Retry(max_attempts=1))
    async def handle(messages: list[Message]) -> None:
        odd = {message.id: f"odd {message.payload}" for message in messages if message.payload % 2}
        if odd:
            raise PartialFailure(odd)

    await lane.producer(queue).batch_enqueue(range(6))
    async with running(app):
        dead = await until(lambda: listed(lane, queue, Status.DEAD, 3))
        await until(lambda: settled(lane, queue, 3))
    assert sorted(item.error for item in dead) == ["odd 1", "odd 3", "odd 5"]


async def test_results_are_kept_on_request(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)

    @app.handler(queue, keep_results=SECOND * 60)
    async def handle(message: Message) -> dict[str, int]:
        return {"square": message.payload**2}

    ids = await lane.producer(queue).batch_enqueue([3, 4])
    with pytest.raises(ResultNotFound):
        await lane.job_result(ids[0])
    async with running(app):
        await until(lambda: settled(lane, queue, 2))
    assert [await lane.job_result(item) for item in ids] == [{"square": 9}, {"square": 16}]


async def test_result_that_is_not_json_is_logged(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    @app.handler(queue, keep_results=SECOND * 60)
    async def handle(_: Message) -> float:
        return float("nan")

    await lane.producer(queue).enqueue(1)
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    assert "is nan, which JSON does not have" in (dead.error or "")


async def test_handlers_use_the_worker_s_connection(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)
    with pytest.raises(InvalidSetting, match="not running"):
        _ = app.connection
    seen: list[str] = []

    @app.handler(queue)
    async def handle(message: Message) -> None:
        seen.append(message.payload)
        assert app.lane is app.connection
        if message.payload == "first":
            await app.connection.producer(queue).enqueue("second")

    await lane.producer(queue).enqueue("first")
    async with running(app):
        await until(lambda: settled(lane, queue, 2))
    assert seen == ["first", "second"]


async def test_each_worker_s_handlers_use_its_own_connection_while_it_runs(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    @app.handler(queue, partition="here", retry=Retry(max_attempts=1))
    async def handle(message: Message) -> None:
        await app.connection.producer(queue).enqueue(message.payload, partition="elsewhere")

    async with running(app):
        async with running(app):
            pass
        await lane.producer(queue).enqueue(1, partition="here")
        await until(lambda: settled(lane, queue, 1))
    with pytest.raises(InvalidSetting, match="not running"):
        _ = app.connection


async def test_worker_runs_once(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)

    @app.handler(queue)
    async def handle(_: Message) -> None:
        pass

    async with running(app) as worker:
        with pytest.raises(InvalidRequest, match="has already run: create another"):
            await worker.run()
    with pytest.raises(InvalidRequest, match="has already run: create another"):
        await worker.run()
    assert (await lane.admin.get_worker(worker.worker_id)).state is WorkerState.STOPPED


async def test_middlewares_wrap_every_call_in_order(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)
    log: list[str] = []
    metrics = Metrics()
    app.middleware(metrics)

    def note(name: str) -> None:
        @app.middleware
        async def middleware(message: Message, proceed: Callable[[Any], Awaitable[Any]]) -> Any:
            log.append(f"{name} before {message.payload}")
            result = await proceed(message)
            log.append(f"{name} after")
            return result

    note("outer")
    note("inner")

    @app.handler(queue)
    async def handle(_: Message) -> None:
        log.append("handler")

    await lane.producer(queue).enqueue(1)
    async with running(app):
        await until(lambda: settled(lane, queue, 1))
    assert log == ["outer before 1", "inner before 1", "handler", "inner after", "outer after"]
    assert metrics.timing(queue).calls == 1
    assert f'laneway_handler_seconds_count{{queue="{queue}"}} 1' in metrics.show()


async def test_spans_name_the_message(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    app.middleware(trace(provider.get_tracer("test")))

    @app.handler(queue, retry=Retry(max_attempts=1))
    async def handle(message: Message) -> None:
        if message.payload == "bad":
            raise ValueError("no such thing")

    good, bad = await lane.producer(queue).batch_enqueue(["good", "bad"])
    async with running(app):
        await until(lambda: settled(lane, queue, 1))
        await until(lambda: listed(lane, queue, Status.DEAD, 1))
    spans = {
        (span.attributes or {})["messaging.message.id"]: span
        for span in exporter.get_finished_spans()
    }
    assert set(spans) == {str(good), str(bad)}
    assert {span.name for span in spans.values()} == {f"{queue} process"}
    assert spans[str(good)].status.is_ok
    assert not spans[str(bad)].status.is_ok
