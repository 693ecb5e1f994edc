"""Settlement of messages whose handler did not succeed: nack, release or dead-letter."""

from __future__ import annotations

import logging
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar

from laneway.domain.errors import InvalidId, Retryable
from laneway.domain.messages import Nack
from laneway.library.validation import encode_result
from laneway.worker.backoff import wait_after
from laneway.worker.failure_log import Failed, log_failures
from laneway.worker.policies import PartialFailure, Reject, Snooze, explain, find_delay
from laneway.worker.tracebacks import describe_failure

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from datetime import timedelta

    from laneway.domain.backend import Backend
    from laneway.domain.messages import Outcome
    from laneway.library.messages import Message
    from laneway.worker.ack_batches import Settler
    from laneway.worker.handlers import Handler
    from laneway.worker.in_flight import InFlight
    from laneway.worker.policies import Failures
    from laneway.worker.queue_policy import QueuePolicy
    from laneway.worker.runner import Counters

T = TypeVar("T")

logger = logging.getLogger(__name__)


class Returns:
    """Nacks and releases one handler's messages; retries for a lease duration while it cannot."""

    def __init__(
        self,
        handler: Handler,
        *,
        backend: Backend,
        settler: Settler,
        in_flight: InFlight,
        counters: Counters,
        lease: timedelta,
        policy: QueuePolicy,
        ordered: bool,
    ) -> None:
        self._policy = policy
        self._handler = handler
        self._backend = backend
        self._settler = settler
        self._in_flight = in_flight
        self._counters = counters
        self._lease = lease.total_seconds()
        self._ordered = ordered

    async def keep(self, message: Message, result: Any, keep: timedelta) -> bool:
        """Ack a message and store its result; return whether the result could be encoded as JSON."""
        try:
            text = encode_result(result)
        except Exception as error:  # noqa: BLE001 - a handler's own class may raise anything
            # Dead-lettered: a retry would return such a result again.
            await self._nack([message], error, dead=True)
            return False
        self._counters.handled += 1
        self._settler.ack_result(message, text, keep)
        return True

    async def settle(self, messages: Sequence[Message], error: BaseException) -> None:
        """Settle the messages as the error that the handler raised asks."""
        match error:
            case Snooze(delay=delay):
                await self.release(messages, delay=delay)
            case Reject():
                await self._nack(messages, error, dead=True)
            case PartialFailure(failures=failures):
                await self._split(messages, failures)
            case _:
                await self._nack(messages, error)

    async def _split(
        self,
        messages: Sequence[Message],
        failures: Failures,
    ) -> None:
        """Nack the failed messages of a batch and ack the others.

        In an ordered group, the messages behind the first failed one are released. If the error names
        messages that are not in the batch, all are nacked.
        """
        reasons = {
            str(key): reason if isinstance(reason, BaseException) else explain(reason)
            for key, reason in failures.items()
        }
        strange = reasons.keys() - {str(message.id) for message in messages}
        if strange:
            names = ", ".join(sorted(strange)[:3])
            await self._nack(
                messages,
                InvalidId(f"PartialFailure names messages that are not in the batch: {names}"),
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
            await self._nack_each(bad, [reasons[str(message.id)] for message in bad])
        await self.release(behind)

    async def _nack(
        self, messages: Sequence[Message], error: BaseException, *, dead: bool = False
    ) -> None:
        await self._nack_each(messages, [error] * len(messages), cause=error, dead=dead)

    async def _nack_each(
        self,
        messages: Sequence[Message],
        errors: Sequence[BaseException | str],
        *,
        cause: BaseException | None = None,
        dead: bool = False,
    ) -> None:
        """Nack messages, each with its error, and log what becomes of them.

        cause: the error by which the retry policy judges; None: a part of a batch failed.
        """
        self._counters.failed += len(messages)
        await self._policy.refresh()
        fates = [self._judge(message, cause, dead=dead) for message in messages]
        texts = {id(error): _write_reason(error) for error in errors}
        nacks = [
            Nack(*message.receipt, texts[id(error)], *fate)
            for message, error, fate in zip(messages, errors, fates, strict=True)
        ]
        done = await self._persist(messages, lambda: self._backend.nack(nacks))
        outcomes: Sequence[Outcome | None] = done or [None] * len(messages)
        log_failures(
            self._handler.queue,
            [
                Failed(message, self._find_limit(message), fate[0], outcome, error)
                for message, error, fate, outcome in zip(
                    messages, errors, fates, outcomes, strict=True
                )
            ],
        )

    def _find_limit(self, message: Message) -> int | None:
        """Return how many attempts the message has; None: any number."""
        retry = self._handler.retry
        if retry is not None and retry.max_attempts is not None:
            return retry.max_attempts
        return message.max_attempts or self._policy.max_attempts

    def _judge(
        self, message: Message, error: BaseException | None, *, dead: bool
    ) -> tuple[timedelta | None, bool | None]:
        """Return the retry delay, and whether to dead-letter; None: by the queue's settings."""
        asked = find_delay(error)
        if dead:
            return asked, True
        retry = self._handler.retry or self._policy.retry
        try:
            wait, over = retry.wait(message.attempt), retry.judge(message.attempt, error)
        except BaseException:
            logger.exception(
                "retry policy failed for message %s, using the queue's settings", message.id
            )
            return asked, None
        return (wait if asked is None else asked), over

    async def release(
        self,
        messages: Sequence[Message],
        *,
        delay: timedelta | None = None,
        patience: float | None = None,
    ) -> None:
        """Release messages. patience: how long to retry, in seconds; None: for a lease duration."""
        if messages:
            receipts = [message.receipt for message in messages]
            await self._persist(
                messages, lambda: self._backend.release(receipts, delay=delay), patience
            )

    async def _persist(
        self,
        messages: Sequence[Message],
        send: Callable[[], Awaitable[T]],
        patience: float | None = None,
    ) -> T | None:
        """Send, and retry while the database is unreachable, until the leases may have expired.

        Return the result; None if it failed.
        """
        end = monotonic() + (self._lease if patience is None else patience)
        result = None
        while True:
            try:
                result = await send()
            except Retryable as error:
                if monotonic() <= end:
                    await wait_after(error)
                    continue
            except Exception:
                logger.exception(
                    "%d messages could not be nacked or released; they will be delivered again when"
                    " their leases expire",
                    len(messages),
                )
            self._in_flight.drop(messages)
            return result


def _write_reason(error: BaseException | str) -> str:
    return describe_failure(error) if isinstance(error, BaseException) else error
