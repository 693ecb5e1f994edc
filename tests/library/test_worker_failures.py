"""Whatever a handler raises, its message is nacked and the worker continues."""

from __future__ import annotations

import asyncio
import copy
import sys
import threading
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Never

import pytest

from laneway import App, PartialFailure, Retry, RetryAfter, Snooze, Status, WorkerSettings
from laneway.domain.errors import InternalError, InvalidSetting, RateLimited
from laneway.domain.ids import MessageId
from laneway.worker.runner import Runner
from tests.library.workers import (
    QUICK,
    listed,
    make_app,
    program,
    reason,
    running,
    settled,
    until,
)

if TYPE_CHECKING:
    from pathlib import Path

    from laneway import Connection, Message
    from tests.library.conftest import Place

ONCE = Retry(max_attempts=1)
AT_ONCE = Retry(backoff=timedelta(0), max_attempts=2)


class Unreadable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


async def raise_cancelled() -> None:
    raise asyncio.CancelledError


async def await_cancelled() -> None:
    task = asyncio.create_task(asyncio.sleep(60))
    task.cancel()
    await task


async def cancel_itself() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()
    await asyncio.sleep(60)


async def raise_unreadable() -> None:
    raise Unreadable


async def raise_base() -> None:
    raise BaseException("base")  # noqa: TRY002 - as a handler might


async def leave() -> None:
    sys.exit(3)


async def interrupt() -> None:
    raise KeyboardInterrupt


async def snooze_wrongly() -> None:
    raise Snooze(5)  # type: ignore[arg-type]


WAYS = [
    (raise_cancelled, "CancelledError"),
    (await_cancelled, "CancelledError"),
    (cancel_itself, "CancelledError"),
    (raise_unreadable, "Unreadable: (str() of the error failed)"),
    (raise_base, "BaseException: base"),
    (leave, "SystemExit: 3"),
    (interrupt, "KeyboardInterrupt"),
    (
        snooze_wrongly,
        "InvalidSetting: a snooze: delay is 5: use a timedelta, such as timedelta(seconds=5)",
    ),
]


