"""Registration of a connection's long-lived producers and consumers as workers, with heartbeats."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from contextlib import suppress
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakSet

from laneway.domain.errors import BrokerClosed, LanewayError, WorkerNotFound
from laneway.domain.workers import WorkerIdentity, WorkerState

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from laneway.domain.backend import Backend
    from laneway.domain.workers import WorkerKind

logger = logging.getLogger(__name__)

# What lives shorter is not registered, so short scripts send nothing. In seconds.
AFTER = 30.0
HEARTBEAT = 15.0
TIMEOUT = timedelta(minutes=1)

# How long signing off may take when the connection is closed, in seconds.
PATIENCE = 2.0


class Client:
    """A producer or consumer, as it is registered. handled: messages enqueued or dequeued."""

    def __init__(self, kind: WorkerKind, client_id: str, queue: str) -> None:
        self.kind = kind
        self.id = client_id
        self.queue = queue
        self.handled = 0
        self.since = monotonic()


class Presence:
    """Registers the clients that are used for longer than AFTER, until they or the connection end.

    Each heartbeat is one call for each of them. Their own calls take no longer.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        # Weak, because a program may create a producer for each message.
        self._clients: WeakSet[Client] = WeakSet()
        self._registered: set[str] = set()
        self._task: asyncio.Task[None] | None = None

    def use(self, client: Client, messages: int) -> None:
        """Note that a client has enqueued or dequeued messages."""
        client.handled += messages
        self._clients.add(client)
        if self._task is None:
            self._task = asyncio.create_task(self._run(), name="laneway presence")

    async def close(self) -> None:
        """End the heartbeats, and sign off what is registered."""
        if self._task is None:
            return
        self._task.cancel()
        await asyncio.wait({self._task})
        with suppress(TimeoutError, LanewayError):
            async with asyncio.timeout(PATIENCE):
                for client_id in sorted(self._registered):
                    await self._sign_off(client_id)

    async def _run(self) -> None:
        await asyncio.sleep(AFTER)
        while True:
            try:
                await self._beat_all()
            except BrokerClosed:
                return
            await asyncio.sleep(HEARTBEAT)

    async def _beat_all(self) -> None:
        """Send the heartbeats, and sign off the clients that are gone."""
        for client in list(self._clients):
            if monotonic() - client.since >= AFTER:
                await self._try(client.id, self._beat(client))
        for client_id in self._registered - {client.id for client in self._clients}:
            await self._try(client_id, self._sign_off(client_id))

    async def _try(self, client_id: str, call: Awaitable[None]) -> None:
        """Make a call that may fail without an effect on the other clients."""
        try:
            await call
        except BrokerClosed:
            raise
        except LanewayError as error:
            logger.debug("%s cannot send its heartbeat: %s", client_id, error)

    async def _beat(self, client: Client) -> None:
        if client.id not in self._registered:
            await self._register(client)
        try:
            order = await self._backend.workers.record_heartbeat(
                client.id, handled=client.handled, failed=0
            )
        except WorkerNotFound:
            # It was silent for so long that it was purged.
            await self._register(client)
            return
        if order.state is WorkerState.STOPPED:
            # It was silent for too long, or another connection signed off under the same name.
            await self._register(client)

    async def _register(self, client: Client) -> None:
        await self._backend.workers.register(
            WorkerIdentity(
                client.id,
                client.kind,
                socket.gethostname(),
                os.getpid(),
                [client.queue],
                TIMEOUT,
                client.kind,
            )
        )
        self._registered.add(client.id)

    async def _sign_off(self, client_id: str) -> None:
        self._registered.discard(client_id)
        await self._backend.workers.step(client_id, WorkerState.STOPPED)
