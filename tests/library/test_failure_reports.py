"""A failure of a handler, a step or a run is logged once, and its traceback is stored."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import laneway
from laneway import PartialFailure, Reject, Retry, RetryAfter, Status, step
from laneway.domain.settings import QueueSettings
from laneway.errors import RunFailed
from tests.library.workers import listed, make_app, running, until

if TYPE_CHECKING:
    from laneway import Connection, Message
    from laneway.domain.ids import MessageId
    from tests.library.conftest import Place
    from tests.library.shell import Shell

AT_ONCE = Retry(max_attempts=2, backoff=timedelta(0))
LONG = timedelta(minutes=5)


def errors(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.levelno == logging.ERROR]


async def test_failed_handler_logs_its_attempts_and_keeps_the_traceback(
    lane: Connection, address: str, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(address)

    @app.handler(queue, retry=AT_ONCE)
    async def handle(_: Message) -> None:
        {}["boom"]  # type: ignore[index]

    message_id = await lane.producer(queue).enqueue(1)
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    first, second = errors(caplog)
    start = f"message {message_id} of queue {queue} failed, attempt"
    assert first.getMessage() == f"{start} 1 of 2, next try in 0.0 s: KeyError: 'boom'"
    assert second.getMessage() == f"{start} 2 of 2, dead-lettered: KeyError: 'boom'"
    assert {record.exc_info is not None for record in (first, second)} == {True}
    summary, head, *frames = str(dead.error).splitlines()
    assert (summary, head) == ("KeyError: 'boom'", "Traceback (most recent call last):")
    assert "in handle" in frames[0]
    assert not any("/laneway/worker/" in line for line in frames)


async def test_timeout_keeps_where_the_handler_was(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    async def wait_forever() -> None:
        await asyncio.Event().wait()

    @app.handler(queue, timeout=timedelta(milliseconds=50), retry=Retry(max_attempts=1))
    async def handle(_: Message) -> None:
        await wait_forever()

    await lane.producer(queue).enqueue(1)
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    assert str(dead.error).startswith("TimeoutError: the handler took longer than 0.05 s\n")
    assert "in wait_forever" in str(dead.error)


def fail_deeply(depth: int) -> None:
    if depth:
        fail_deeply(depth - 1)
    raise ValueError("deep " * 10_000)


async def test_long_traceback_is_shortened(lane: Connection, address: str, queue: str) -> None:
    app = make_app(address)

    @app.handler(queue, retry=Retry(max_attempts=1))
    def handle(_: Message) -> None:
        fail_deeply(500)

    await lane.producer(queue).enqueue(1)
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    assert len(str(dead.error)) < 7000
    assert "in fail_deeply" in str(dead.error)


@dataclass
class PaymentFailed(Exception):
    """Like any dataclass, one with no hash."""

    code: int


async def test_error_without_a_hash_is_nacked_and_logged_once(
    lane: Connection, address: str, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(address)

    @app.handler(queue, retry=Retry(max_attempts=1))
    async def handle(_: Message) -> None:
        raise PaymentFailed(402)

    await lane.producer(queue).enqueue(1)
    async with running(app):
        await until(lambda: listed(lane, queue, Status.DEAD, 1))
    (line,) = errors(caplog)
    assert "attempt 1 of 1, dead-lettered: PaymentFailed" in line.getMessage()


async def test_intended_failures_have_no_traceback(
    lane: Connection, address: str, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(address)

    @app.handler(queue)
    async def handle(message: Message) -> None:
        raise Reject("no such customer") if message.payload else RetryAfter(LONG, "busy")

    await lane.producer(queue).batch_enqueue([0, 1])
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
        (busy,) = await until(lambda: listed(lane, queue, Status.QUEUED, 1))
    assert (dead.error, busy.error) == ("no such customer", "RetryAfter: busy")
    messages = sorted(record.getMessage() for record in errors(caplog))
    assert messages[0].endswith("attempt 1 of 3, next try in 300.0 s: RetryAfter: busy")
    assert messages[1].endswith("attempt 1 of 3, dead-lettered: no such customer")


async def test_failed_batch_logs_one_line(
    lane: Connection, address: str, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(address)

    @app.handler(queue, batch=10, concurrency=1, retry=Retry(max_attempts=1))
    async def handle(_: list[Message]) -> None:
        raise ValueError("all")

    await lane.producer(queue).batch_enqueue(range(5))
    async with running(app):
        await until(lambda: listed(lane, queue, Status.DEAD, 5))
    (line,) = errors(caplog)
    assert " and 2 more of queue " in line.getMessage()


async def test_part_of_a_batch_logs_its_own_reason(
    lane: Connection, address: str, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(address)

    @app.handler(queue, batch=10, concurrency=1, retry=Retry(max_attempts=1))
    async def handle(messages: list[Message]) -> None:
        reasons: dict[MessageId, str | BaseException] = {
            messages[0].id: "odd",
            messages[1].id: ValueError("even"),
        }
        raise PartialFailure(reasons)

    await lane.producer(queue).batch_enqueue(range(3))
    async with running(app):
        await until(lambda: listed(lane, queue, Status.DEAD, 2))
    messages = sorted(
        record.getMessage().rpartition("dead-lettered: ")[2] for record in errors(caplog)
    )
    assert messages == ["ValueError: even", "odd"]


async def test_error_with_unpaired_surrogates_is_logged(
    lane: Connection, address: str, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(address)

    @app.handler(queue, retry=Retry(max_attempts=1))
    async def handle(_: Message) -> None:
        raise ValueError("\ud800")

    await lane.producer(queue).enqueue(1)
    async with running(app):
        await until(lambda: listed(lane, queue, Status.DEAD, 1))
    (line,) = errors(caplog)
    assert line.getMessage().endswith("dead-lettered: ValueError: ?")


async def test_dead_letter_names_the_limit_that_applied(
    place: Place, lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    @app.handler(queue, retry=AT_ONCE)
    async def handle(_: Message) -> None:
        raise ValueError("no")

    message_id = await lane.producer(queue).enqueue(1)
    async with running(app):
        (dead,) = await until(lambda: listed(lane, queue, Status.DEAD, 1))
    assert (dead.attempt, dead.max_attempts) == (2, 2)
    async with httpx.AsyncClient(base_url=f"{place.url}/api") as api:
        listing = await api.get("/queue/dead/messages", params={"queueName": queue})
        (row,) = listing.json()["messages"]
        assert (row["attempt_count"], row["max_attempts"]) == (2, 2)
        assert row["last_error"] == dead.error
        history = (await api.get(f"/queue/activity/message/{message_id}")).json()["history"]
        (death,) = [entry for entry in history if entry["action"] == "move_to_dlq"]
        assert (death["max_attempts"], death["attempts_remaining"]) == (2, 0)
        edited = await api.put(
            f"/queue/message/{message_id}", params={"queueType": "dead"}, json={"max_attempts": 7}
        )
        assert edited.json()["data"]["max_attempts"] == 7
    await lane.admin.dlq_redrive(queue)
    (again,) = await lane.admin.messages(queue)
    assert again.max_attempts == 7


async def test_new_queue_retries_with_growing_delays(lane: Connection, address: str) -> None:
    assert (QueueSettings().max_attempts, QueueSettings().backoff) == (5, timedelta(seconds=1))
    name = f"growing-{'server' if address.startswith('http') else 'database'}"
    await lane.admin.create_queue(name)
    await lane.producer(name).enqueue(1)
    consumer = lane.consumer(name)
    spans = []
    for _ in range(3):
        (message,) = await consumer.dequeue_at(await lane.backend.ping() + LONG, n=1)
        before = await lane.backend.ping()
        await consumer.nack(message, "no")
        (row,) = await lane.admin.messages(name)
        assert row.available_at is not None
        spans.append((row.available_at - before).total_seconds())
    for span, wanted in zip(spans, (1, 2, 4), strict=True):
        assert wanted * 0.9 <= span < wanted * 1.1 + 0.5


async def test_handler_waits_between_attempts_where_the_queue_has_no_backoff(
    lane: Connection, address: str, queue: str, caplog: pytest.LogCaptureFixture
) -> None:
    app = make_app(address)

    @app.handler(queue)
    async def handle(_: Message) -> None:
        raise ValueError("no")

    await lane.producer(queue).enqueue(1)
    async with running(app):
        await until(lambda: logged(caplog))
    (row,) = await lane.admin.messages(queue)
    assert row.attempt == 1
    assert row.available_at is not None
    assert row.available_at - row.created_at > timedelta(seconds=0.9)


async def logged(caplog: pytest.LogCaptureFixture) -> bool:
    return bool(errors(caplog))


@step(retry=AT_ONCE)
async def charge() -> None:
    raise KeyError("card")


@step
async def pay_twice() -> None:
    """Fail once, by a step inside this one, which is tried once."""
    _CALLS.append(1)
    await inner()


@step
async def inner() -> None:
    _CALLS.append(2)
    if len(_CALLS) < 4:
        raise RetryAfter(timedelta(0))


_CALLS: list[int] = []


async def test_failed_step_and_run_are_logged_and_keep_their_tracebacks(
    lane: Connection,
    address: str,
    queue: str,
    shell: Shell,
    caplog: pytest.LogCaptureFixture,
) -> None:
    app = make_app(address)
    name = f"checkout-{queue}"

    @app.workflow(name=name, queue=queue)
    async def checkout() -> None:
        try:
            await charge()
        except KeyError:
            await laneway.sleep(timedelta(0))
        raise ValueError("not paid")

    async with running(app):
        run = await lane.start(name, queue=queue)
        with pytest.raises(RunFailed) as failed:
            await run.result(timedelta(seconds=20))
    assert str(failed.value) == f"workflow run {run.run_id} failed: ValueError: not paid"
    assert "in checkout" in failed.value.__notes__[0]
    info = await run.info()
    assert str(info.error).startswith("ValueError: not paid\nTraceback (most recent call last):")
    messages = [record.getMessage() for record in errors(caplog)]
    start = f"step charge#1 of run {run.run_id} failed, attempt"
    assert messages == [
        f"{start} 1 of 2, next try in 0.0 s: KeyError: 'card'",
        f"{start} 2 of 2, no further try: KeyError: 'card'",
        f"run {run.run_id} of workflow {name} failed: ValueError: not paid",
    ]
    shown = await asyncio.to_thread(shell.run, "workflow", "get", run.run_id)
    assert "in checkout" in shown.stdout
    charged, _ = await run.steps()
    assert str(charged.error).startswith("KeyError: 'card'")
    found = await asyncio.to_thread(shell.json, "workflow", "get", run.run_id)
    assert (found["steps"], found["failed_steps"]) == (["sleep#1"], ["charge#1"])


async def test_stored_error_of_a_step_has_its_traceback(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)
    name = f"handled-{queue}"

    @app.workflow(name=name, queue=queue)
    async def handled() -> str:
        try:
            await charge()
        except KeyError:
            return "told"
        return "paid"

    async with running(app):
        run = await lane.start(name, queue=queue)
        assert await run.result(timedelta(seconds=20)) == "told"
    (failed,) = await run.steps()
    assert failed.step == "charge#1"
    assert str(failed.error).startswith("KeyError: 'card'\nTraceback (most recent call last):")
    assert "in charge" in str(failed.error)


async def test_step_inside_a_step_is_retried_with_the_outer_step(
    lane: Connection, address: str, queue: str
) -> None:
    _CALLS.clear()
    app = make_app(address)
    name = f"nested-{queue}"

    @app.workflow(name=name, queue=queue)
    async def nested() -> None:
        await pay_twice()

    async with running(app):
        run = await lane.start(name, queue=queue)
        await run.result(timedelta(seconds=20))
    assert _CALLS == [1, 2, 1, 2]


async def test_commands_show_the_error_and_its_traceback(
    lane: Connection, queue: str, shell: Shell
) -> None:
    await lane.producer(queue).enqueue(1)
    consumer = lane.consumer(queue)
    message: Any = await consumer.dequeue()
    await consumer.nack(message, "KeyError: 'boom'\nTraceback:\n  \x1b[31mred", dead=True)
    for command in (["queue", "messages", queue, "--status", "dead"], ["dlq", "list", queue]):
        plain = await asyncio.to_thread(shell.run, *command)
        assert "KeyError: 'boom'" in plain.stdout
        assert "Traceback" not in plain.stdout
        full = await asyncio.to_thread(shell.run, *command, "--traceback")
        assert f"{message.id}: KeyError: 'boom'\nTraceback:\n  \\x1b[31mred\n" in full.stdout
        (row,) = await asyncio.to_thread(shell.json, *command)
        assert row["error"].endswith("red")
