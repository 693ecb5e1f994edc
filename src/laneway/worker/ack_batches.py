"""Acknowledgements gather and go out together, each as soon as the one before is through."""

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
    from laneway.worker.in_flight import Holdings

logger = logging.getLogger(__name__)


class Settler:
    """lost: how many acknowledgements came too late, for messages that others have by now."""

    def __init__(self, backend: Backend, holdings: Holdings) -> None:
        self._backend = backend
        self._holdings = holdings
        self._messages: list[Message] = []
        self._results: dict[timedelta, list[tuple[Message, str | None]]] = {}
        self._stirred = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.lost = 0

    def ack(self, message: Message) -> None:
        self._messages.append(message)
        if not self._stirred.is_set():
            self._idle.clear()
            self._stirred.set()

    def ack_result(self, message: Message, result: str | None, keep: timedelta) -> None:
        self._results.setdefault(keep, []).append((message, result))
        self._idle.clear()
        self._stirred.set()

    async def run(self) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            messages, self._messages = self._messages, []
            results, self._results = self._results, {}
            if messages:
                await self._send(messages, self._backend.ack)
            for keep, pairs in results.items():
                given = [result for _, result in pairs]
                send = partial(self._backend.workers.ack_results, results=given, keep=keep)
                await self._send([message for message, _ in pairs], send)
            if not self._stirred.is_set():
                self._idle.set()

    async def drain(self) -> None:
        """Return once everything is through."""
        await self._idle.wait()

    async def _send(
        self,
        messages: Sequence[Message],
        send: Callable[[Sequence[Receipt]], Awaitable[list[int]]],
    ) -> None:
        """Send until it is through: a late one is refused, and harms nobody."""
        receipts = [message.receipt for message in messages]
        while True:
            try:
                late = await send(receipts)
            except Retryable as error:
                logger.warning("%d acknowledgements wait: %s", len(receipts), error)
                await wait_after(error)
                continue
            except LanewayError:
                logger.exception(
                    "%d acknowledgements failed; their messages come again", len(receipts)
                )
            else:
                if late:
                    self.lost += len(late)
                    logger.warning(
                        "%d messages were handled after their locks had ended; others have them",
                        len(late),
                    )
            self._holdings.drop(messages)
            return
