"""Limits of handlers, messages and settings, on both transports."""

from __future__ import annotations

import asyncio
import functools
import threading
import time
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from laneway import PartialFailure, QueueSettings, Reject, Retry, Snooze, Status, WorkerSettings
from laneway.domain.errors import InvalidRequest, InvalidSetting
from laneway.domain.messages import LONGEST_TIME, OutgoingMessage
from laneway.worker.middlewares import Metrics
from tests.library.workers import listed, look, make_app, running, settled, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from laneway import Connection, Message

MOMENT = timedelta(milliseconds=200)
SECOND = timedelta(seconds=1)


async def test_handler_may_allow_more_attempts_than_its_queue(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    @app.handler(queue, retry=Retry(max_attempts=5, backoff=timedelta(0)))
    async def handle(_: Message) -> None:
        raise ValueError("never")

    await lane.producer(queue).enqueue(1)
    assert (await lane.admin.get_queue(queue)).settings.max_attempts == 3
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    assert dead.attempt == 5


async def test_failed_parts_of_a_batch_are_always_retried(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)
    attempts: list[int] = []

    @app.handler(queue, batch=2, retry=Retry(backoff=timedelta(0), on=(ConnectionError,)))
    async def handle(messages: list[Message]) -> None:
        attempts.extend(message.attempt for message in messages)
        if messages[0].attempt == 1:
            raise PartialFailure({message.id: "later\x00" for message in messages})

    await lane.producer(queue).enqueue(1)
    async with running(app):
        await until(lambda: settled(lane, queue, 1))
    assert attempts == [1, 2]


@pytest.mark.parametrize("reason", ["a\x00b", "\ud800", "x" * 100_000])
async def test_any_reason_can_be_kept(
    lane: Connection, address: str, queue: str, reason: str
) -> None:
    app = make_app(address)

    @app.handler(queue)
    async def handle(_: Message) -> None:
        raise Reject(reason)

    await lane.producer(queue).enqueue(1)
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    assert dead.error is not None
    assert len(dead.error) <= 2000


async def test_hanging_thread_does_not_use_up_concurrency(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)
    end = threading.Event()
    done = []

    @app.handler(queue, concurrency=1, timeout=MOMENT, retry=Retry(max_attempts=1))
    def handle(message: Message) -> None:
        if message.payload == "hang":
            end.wait(60)
        done.append(message.payload)

    await lane.producer(queue).batch_enqueue(["hang", "hang", "go", "go"])
    async with running(app):
        await until(lambda: settled(lane, queue, 2))
    assert done == ["go", "go"]
    end.set()


async def test_short_lease_of_a_message_is_extended(
    lane: Connection, address: str, queue: str
) -> None:
    """The queue's lock lasts half a minute: without notice, the guard would look too late."""
    app = make_app(address, worker=WorkerSettings())
    attempts: list[int] = []

    @app.handler(queue, concurrency=1, prefetch=0)
    async def handle(message: Message) -> None:
        attempts.append(message.attempt)
        await asyncio.sleep(1.5)
        assert not message.lost

    await lane.backend.push(queue, [OutgoingMessage("1", lease=timedelta(seconds=0.6))])
    async with running(app):
        await until(lambda: settled(lane, queue, 1))
    assert attempts == [1]


async def test_leases_are_extended_in_time_after_the_queue_lowered_its_lease(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address, worker=WorkerSettings())
    attempts: list[int] = []

    async def extended(message: Message) -> bool:
        held = await lane.admin.messages(queue, Status.PROCESSING)
        return any(item.until and item.until > message.locked_until for item in held)

    @app.handler(queue)
    async def handle(message: Message) -> None:
        if message.payload == "slow":
            attempts.append(message.attempt)
            await until(lambda: extended(message))

    async with running(app):
        await lane.producer(queue).enqueue("quick")
        await until(lambda: settled(lane, queue, 1))
        await lane.admin.update_queue(queue, {"lease": SECOND * 4})
        await lane.producer(queue).enqueue("slow")
        await until(lambda: settled(lane, queue, 2))
    assert attempts == [1]


async def test_message_with_a_short_lease_is_handled_at_once(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)
    begun = asyncio.Event()

    @app.handler(queue, concurrency=1, prefetch=5)
    async def handle(message: Message) -> None:
        if message.payload == "long":
            begun.set()
            await asyncio.sleep(20)

    await lane.producer(queue).enqueue("long")
    async with running(app) as worker:
        await begun.wait()
        short = OutgoingMessage('"short"', lease=SECOND * 4)
        await lane.backend.push(queue, [short])
        # Taken ahead or not, it has not spent an attempt.
        taken = await lane.consumer(queue).dequeue(wait=SECOND * 30)
        assert taken is not None
        assert taken.attempt == 1
        worker.shutdown(release=True)


async def test_hanging_handlers_lease_no_more_messages_than_they_run(
    lane: Connection, address: str, queue: str
) -> None:
    """What was taken ahead and cannot be begun goes to others before its lock ends."""
    app = make_app(address)

    @app.handler(queue, concurrency=1, prefetch=5, lock_time=timedelta(seconds=1))
    async def handle(_: Message) -> None:
        await asyncio.sleep(20)

    await lane.producer(queue).batch_enqueue(range(3))
    async with running(app) as worker:
        await until(lambda: look(lambda: worker.in_flight == 1))
        other = lane.consumer(queue)
        taken = await other.dequeue_many(1, wait=SECOND * 10)
        assert [message.attempt for message in taken] == [1]
        worker.shutdown(release=True)


@pytest.mark.parametrize("n", [6, 12], ids=["taken at once", "taken meanwhile"])
async def test_blocking_the_loop_beyond_the_lease_counts_no_attempts(
    lane: Connection, address: str, queue: str, n: int
) -> None:
    """What waits for it, is taken meanwhile, or is on its way back is held as long as it blocks."""
    app = make_app(address)
    handled: list[tuple[int, int]] = []

    @app.handler(queue, concurrency=6)
    async def handle(message: Message) -> None:
        handled.append((message.payload, message.attempt))
        time.sleep(1.4)

    await lane.admin.update_queue(queue, {"lease": SECOND})
    await lane.producer(queue).batch_enqueue(range(n))
    async with running(app):
        await until(lambda: settled(lane, queue, n), within=60)
    assert sorted(handled) == [(number, 1) for number in range(n)]


async def test_blocking_the_loop_counts_no_attempts_of_other_queues(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)
    other = f"{queue}-healthy"
    await lane.admin.create_queue(other, QueueSettings(lease=SECOND))
    handled: list[tuple[int, int]] = []

    @app.handler(queue, concurrency=1, prefetch=3)
    async def block(_: Message) -> None:
        time.sleep(1.4)

    @app.handler(other, concurrency=1, prefetch=5)
    async def handle(message: Message) -> None:
        handled.append((message.payload, message.attempt))
        await asyncio.sleep(0.1)

    await lane.admin.update_queue(queue, {"lease": SECOND})
    await lane.producer(queue).batch_enqueue(range(4))
    await lane.producer(other).batch_enqueue(range(6))
    async with running(app):
        await until(lambda: settled(lane, other, 6), within=60)
        await until(lambda: settled(lane, queue, 4), within=60)
    assert sorted(handled) == [(number, 1) for number in range(6)]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"headers": [1]}, "headers is a list: use a mapping"),
        ({"payload": object()}, "cannot be encoded as JSON"),
        ({"payload": [float("nan")]}, "is nan, which JSON does not have"),
        ({"priority": -5}, "use 0 to 32767"),
        ({"priority": "high"}, "use a whole number"),
        ({"partition": 5}, "partition is 5: use a str"),
        ({"expression": 5}, "expression is 5: use a str"),
        ({"queue": None}, "queue name is None: use a str"),
        ({"name": ["clean"]}, "name is .*: use a str"),
    ],
)
def test_invalid_schedule_is_refused(options: dict[str, Any], words: str) -> None:
    app = make_app("postgresql://nowhere/x")
    with pytest.raises(InvalidSetting, match=f"schedule .*{words}"):
        app.schedule(**{"name": "clean", "expression": "0 3 * * *", "queue": "jobs"} | options)
    app.schedule("clean", "0 3 * * *", queue="jobs", headers={"a": 1}, payload={"at": "night"})
    with pytest.raises(InvalidSetting, match="'clean' already exists"):
        app.schedule("clean", "0 3 * * *", queue="jobs")


