"""Producers and workers on one queue, and the responses each of them got."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from tests.protocol.servers import RunningServer

# While the database is away the server says so at once; nobody has to ask it all the time.
PAUSE = 0.02


class Load:
    """Adds, takes and acknowledges until told to stop or until nobody listens any more.

    added: ids the server answered for. unanswered: how many more may be there. settled: ids whose
    acknowledgement was answered. perhaps_settled: ids whose acknowledgement was not. held: ids of
    messages that were handed to us and not acknowledged. refused: answers of 503.
    """

    def __init__(self, server: RunningServer, queue: str, *, lease: int) -> None:
        self.added: set[str] = set()
        self.settled: set[str] = set()
        self.perhaps_settled: set[str] = set()
        self.held: set[str] = set()
        self.unanswered = 0
        self.refused = 0
        self._server = server
        self._queue = queue
        self._lease = lease
        self._name = uuid4().hex
        self._numbers = itertools.count(1)
        self._stopped = asyncio.Event()
        self._changed = asyncio.Event()

    @asynccontextmanager
    async def run(self, *, producers: int = 4, workers: int = 3) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(producers):
                tasks.create_task(self._keep(self._produce))
            for _ in range(workers):
                tasks.create_task(self._keep(self._work))
            yield
            self._stopped.set()

    async def reach(self, *, added: int, settled: int = 0) -> None:
        """Return once the server has answered `added` more enqueues and `settled` more acks."""
        added += len(self.added)
        settled += len(self.settled)
        async with asyncio.timeout(60):
            while len(self.added) < added or len(self.settled) < settled:
                self._changed.clear()
                await self._changed.wait()

    def merge(self, other: Load) -> None:
        """Take over what another load on the same queue was told."""
        self.added |= other.added
        self.settled |= other.settled
        self.perhaps_settled |= other.perhaps_settled
        self.held |= other.held
        self.unanswered += other.unanswered

    async def _keep(self, step: Callable[[httpx.AsyncClient], Awaitable[bool]]) -> None:
        async with self._server.client() as api:
            while not self._stopped.is_set():
                try:
                    served = await step(api)
                except httpx.TransportError:
                    return
                if not served:
                    self.refused += 1
                    await asyncio.sleep(PAUSE)
                self._changed.set()

    async def _produce(self, api: httpx.AsyncClient) -> bool:
        """Return whether the server was there for it."""
        number = next(self._numbers)
        messages = [
            {"type": "job", "payload": [self._name, number, place], "queue": self._queue}
            for place in range(5 if number % 4 == 0 else 1)
        ]
        self.unanswered += len(messages)
        if len(messages) == 1:
            answer = await api.post("/queue/message", json=messages[0])
        else:
            answer = await api.post("/queue/batch", json=messages)
        if answer.status_code == 503:
            return False
        assert answer.status_code == 201, answer.text
        body = answer.json()
        self.added.update(body["ids"] if "ids" in body else [body["id"]])
        self.unanswered -= len(messages)
        return True

    async def _work(self, api: httpx.AsyncClient) -> bool:
        taken = await api.get(
            "/queue/message",
            params={"queue": self._queue, "timeout": 30, "ackTimeout": self._lease},
        )
        if taken.status_code in {404, 503}:
            return taken.status_code == 404
        assert taken.status_code == 200, taken.text
        message = taken.json()
        message_id = message["id"]
        self.held.add(message_id)
        self.perhaps_settled.add(message_id)
        receipt = {"id": message_id, "lock_token": message["lock_token"]}
        acked = await api.post("/queue/ack", json=receipt)
        if acked.status_code == 503:
            return False
        # A lock that ran out on a slow machine is somebody else's by now.
        assert acked.status_code in {200, 400, 409}, acked.text
        self.held.discard(message_id)
        self.perhaps_settled.discard(message_id)
        if acked.status_code == 200:
            self.settled.add(message_id)
        return True


async def drain(api: httpx.AsyncClient, queue: str) -> list[dict[str, Any]]:
    """Take and acknowledge until nothing is left, and return all that came."""
    came: list[dict[str, Any]] = []
    wanted: dict[str, str | float] = {
        "queue": queue,
        "count": 100,
        "timeout": 0.5,
        "ackTimeout": 600,
    }
    async with asyncio.timeout(60):
        while True:
            answer = await api.get("/queue/messages/batch", params=wanted)
            assert answer.status_code == 200, answer.text
            messages = answer.json()["messages"]
            if messages:
                came += messages
                acks = [{"id": each["id"], "lock_token": each["lock_token"]} for each in messages]
                answer = await api.post("/queue/ack/batch", json={"acks": acks})
                assert answer.json()["failed"] == []
            elif await count_unsettled(api, queue) == 0:
                return came


async def count_unsettled(api: httpx.AsyncClient, queue: str) -> int:
    status = (await api.get("/queue/status", params={"queueName": queue})).json()
    waiting: int = status["mainQueue"]["length"]
    processing: int = status["processingQueue"]["length"]
    return waiting + processing


def check_account(load: Load, came: list[dict[str, Any]]) -> None:
    """Hold what is left against what the server had answered."""
    times = Counter(message["id"] for message in came)
    bodies = Counter(tuple(message["payload"]) for message in came)
    assert max(times.values(), default=1) == 1, "a message came twice"
    assert max(bodies.values(), default=1) == 1, "a message was stored twice"
    assert load.added - load.settled - load.perhaps_settled <= times.keys(), "a message was lost"
    assert not load.settled & times.keys(), "an acknowledged message came back"
    extra = times.keys() - load.added
    assert len(extra) <= load.unanswered, "there are messages that nobody added"
