"""Tests of an app: run its handlers without a database, or its worker until the queues are empty.

`inline` records what is enqueued instead of storing it. It does not imitate the broker: nothing is
deduplicated, delayed, retried or delivered. `drain` runs a real worker on a real database.
"""

from __future__ import annotations

import asyncio
import json
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from uuid import UUID

from laneway.domain.errors import InvalidRequest
from laneway.domain.messages import Delivery, Pushed
from laneway.domain.queues import DEFAULT_GROUP
from laneway.library.connection import Connection, Target
from laneway.library.messages import Message, encode_payload
from laneway.worker.handlers import finish, wrap

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from laneway.domain.backend import Backend
    from laneway.domain.messages import OutgoingMessage
    from laneway.worker.app import App
    from laneway.worker.handlers import Handler

# Nothing connects to it.
_NOWHERE = "postgresql://nowhere"
_TOKEN = UUID(int=0)

# Between two looks at the queues, in seconds.
_PAUSE = 0.02


class Enqueued(NamedTuple):
    """A message that was enqueued."""

    queue: str
    payload: Any
    priority: int
    delay: timedelta | None
    dedup_key: str | None
    partition: str
    headers: Mapping[str, Any]


class Started(NamedTuple):
    """A workflow run that was started."""

    workflow: str
    arguments: list[Any]
    run_id: str


class Inline:
    """Runs an app's handlers in the test, and records what they enqueue and start.

    connection: records too, for code that takes one. enqueued, started: in order.
    """

    def __init__(self, app: App, recorder: _Recorder, connection: Connection) -> None:
        self.connection = connection
        self.enqueued = recorder.enqueued
        self.started = recorder.started
        self._app = app
        self._delivered = 0

    async def run(
        self,
        queue: str,
        payload: Any,
        *,
        priority: int = 0,
        partition: str = "",
        headers: Mapping[str, Any] | None = None,
        attempt: int = 1,
    ) -> Any:
        """Run the queue's handler with a message, within the app's middlewares; return its result.

        An error of the handler is raised as it is. Its timeout and retry policy do not apply.
        """
        handler = self._find(queue, partition)
        self._delivered += 1
        now = datetime.now(UTC)
        message = Message(
            queue,
            Delivery(
                token=_TOKEN,
                segment=1,
                lane=1,
                seq=self._delivered,
                partition=partition,
                priority=priority,
                attempt=attempt,
                created_at=now,
                until=now + timedelta(minutes=1),
                lease=None,
                max_attempts=None,
                dedup_key=None,
                headers=None if headers is None else encode_payload(headers),
                body=encode_payload(payload),
            ),
            handler.group,
        )
        message.is_tracked = True
        call = wrap(_make_call(handler), self._app.middlewares)
        return await call(message if handler.batch is None else [message])

    def assert_enqueued(self, queue: str, payload: Any, **fields: Any) -> Enqueued:
        """Return the first message of this queue and payload; raise AssertionError if there is none.

        fields: what else it must have, such as priority=5.
        """
        for each in self.enqueued:
            if each.queue == queue and each.payload == payload and _has(each, fields):
                return each
        listed = "\n".join(f"  {each}" for each in self.enqueued) or "  nothing"
        wanted = "".join(f", {name}={value!r}" for name, value in fields.items())
        raise AssertionError(
            f'{payload!r}{wanted} was not enqueued to "{queue}"; enqueued:\n{listed}'
        )

    def assert_started(self, workflow: str, *arguments: Any) -> Started:
        """Return the first run of this workflow and arguments; raise AssertionError if there is none."""
        for each in self.started:
            if each.workflow == workflow and each.arguments == list(arguments):
                return each
        listed = "\n".join(f"  {each}" for each in self.started) or "  nothing"
        raise AssertionError(
            f'workflow "{workflow}" was not started with {list(arguments)!r}; started:\n{listed}'
        )

    def _find(self, queue: str, partition: str) -> Handler:
        found = [
            handler
            for handler in self._app.handlers
            if handler.queue == queue and handler.partition in {None, partition}
        ]
        if len(found) != 1:
            raise InvalidRequest(
                f'{len(found)} handlers of queue "{queue}", partition "{partition}": name a queue and'
                " partition that one handler has"
            )
        return found[0]