def test_app_with_nothing_to_do_makes_no_worker() -> None:
    app = make_app("postgresql://nowhere/x")
    with pytest.raises(InvalidSetting, match="no handler, schedule or workflow"):
        app.worker()
    app.schedule("clean", "0 3 * * *", queue="jobs")
    app.worker()


def test_middleware_must_be_callable() -> None:
    with pytest.raises(InvalidSetting, match="middleware 5 is not callable"):
        make_app("postgresql://nowhere/x").middleware(5)  # type: ignore[arg-type]


async def test_app_runs_in_the_main_thread_only() -> None:
    app = make_app("postgresql://nowhere/x")
    app.schedule("clean", "0 3 * * *", queue="jobs")
    with pytest.raises(InvalidRequest, match="main thread only"):
        await asyncio.to_thread(app.run)


@pytest.mark.parametrize(
    "options",
    [
        {"concurrency": 0},
        {"batch": 0},
        {"prefetch": -1},
        {"executor": "process"},
        {"batch": 2, "keep_results": SECOND},
        {"timeout": timedelta(0)},
        {"lock_time": -SECOND},
        {"timeout": 30},
        {"keep_results": "1 day"},
        {"concurrency": 2.5},
        {"concurrency": True},
        {"prefetch": "many"},
        {"group": 5},
        {"partition": 5},
    ],
)
def test_invalid_settings_are_refused(options: dict[str, Any]) -> None:
    app = make_app("postgresql://nowhere/x")

    async def handle(_: Message) -> None:
        pass

    with pytest.raises(InvalidSetting, match="handler "):
        app.handler("jobs", **options)(handle)