async def test_any_exception_of_a_handler_nacks_and_the_worker_continues(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    @app.handler(queue, concurrency=2, retry=AT_ONCE)
    async def handle(message: Message) -> None:
        if message.payload is not None:
            await WAYS[message.payload][0]()

    await lane.producer(queue).batch_enqueue([*range(len(WAYS)), None])
    async with running(app):
        dead = await until(lambda: listed(lane, queue, Status.DEAD, len(WAYS)))
        await until(lambda: settled(lane, queue, 1))
    reasons = {int(item.body): reason(item) for item in dead}
    assert [reasons[n] for n in range(len(WAYS))] == [text for _, text in WAYS]
    assert {item.attempt for item in dead} == {2}


class TooMany(Exception):
    def __init__(self, retry_after: object) -> None:
        super().__init__("too many requests")
        self.retry_after = retry_after


@pytest.mark.parametrize(
    "error",
    [
        RetryAfter(timedelta(minutes=30), "busy"),
        TooMany(timedelta(minutes=30)),
        TooMany(1800),
        RateLimited("too fast", retry_after=timedelta(minutes=30)),
    ],
)
@pytest.mark.parametrize("retry", [None, AT_ONCE])
async def test_retry_follows_the_delay_that_an_error_asks_for(
    lane: Connection, address: str, queue: str, error: Exception, retry: Retry | None
) -> None:
    app = make_app(address)

    @app.handler(queue, retry=retry)
    async def handle(_: Message) -> None:
        raise error

    await lane.producer(queue).enqueue(1)
    async with running(app):
        await until(lambda: delayed(lane, queue))
    (row,) = await lane.admin.messages(queue)
    assert row.attempt == 1
    assert row.available_at is not None
    left = row.available_at - await lane.backend.ping()
    assert timedelta(minutes=20) < left <= timedelta(minutes=30)


async def delayed(lane: Connection, queue: str) -> int:
    return (await lane.admin.queue_metrics(queue)).delayed


@pytest.mark.parametrize("asked", ["10", None, True, float("nan"), float("inf"), -5, object()])
async def test_error_that_asks_for_no_usable_delay_follows_the_policy(
    lane: Connection, address: str, queue: str, asked: object
) -> None:
    app = make_app(address)

    @app.handler(queue, retry=AT_ONCE)
    async def handle(_: Message) -> None:
        raise TooMany(asked)

    await lane.producer(queue).enqueue(1)
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    assert (dead.attempt, reason(dead)) == (2, "TooMany: too many requests")


def test_retry_after_needs_a_delay() -> None:
    for delay in (5, timedelta(-1)):
        with pytest.raises(InvalidSetting, match="a RetryAfter"):
            RetryAfter(delay)  # type: ignore[arg-type]
    assert copy.copy(RetryAfter(timedelta(1), "busy")).args == ("busy",)


def leave_thread(message: Message) -> None:
    if message.payload != "good":
        raise {
            "exit": SystemExit(3),
            "stop": StopIteration("x"),
            "cancel": asyncio.CancelledError(),
        }[message.payload]


@pytest.mark.parametrize("executor", ["thread", "process"])
async def test_handler_that_exits_its_thread_or_process_has_failed(
    place: Place, queue: str, executor: Any
) -> None:
    app = make_app(place.dsn)
    app.handler(queue, executor=executor, concurrency=1, retry=ONCE)(leave_thread)
    async with app.connect() as lane, running(app):
        await lane.producer(queue).batch_enqueue(["exit", "stop", "cancel", "good"])
        dead = await until(lambda: listed(lane, queue, Status.DEAD, 3))
        await until(lambda: settled(lane, queue, 1))
    reasons = sorted(reason(item) for item in dead)
    assert reasons[0].startswith("CancelledError")
    assert reasons[1].startswith("RuntimeError: the handler raised StopIteration")
    assert reasons[2] == "SystemExit: 3"


class Two(Exception):
    """Cannot be unpickled: it is made of two things, and keeps one."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"{code} {text}")
        self.lock = threading.Lock()


class Told(Exception):
    """Unpickled, it would say something else."""

    def __init__(self, text: str) -> None:
        super().__init__(f"told: {text}")


class Late(Snooze):
    def __init__(self, why: str, seconds: int) -> None:
        super().__init__(timedelta(seconds=seconds))
        self.why = why


_SNOOZED: set[str] = set()


def fail_in_process(message: Message) -> object:
    class Local(Exception):
        pass

    match message.payload:
        case "two":
            raise Two(5, "not now")
        case "told":
            raise Told("no")
        case "local":
            raise Local("here only")
        case "result":
            return lambda: None
        case "snooze" | "late" as way if way not in _SNOOZED:
            _SNOOZED.add(way)
            raise Snooze(timedelta(0)) if way == "snooze" else Late("busy", 0)
    return message.attempt


async def test_exception_in_a_process_is_reported_to_the_worker(place: Place, queue: str) -> None:
    app = make_app(place.dsn)
    retry = Retry(backoff=timedelta(0), max_attempts=2, on=(Two, Told))
    app.handler(
        queue, executor="process", concurrency=1, retry=retry, keep_results=timedelta(minutes=1)
    )(fail_in_process)
    async with app.connect() as lane, running(app):
        producer = lane.producer(queue)
        snoozed = await producer.batch_enqueue(["snooze", "late"])
        await producer.batch_enqueue(["two", "told", "local", "result"])
        dead = await until(lambda: listed(lane, queue, Status.DEAD, 4))
        await until(lambda: settled(lane, queue, 2))
        assert [await lane.job_result(message) for message in snoozed] == [1, 1]
    found = {item.body: (item.attempt, reason(item)) for item in dead}
    assert found['"two"'] == (2, "Two: 5 not now")
    assert found['"told"'] == (2, "Told: told: no")
    assert found['"local"'] == (1, "Local: here only")
    assert "pickle" in found['"result"'][1]


def test_control_exceptions_can_be_pickled() -> None:
    snooze = copy.copy(Snooze(timedelta(seconds=3)))
    assert (str(snooze), snooze.delay) == ("delivered again in 0:00:03", timedelta(seconds=3))
    reasons: dict[str, str | BaseException] = {"1-2-3": Two(5, "now"), "1-2-4": "so"}
    failure = copy.copy(PartialFailure(reasons))
    assert str(failure) == "2 messages of the batch failed"
    assert failure.failures == {"1-2-3": "Two: 5 now", "1-2-4": "so"}


class Broken(Retry):
    def wait(self, attempt: int) -> Never:
        raise ZeroDivisionError(f"after {attempt}")


async def test_failing_retry_policy_falls_back_to_the_queue(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    @app.handler(queue, concurrency=1, retry=Broken())
    async def handle(message: Message) -> None:
        if message.payload == "bad" and message.attempt == 1:
            raise ValueError("x")

    await lane.producer(queue).batch_enqueue(["bad", "good"])
    async with running(app):
        await until(lambda: settled(lane, queue, 2))


@pytest.mark.parametrize("retry", [3, "often", timedelta(1)])
def test_invalid_retry_is_refused(retry: Any) -> None:
    app = App("postgresql://nowhere/nothing")
    with pytest.raises(InvalidSetting, match=r"handle: retry is .*: use a laneway.Retry"):

        @app.handler("queue", retry=retry)
        async def handle(_: Message) -> None: ...


async def test_parts_of_a_batch_may_be_named_by_text_and_fail_with_errors(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    @app.handler(queue, batch=10, concurrency=1, retry=ONCE)
    async def handle(messages: list[Message]) -> None:
        raise PartialFailure(
            {str(item.id): ValueError("odd") for item in messages if item.payload % 2}
        )

    await lane.producer(queue).batch_enqueue(range(4))
    async with running(app):
        dead = await until(lambda: listed(lane, queue, Status.DEAD, 2))
        await until(lambda: settled(lane, queue, 2))
    assert [reason(item) for item in dead] == ["ValueError: odd"] * 2
    assert (await lane.admin.queue_metrics(queue)).acknowledged == 2


async def test_partial_failure_of_messages_not_in_the_batch_acknowledges_nothing(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    @app.handler(queue, batch=10, concurrency=1, retry=ONCE)
    async def handle(messages: list[Message]) -> None:
        raise PartialFailure({messages[0].id: "this one", MessageId(9, 9, 9): "nobody's"})

    await lane.producer(queue).batch_enqueue(range(3))
    async with running(app):
        dead = await until(lambda: listed(lane, queue, Status.DEAD, 3))
    assert (await lane.admin.queue_metrics(queue)).acknowledged == 0
    assert {"9-9-9" in str(item.error) for item in dead} == {True}


async def test_worker_ends_with_an_error_when_one_of_its_tasks_ends(
    address: str, queue: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = make_app(address)

    @app.handler(queue)
    async def handle(_: Message) -> None: ...

    async def claim(_: Runner) -> None:
        raise ZeroDivisionError("a fault of the worker's own")

    monkeypatch.setattr(Runner, "_claim", claim)
    with pytest.raises(InternalError, match="ended unexpectedly: ZeroDivisionError"):
        async with asyncio.timeout(20):
            await app.worker().run()


# Leaves from a task of the handler's own, which asyncio would let end the program.
LEAVING = """
import asyncio, sys
from datetime import timedelta
import laneway
app = laneway.App(sys.argv[1], worker=laneway.WorkerSettings(
    heartbeat=timedelta(seconds=0.1), drain=timedelta(seconds=0.5)))

async def leave(code):
    sys.exit(code)

@app.handler(sys.argv[2], concurrency=2, retry=laneway.Retry(max_attempts=1))
async def handle(message):
    print(message.payload, flush=True)
    if message.payload == "leave":
        await asyncio.gather(leave(7), asyncio.sleep(0))
    while message.payload == "stay":
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass

app.run()
print("over", flush=True)
"""


async def test_task_of_a_handler_neither_ends_nor_blocks_the_program(
    lane: Connection, address: str, queue: str, tmp_path: Path
) -> None:
    async with program(LEAVING, address, queue, folder=tmp_path) as working:
        assert working.stdout is not None
        await lane.producer(queue).enqueue("leave")
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
        assert reason(dead) == "SystemExit: 7"
        await lane.producer(queue).enqueue("good")
        await until(lambda: settled(lane, queue, 1))
        # One that does not let itself be cancelled is given up when the drain is over.
        await lane.producer(queue).enqueue("stay")
        seen = b""
        while b"stay" not in seen:
            seen += await working.stdout.readline()
        working.terminate()
        async with asyncio.timeout(20):
            assert await working.wait() == 0
            assert await working.stdout.read() == b"over\n"
    (again,) = await lane.consumer(queue).dequeue_many(1, wait=timedelta(seconds=10))
    assert again.attempt == 1


async def test_handler_that_ignores_cancellation_does_not_block_the_worker(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(
        address, worker=WorkerSettings(heartbeat=QUICK.heartbeat, drain=timedelta(seconds=0.2))
    )
    begun, swallowed, end = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @app.handler(queue)
    async def handle(_: Message) -> None:
        begun.set()
        while not end.is_set():
            try:
                await end.wait()
            except asyncio.CancelledError:
                swallowed.set()

    await lane.producer(queue).enqueue(1)
    async with running(app):
        await begun.wait()
    assert swallowed.is_set()
    # What it does afterwards is nobody's business any more.
    (again,) = await lane.consumer(queue).dequeue_many(1, wait=timedelta(seconds=10))
    end.set()
    assert again.attempt == 1
    assert await lane.consumer(queue).delete(again)
