"""What becomes of messages whose handler did not succeed: they go back, or are dead."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import InvalidId, Retryable
from laneway.domain.messages import Nack
from laneway.library.validation import encode_result
from laneway.worker.backoff import wait_after
from laneway.worker.policies import PartialFailure, Reject, Snooze, describe, explain

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import timedelta

    from laneway.domain.backend import Backend
    from laneway.library.messages import Message
    from laneway.worker.ack_batches import Settler
    from laneway.worker.handlers import Handler
    from laneway.worker.in_flight import Holdings
    from laneway.worker.policies import Failures
    from laneway.worker.runner import Counters

logger = logging.getLogger(__name__)


class Returns:
    """Gives back one handler's messages; a database that is away is waited for, up to a lock's time."""

    def __init__(
        self,
        handler: Handler,
        *,
        backend: Backend,
        settler: Settler,
        holdings: Holdings,
        counters: Counters,
        lease: timedelta,
        ordered: bool,
    ) -> None:
        self._handler = handler
        self._backend = backend
        self._settler = settler
        self._holdings = holdings
        self._counters = counters
        self._lease = lease.total_seconds()
        self._ordered = ordered

    async def keep(self, message: Message, result: Any, keep: timedelta) -> bool:
        """Settle a message and keep its result; return whether that can be written as JSON."""
        try:
            text = encode_result(result)
        except Exception as error:  # noqa: BLE001 - a result of the handler's own kind may raise any
            # It would return that again.
            await self._nack([message], error, dead=True)
            return False
        self._counters.handled += 1
        self._settler.ack_result(message, text, keep)
        return True

    async def settle(self, messages: Sequence[Message], error: BaseException) -> None:
        """Do with the messages what the error that the handler raised asks for."""
        match error:
            case Snooze(delay=delay):
                await self.release(messages, delay=delay)
            case Reject():
                await self._nack(messages, error, dead=True)
            case PartialFailure(failures=failures):
                await self._split(messages, failures)
            case _:
                logger.warning(
                    "handler of %r failed for %s: %s",
                    self._handler.queue,
                    ", ".join(str(message.id) for message in messages[:3]),
                    describe(error),
                    exc_info=error if logger.isEnabledFor(logging.DEBUG) else None,
                )
                await self._nack(messages, error)

    async def _split(
        self,
        messages: Sequence[Message],
        failures: Failures,
    ) -> None:
        """Settle those of a batch that did not fail, unless it is not clear which did.

        In an ordered group what is behind the first that failed comes again with it.
        """
        reasons = {str(key): explain(reason) for key, reason in failures.items()}
        strange = reasons.keys() - {str(message.id) for message in messages}
        if strange:
            names = ", ".join(sorted(strange)[:3])
            await self._nack(
                messages, InvalidId(f"PartialFailure names what is not in the batch: {names}")
            )
            return
        bad = [message for message in messages if str(message.id) in reasons]
        good = [message for message in messages if str(message.id) not in reasons]
        behind: Sequence[Message] = ()
        if bad and self._ordered:
            n = messages.index(bad[0])
            good, behind = good[:n], good[n:]
        self._counters.handled += len(good)
        for message in good:
            self._settler.ack(message)
        if bad:
            await self._nack(bad, None, reasons=[reasons[str(message.id)] for message in bad])
        await self.release(behind)

    async def _nack(
        self,
        messages: Sequence[Message],
        error: BaseException | None,
        *,
        reasons: Sequence[str] | None = None,
        dead: bool = False,
    ) -> None:
        self._counters.failed += len(messages)
        if reasons is None:
            reasons = ["" if error is None else describe(error)] * len(messages)
        nacks = [
            Nack(*message.receipt, reason, *self._judge(message, error, dead=dead))
            for message, reason in zip(messages, reasons, strict=True)
        ]
        await self._persist(messages, lambda: self._backend.nack(nacks))

    def _judge(
        self, message: Message, error: BaseException | None, *, dead: bool
    ) -> tuple[timedelta | None, bool | None]:
        """Return how long a message waits, and whether it is dead; None: the queue says."""
        retry = self._handler.retry
        if dead or retry is None:
            return None, dead or None
        try:
            wait, over = retry.wait(message.attempt), retry.judge(message.attempt, error)
        except BaseException:
            logger.exception("no retry of %s can be computed: the queue's counts", message.id)
            return None, None
        return wait, over

    async def release(
        self,
        messages: Sequence[Message],
        *,
        delay: timedelta | None = None,
        patience: float | None = None,
    ) -> None:
        """Give messages back; patience: for how many seconds to try, if not for a lock's time."""
        if messages:
            receipts = [message.receipt for message in messages]
            await self._persist(
                messages, lambda: self._backend.release(receipts, delay=delay), patience
            )

    async def _persist(
        self,
        messages: Sequence[Message],
        send: Callable[[], Awaitable[Any]],
        patience: float | None = None,
    ) -> None:
        """Send again while the database is away, for as long as the lock may last."""
        end = monotonic() + (self._lease if patience is None else patience)
        while True:
            try:
                await send()
            except Retryable as error:
                if monotonic() <= end:
                    await wait_after(error)
                    continue
            except Exception:
                logger.exception("a message could not be given back; it comes when its lock ends")
            self._holdings.drop(messages)
            return