@contextmanager
def inline(app: App) -> Iterator[Inline]:
    """Let a test run the app's handlers without a database; `app.connection` records what is enqueued."""
    recorder = _Recorder()
    target, backend = Target(address=_NOWHERE), cast("Backend", recorder)
    with app.bind(target, backend):
        yield Inline(app, recorder, Connection(target, backend))


async def drain(app: App, *, address: str | None = None) -> None:
    """Run a worker of the app until its queues have no message ready or in flight, then stop it.

    Delayed messages, among them those that wait for a retry, stay in their queues.
    """
    worker = app.worker(address=address)
    running = asyncio.create_task(worker.run())
    try:
        async with app.connect(address) as connection:
            started = asyncio.create_task(worker.running.wait())
            await asyncio.wait({running, started}, return_when=asyncio.FIRST_COMPLETED)
            started.cancel()
            while not running.done() and not await _is_drained(app, connection):
                await asyncio.wait({running}, timeout=_PAUSE)
    finally:
        worker.stop()
        await running


async def _is_drained(app: App, connection: Connection) -> bool:
    groups = {(handler.queue, handler.group) for handler in app.handlers}
    # In one call, as of one moment: a handler may enqueue to the queue of another.
    found = [
        each
        for each in await connection.admin.all_queues_metrics()
        if (each.queue, DEFAULT_GROUP) in groups
    ]
    for queue, group in groups:
        if group != DEFAULT_GROUP:
            found.append(await connection.admin.queue_metrics(queue, group=group))
    return not any(each.pending - each.delayed or each.locked for each in found)


class _Recorder:
    """The calls of a backend that enqueue; any other fails."""

    def __init__(self) -> None:
        self.enqueued: list[Enqueued] = []
        self.started: list[Started] = []
        self.workflows = _Runs(self.started)

    def __getattr__(self, name: str) -> Any:
        raise InvalidRequest(
            f'"{name}" is not recorded: use a database for this test, and laneway.testing.drain'
        )

    async def push(self, queue: str, messages: Sequence[OutgoingMessage]) -> list[Pushed]:
        self.enqueued += [
            Enqueued(
                queue,
                json.loads(message.body),
                message.priority,
                message.delay,
                message.dedup_key,
                message.partition,
                {} if message.headers is None else json.loads(message.headers),
            )
            for message in messages
        ]
        last = len(self.enqueued)
        return [Pushed(1, 1, last - n, duplicate=False) for n in reversed(range(len(messages)))]


class _Runs:
    def __init__(self, started: list[Started]) -> None:
        self._started = started

    def __getattr__(self, name: str) -> Any:
        raise InvalidRequest(
            f'"{name}" is not recorded: use a database for this test, and laneway.testing.drain'
        )

    async def start_run(self, run_id: str, *, name: str, arguments: str, **_: Any) -> bool:
        self._started.append(Started(name, json.loads(arguments), run_id))
        return True


def _make_call(handler: Handler) -> Any:
    if handler.executor == "loop":
        return handler.function

    async def call(work: Any) -> Any:
        return await finish(await asyncio.to_thread(handler.function, work))

    return call


def _has(each: Enqueued, fields: Mapping[str, Any]) -> bool:
    strange = fields.keys() - set(Enqueued._fields)
    if strange:
        raise InvalidRequest(
            f"{', '.join(sorted(strange))} are no fields of a message: use"
            f" {', '.join(Enqueued._fields[2:])}"
        )
    return all(getattr(each, name) == value for name, value in fields.items())
