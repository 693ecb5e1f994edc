"""What becomes of messages whose handler did not succeed: they go back, or are dead."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import LanewayError, Retryable
from laneway.domain.messages import Nack
from laneway.library.messages import encode_payload
from laneway.worker.pauses import wait_after
from laneway.worker.policies import PartialFailure, Reject, Snooze, describe, trim

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import timedelta

    from laneway.domain.backend import Backend
    from laneway.domain.messages import Receipt
    from laneway.library.messages import Message
    from laneway.worker.handlers import Handler
    from laneway.worker.runner import Counters
    from laneway.worker.settling import Settler

logger = logging.getLogger(__name__)


class Returns:
    """Gives back one handler's messages; a database that is away is waited for, up to a lock's time."""

    def __init__(
        self,
        handler: Handler,
        *,
        backend: Backend,
        settler: Settler,
        counters: Counters,
        lease: timedelta,
    ) -> None:
        self._handler = handler
        self._backend = backend
        self._settler = settler
        self._counters = counters
        self._lease = lease.total_seconds()

    async def keep(self, message: Message, result: Any, keep: timedelta) -> None:
        """Settle a message and keep its result, if that can be written as JSON."""
        try:
            text = encode_payload(result)
        except LanewayError as error:
            await self._nack([message], error, dead=True)
        else:
            self._settler.ack_result(message.receipt, text, keep)

    async def settle(self, messages: Sequence[Message], error: Exception) -> None:
        """Do with the messages what the error that the handler raised asks for."""
        match error:
            case Snooze(delay=delay):
                await self.release([message.receipt for message in messages], delay=delay)
            case Reject():
                await self._nack(messages, error, dead=True)
            case PartialFailure(failures=failures):
                bad = [message for message in messages if message.id in failures]
                self._counters.handled += len(messages) - len(bad)
                for message in messages:
                    if message.id not in failures:
                        self._settler.ack(message.receipt)
                await self._nack(bad, None, reasons=[failures[message.id] for message in bad])
            case _:
                logger.warning(
                    "handler of %r failed for %s: %s",
                    self._handler.queue,
                    ", ".join(str(message.id) for message in messages[:3]),
                    describe(error),
                    exc_info=error if logger.isEnabledFor(logging.DEBUG) else None,
                )
                await self._nack(messages, error)

    async def _nack(
        self,
        messages: Sequence[Message],
        error: Exception | None,
        *,
        reasons: Sequence[str] | None = None,
        dead: bool = False,
    ) -> None:
        self._counters.failed += len(messages)
        reason = "" if error is None else describe(error)
        retry = self._handler.retry
        nacks = [
            Nack(
                *message.receipt,
                reason if reasons is None else trim(reasons[n]),
                None if retry is None else retry.wait(message.attempt),
                True if dead else None if retry is None else retry.judge(message.attempt, error),
            )
            for n, message in enumerate(messages)
        ]
        await self._persist(lambda: self._backend.nack(nacks))

    async def release(self, receipts: Sequence[Receipt], *, delay: timedelta | None = None) -> None:
        if receipts:
            await self._persist(lambda: self._backend.release(receipts, delay=delay))

    async def _persist(self, send: Callable[[], Awaitable[Any]]) -> None:
        """Send again while the database is away, for as long as the lock may last."""
        end = monotonic() + self._lease
        while True:
            try:
                await send()
            except Retryable as error:
                if monotonic() > end:
                    return
                await wait_after(error)
            except LanewayError:
                logger.exception("a message could not be given back; it comes when its lock ends")
                return
            else:
                return