def test_handler_must_be_a_function() -> None:
    with pytest.raises(InvalidSetting, match="handler 5 is not callable"):
        make_app("postgresql://nowhere/x").handler("jobs")(5)  # type: ignore[type-var]


async def yield_on_the_loop(message: Message) -> AsyncIterator[Message]:
    yield message


def yield_in_a_thread(message: Message) -> Iterator[Message]:
    yield message


class Yielder:
    def __call__(self, message: Message) -> Iterator[Message]:
        yield message


@pytest.mark.parametrize(
    "function",
    [yield_on_the_loop, yield_in_a_thread, functools.partial(yield_in_a_thread), Yielder()],
    ids=range(4),
)
def test_generator_handler_is_refused(function: Any) -> None:
    with pytest.raises(InvalidSetting, match="is a generator"):
        make_app("postgresql://nowhere/x").handler("jobs")(function)


@pytest.mark.parametrize("executor", ["proces", "", 5])
def test_unknown_executor_is_refused(executor: Any) -> None:
    with pytest.raises(InvalidSetting, match=r"executor is .*: use one of loop, thread, process"):
        make_app("postgresql://nowhere/x").handler("jobs", executor=executor)(print)


@pytest.mark.parametrize(
    "options",
    [
        {"max_attempts": 0},
        {"max_attempts": 2.5},
        {"backoff": -SECOND},
        {"backoff": 2},
        {"limit": None},
        {"factor": 0.5},
        {"factor": float("nan")},
        {"jitter": 2.0},
        {"jitter": "some"},
        {"on": "x"},
        {"on": (ValueError, "x")},
        {"on": [ValueError]},
        {"on": (int,)},
    ],
)
def test_invalid_policies_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        Retry(**options)


@pytest.mark.parametrize("delay", [timedelta.max, timedelta(days=365_251), -SECOND, 5])
def test_snooze_beyond_the_last_date_is_refused(delay: Any) -> None:
    with pytest.raises(InvalidSetting):
        Snooze(delay)


def test_retry_delays_stay_within_the_range_of_the_database() -> None:
    retry = Retry(backoff=timedelta.max, limit=timedelta.max, jitter=1)
    assert max(retry.wait(40) for _ in range(50)) <= LONGEST_TIME


def test_retry_delays_grow_up_to_the_limit() -> None:
    retry = Retry(backoff=SECOND, factor=3, limit=SECOND * 20, jitter=0)
    assert [retry.wait(n) for n in (1, 2, 3, 4, 5, 5000)] == [
        SECOND,
        SECOND * 3,
        SECOND * 9,
        SECOND * 20,
        SECOND * 20,
        SECOND * 20,
    ]
    assert Retry(factor=1e308, limit=SECOND * 20, jitter=0).wait(9) == SECOND * 20
    spread = {Retry(backoff=SECOND, jitter=0.5).wait(1) for _ in range(50)}
    assert len(spread) > 10
    assert min(spread) >= SECOND / 2
    assert max(spread) <= SECOND * 1.5


@pytest.mark.parametrize(
    "options",
    [
        {"heartbeat": timedelta(0)},
        {"drain": -SECOND},
        {"heartbeat": SECOND, "timeout": SECOND},
        {"heartbeat": 2},
        {"timeout": None},
    ],
)
def test_invalid_worker_settings_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting):
        WorkerSettings(**options)


async def test_metrics_can_be_read_whatever_the_queue_is_called() -> None:
    class Named:
        queue = 'say "\\hi\\"\n'

    async def proceed(_: object) -> None:
        pass

    metrics = Metrics()
    await metrics(Named(), proceed)  # type: ignore[arg-type]
    assert 'laneway_handler_seconds_count{queue="say \\"\\\\hi\\\\\\"\\n"} 1' in metrics.show()
