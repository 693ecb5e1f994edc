"""Acknowledgements gather and go out together, each as soon as the one before is through."""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from laneway.domain.errors import LanewayError, Retryable
from laneway.worker.pauses import wait_after

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import timedelta

    from laneway.domain.backend import Backend
    from laneway.domain.messages import Receipt

logger = logging.getLogger(__name__)


class Settler:
    """lost: how many acknowledgements came too late, for messages that others have by now."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._receipts: list[Receipt] = []
        self._results: dict[timedelta, list[tuple[Receipt, str | None]]] = {}
        self._stirred = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self.lost = 0

    def ack(self, receipt: Receipt) -> None:
        self._receipts.append(receipt)
        if not self._stirred.is_set():
            self._idle.clear()
            self._stirred.set()

    def ack_result(self, receipt: Receipt, result: str | None, keep: timedelta) -> None:
        self._results.setdefault(keep, []).append((receipt, result))
        self._idle.clear()
        self._stirred.set()

    async def run(self) -> None:
        while True:
            await self._stirred.wait()
            self._stirred.clear()
            receipts, self._receipts = self._receipts, []
            results, self._results = self._results, {}
            if receipts:
                await self._send(receipts, partial(self._backend.ack, receipts))
            for keep, pairs in results.items():
                held = [receipt for receipt, _ in pairs]
                given = [result for _, result in pairs]
                await self._send(held, partial(self._backend.ack_results, held, given, keep=keep))
            if not self._stirred.is_set():
                self._idle.set()

    async def drain(self) -> None:
        """Return once everything is through."""
        await self._idle.wait()

    async def _send(
        self, receipts: Sequence[Receipt], send: Callable[[], Awaitable[list[int]]]
    ) -> None:
        """Send until it is through: a late one is refused, and harms nobody."""
        while True:
            try:
                late = await send()
            except Retryable as error:
                logger.warning("%d acknowledgements wait: %s", len(receipts), error)
                await wait_after(error)
            except LanewayError:
                logger.exception(
                    "%d acknowledgements failed; their messages come again", len(receipts)
                )
                return
            else:
                if late:
                    self.lost += len(late)
                    logger.warning(
                        "%d messages were handled after their locks had ended; others have them",
                        len(late),
                    )
                return
