"""Batches of acknowledgements: those that arrive during one call are sent together in the next."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from laneway.domain.errors import LanewayError, Retryable
from laneway.worker.backoff import wait_after

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import timedelta

    from laneway.domain.backend import Backend
    from laneway.domain.messages import Receipt
    from laneway.library.messages import Message
    from laneway.worker.in_flight import InFlight

logger = logging.getLogger(__name__)


class Settler:
    """Sends acks in batches. lost: how many were refused because the lease had expired."""

    def __init__(self, backend: Backend, in_flight: InFlight) -> None:
        self._backend = backend
        self._in_flight = in_flight
        self._messages: list[Message] = []
        self._results: dict[timedelta, list[tuple[Message, str | None]]] = {}
        self._pending = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.lost = 0

    def ack(self, message: Message) -> None:
        self._messages.append(message)
        if not self._pending.is_set():
            self._idle.clear()
            self._pending.set()

    def ack_result(self, message: Message, result: str | None, keep: timedelta) -> None:
        self._results.setdefault(keep, []).append((message, result))
        self._idle.clear()
        self._pending.set()

    async def run(self) -> None:
        while True:
            await self._pending.wait()
            self._pending.clear()
            messages, self._messages = self._messages, []
            results, self._results = self._results, {}
            if messages:
                await self._send(messages, self._backend.ack)
            for keep, pairs in results.items():
                given = [result for _, result in pairs]
                send = partial(self._backend.workers.ack_results, results=given, keep=keep)
                await self._send([message for message, _ in pairs], send)
            if not self._pending.is_set():
                self._idle.set()

    async def drain(self) -> None:
        """Return once all acknowledgements are sent."""
        await self._idle.wait()

    async def _send(
        self,
        messages: Sequence[Message],
        send: Callable[[Sequence[Receipt]], Awaitable[list[int]]],
    ) -> None:
        """Send, and retry while the database is unreachable. Acks of expired leases are refused."""
        receipts = [message.receipt for message in messages]
        while True:
            try:
                late = await send(receipts)
            except Retryable as error:
                logger.warning("%d acknowledgements not sent, retrying: %s", len(receipts), error)
                await wait_after(error)
                continue
            except LanewayError:
                logger.exception(
                    "%d acknowledgements failed; their messages will be delivered again",
                    len(receipts),
                )
            else:
                if late:
                    self.lost += len(late)
                    logger.warning(
                        "%d messages were handled after their leases had expired; they are delivered"
                        " to other consumers",
                        len(late),
                    )
            self._in_flight.drop(messages)
            return
