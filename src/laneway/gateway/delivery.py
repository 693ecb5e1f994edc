"""Sends accepted requests to their targets: claim a message, call the target, record and ack.

Before the call the transaction is marked as being sent; the mark goes with the result. A message that
comes back with the mark means that a process ended between the two, so the target is asked whether
it knows the idempotency key or, if it cannot be asked, its `redelivery` decides.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING
from uuid import UUID  # noqa: TC003 - msgspec reads it

import msgspec

from laneway.domain.errors import InternalError, LanewayError, Retryable
from laneway.domain.transactions import TRANSACTIONS, Action, Finding, Finish, Settlement
from laneway.gateway.calls import CallFailed
from laneway.gateway.counts import CallOutcome
from laneway.gateway.failures import CallRefused
from laneway.gateway.findings import make_finding
from laneway.gateway.patience import RETRY_PAUSE, insist
from laneway.gateway.steps import log_step
from laneway.gateway.targets import Redelivery, Submission

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence

    from laneway.domain.messages import Delivery, Receipt
    from laneway.domain.transactions import Recorded
    from laneway.engine import Broker
    from laneway.gateway.breaker import TargetBreaker
    from laneway.gateway.calls import Calls, HttpResponse
    from laneway.gateway.pool import UpstreamPool
    from laneway.gateway.steps import Step
    from laneway.gateway.targets import Report, Upstream

logger = logging.getLogger(__name__)

LONG_POLL = timedelta(seconds=20)
LEASE = timedelta(seconds=60)
# How long a message rests that another message of its transaction is ahead of.
BUSY_PAUSE = timedelta(seconds=5)
# A reservation that comes later than this is not waited for with claimed messages, in seconds; several
# ones together no longer than half of their leases.
PATIENCE = 5.0
# How often other processes are told how many calls are in progress here, in seconds, if that changes;
# and if it does not, before they forget it.
REPORT_INTERVAL = 1.0
REPORT_ANYWAY = 30.0
# A call is sent so long before the lease ends, in seconds: it must arrive before another process asks for it.
MARGIN = timedelta(seconds=5)

_ACTIONS: Mapping[Settlement, Step] = {
    Settlement.ACK: "success",
    Settlement.RETRY: "failure",
    Settlement.DEAD: "failure",
    Settlement.RELEASE: "released",
}


class Deliverer:
    """Delivers the messages of one target. `slots` limits calls at once in this process."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        broker: Broker,
        calls: Calls,
        pool: UpstreamPool,
        breaker: TargetBreaker,
        slots: asyncio.Semaphore,
        batch: int,
        consumer: str,
        process: UUID,
        counts: list[int],
        on_change: Callable[[Recorded], Awaitable[None]] | None = None,
    ) -> None:
        """Deliver nothing until `run`.

        counts: of calls, by CallOutcome. on_change: called with each transaction that a call changed.
        """
        self._upstream = upstream
        self._target = upstream.target
        self._broker = broker
        self._transactions = broker.transactions
        self._calls = calls
        self._pool = pool
        self._counts = counts
        self._on_change = on_change
        self._breaker = breaker
        self._slots = slots
        self._batch = batch
        self._consumer = consumer
        self._process = process
        self._running: dict[asyncio.Task[None], Job] = {}
        self._room = asyncio.Event()
        # Reservations, one at a time, each with the number of calls in progress.
        self._reserving = asyncio.Lock()
        self._reserved = 0
        self._reserved_at = monotonic()

    @property
    def jobs(self) -> list[Job]:
        """What is in progress in this process."""
        return list(self._running.values())

    @property
    def receipts(self) -> list[Receipt]:
        return [job.delivery.receipt for job in self._running.values()]

    async def run(self) -> None:
        """Deliver until cancelled; messages that were claimed by then go on."""
        while True:
            try:
                await self._breaker.wait()
                await self._wait_for_room()
                claimed = await self._broker.claim(
                    TRANSACTIONS,
                    1 if self._breaker.is_open else self._batch - len(self._running),
                    wait=LONG_POLL,
                    lease=LEASE,
                    consumer=self._consumer,
                    partition=self._target.name,
                )
                if claimed:
                    await self._start(claimed)
            except Retryable as error:
                logger.debug("target %s: %s", self._target.name, error)
                await asyncio.sleep(RETRY_PAUSE)
            except LanewayError:
                logger.exception("cannot claim messages for target %s", self._target.name)
                await asyncio.sleep(RETRY_PAUSE)

    async def finish(self) -> None:
        """Return when no message is in progress."""
        while self._running:
            await asyncio.wait(self._running)

    async def stop(self) -> None:
        """Cancel what is in progress: what was not sent is released, the rest is asked about later."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._report()

    async def report(self) -> None:
        """Tell other processes how many calls are in progress here, until cancelled."""
        while True:
            await asyncio.sleep(REPORT_INTERVAL)
            await self._report()

    async def _report(self) -> None:
        async with self._reserving:
            running = len(self._running)
            age = monotonic() - self._reserved_at
            if self._target.concurrency is None or (
                running == self._reserved and (not running or age < REPORT_ANYWAY)
            ):
                return
            try:
                await self._reserve(0)
            except LanewayError as error:
                logger.debug("cannot report calls of target %s: %s", self._target.name, error)

    async def _wait_for_room(self) -> None:
        while len(self._running) >= self._batch:
            self._room.clear()
            await self._room.wait()

    async def _start(self, claimed: Sequence[Delivery]) -> None:
        """Start as many calls as the target's limits allow; the other messages go back."""
        patient_until = monotonic() + LEASE.total_seconds() / 2
        waiting = list(claimed)
        try:
            while waiting:
                async with self._reserving:
                    granted, pause = await self._reserve(len(waiting))
                    for delivery in waiting[:granted]:
                        self._start_job(Job(delivery))
                waiting = waiting[granted:]
                if (
                    not waiting
                    or pause > PATIENCE
                    or monotonic() + pause > patient_until
                    or self._breaker.is_open
                ):
                    break
                await self._wait_for_result(pause)
        finally:
            if waiting:
                await self._broker.return_claims([each.receipt for each in waiting])

    async def _reserve(self, wanted: int) -> tuple[int, float]:
        """Return how many calls may begin, and when to ask again, in seconds."""
        target = self._target
        if target.concurrency is None and target.rate is None and not self._breaker.is_open:
            return wanted, 0.0
        # Until the answer is here, nobody knows what other processes see.
        self._reserved = -1
        found = await self._transactions.reserve_calls(
            target.name,
            process=self._process,
            wanted=wanted,
            running=len(self._running),
            concurrency=target.concurrency,
            rate=target.rate,
            open_for=target.breaker.open_for,
        )
        self._reserved = len(self._running) + found.granted
        self._reserved_at = monotonic()
        return found.granted, 1.0 if found.retry_in is None else found.retry_in.total_seconds()

    async def _wait_for_result(self, pause: float) -> None:
        """Wait until a call has ended, or for so many seconds."""
        self._room.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._room.wait()

    def _start_job(self, job: Job) -> None:
        task = asyncio.create_task(self._work(job), name=f"gateway {self._target.name}")
        self._running[task] = job
        task.add_done_callback(self._end_job)

    def _end_job(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._room.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a message of target %s failed", self._target.name, exc_info=error)

    async def _work(self, job: Job) -> None:
        try:
            async with self._slots:
                await self._deliver(job)
        except asyncio.CancelledError:
            if not job.sent and job.finish is None and not _is_cancelled_twice():
                await self._release(job)
            raise

    async def _deliver(self, job: Job) -> None:
        message = _read_message(job.delivery)
        job.transaction_id = None if message is None else message.transaction_id
        log_step("message_received", job)
        if message is None:
            reason = "the message has no transactionId that is a UUID, no type, or no request"
            await self._finish(job, Settlement.DEAD, reason=reason)
            return
        await self._complete(self._begin(job, message.transaction_id))
        match job.action:
            case Action.MISSING:
                reason = "there is no such transaction"
                await self._finish(job, Settlement.DEAD, reason=reason)
            case Action.LOST:
                logger.debug("the lease of message %s has ended", job.delivery.id)
            case Action.SKIP:
                await self._finish(job, Settlement.ACK)
            case Action.BUSY:
                await self._finish(job, Settlement.RELEASE, delay=BUSY_PAUSE)
            case Action.SEND | Action.ASK:
                await self._send(job, message)

    async def _begin(self, job: Job, transaction_id: UUID) -> None:
        while True:
            asked_at = monotonic()
            try:
                begun = await self._transactions.begin(transaction_id, job.delivery)
            except Retryable as error:
                logger.debug("the database is unreachable: %s", error)
                await asyncio.sleep(RETRY_PAUSE)
                continue
            if begun.lease_left is not None:
                job.until = asked_at + begun.lease_left.total_seconds()
            job.action = begun.action
            return

    async def _send(self, job: Job, message: _Message) -> None:
        # With the request as the client sent it, byte for byte.
        submission = Submission(
            transaction_id=str(message.transaction_id),
            type=message.type,
            request=bytes(message.request).decode(),
            attempt=job.delivery.attempt,
        )
        log_step("processing", job)
        try:
            url, report = await self._call(job, submission)
        except _LeaseEnds:
            await self._release(job)
        except _NotCalledAgain as error:
            await self._finish_failed(job, Settlement.DEAD, str(error), known=False)
        except CallRefused as error:
            self._count(job, CallOutcome.REJECTED if error.permanent else CallOutcome.RETRYABLE)
            await self._refuse(job, error)
        except CallFailed as error:
            self._count(job, CallOutcome.UNANSWERED)
            await self._fail(job, error)
        else:
            self._count(job, CallOutcome.SUCCEEDED)
            words = self._upstream.words
            finding = make_finding(job.known_id, report, words, url=url, called=True)
            await self._finish(job, Settlement.ACK, finding)
            await self._breaker.note_success()

    async def _call(self, job: Job, submission: Submission) -> tuple[str, Report]:
        """Return the URL that was called, and what the target reports."""
        upstream, target = self._upstream, self._target
        if job.action is Action.ASK:
            if upstream.can_look_up:
                for url in target.urls:
                    answer = await self._calls.send(upstream.look_up(submission, url))
                    known = upstream.read_looked_up(submission, answer)
                    if known is not None:
                        return url, known
            elif target.redelivery is Redelivery.AT_MOST_ONCE:
                raise _NotCalledAgain(
                    "the result of an earlier call is unknown, and the target is not called again"
                    " (redelivery is at-most-once)"
                )
        url = await self._pool.choose()
        left = timedelta(seconds=job.until - monotonic()) - MARGIN
        if left <= timedelta(0):
            raise _LeaseEnds
        job.sent = True
        answer = await self._calls.send(replace(upstream.submit(submission, url), send_within=left))
        job.answer = answer
        return url, upstream.read_submitted(submission, answer)

    def _count(self, job: Job, outcome: CallOutcome) -> None:
        if job.sent:  # else it was only looked up
            self._counts[outcome] += 1

    async def _release(self, job: Job) -> None:
        """Release a message that was not sent: the attempt does not count. The mark goes if it is this call's."""
        mark = job.action is Action.SEND and job.transaction_id is not None
        finding = Finding(job.known_id, called=True) if mark else None
        await self._finish(job, Settlement.RELEASE, finding)

    async def _refuse(self, job: Job, error: CallRefused) -> None:
        """Record that the target did not accept the call."""
        if error.permanent:
            # Of an unknown call, the mark stays: whoever redrives the message asks again.
            known = job.sent
            await self._finish_failed(job, Settlement.DEAD, str(error), known=known)
            await self._breaker.note_success()
            return
        delay = error.retry_after or self._target.retry.pause_after(job.delivery.attempt)
        # An error of the target's may follow on its acceptance: it is asked before the next call.
        known = job.sent and not self._upstream.can_look_up
        await self._finish_failed(job, Settlement.RETRY, str(error), delay=delay, known=known)
        await self._breaker.note_failure(str(error))

    async def _fail(self, job: Job, error: CallFailed) -> None:
        """Record that there was no answer."""
        reason = f"target {self._target.name}: {error}"
        redelivery = self._target.redelivery
        known = job.action is Action.SEND and not (job.sent and error.sent)
        if not known and not self._upstream.can_look_up:
            if redelivery is Redelivery.AT_MOST_ONCE:
                reason += ": it is not called again (redelivery is at-most-once)"
                await self._finish_failed(job, Settlement.DEAD, reason, known=False)
                await self._breaker.note_failure(reason)
                return
            known = True
        delay = self._target.retry.pause_after(job.delivery.attempt)
        await self._finish_failed(job, Settlement.RETRY, reason, delay=delay, known=known)
        await self._breaker.note_failure(reason)

    async def _finish_failed(
        self,
        job: Job,
        settlement: Settlement,
        reason: str,
        *,
        known: bool,
        delay: timedelta | None = None,
    ) -> None:
        """Nack the message. known: the target has not done what the call asked for."""
        failed = self._upstream.words.failed
        finding = Finding(job.known_id, error=reason, called=known, failed_status=failed)
        await self._finish(job, settlement, finding, reason=reason, delay=delay)

    async def _finish(
        self,
        job: Job,
        settlement: Settlement,
        finding: Finding | None = None,
        *,
        reason: str | None = None,
        delay: timedelta | None = None,
    ) -> None:
        job.finish = Finish(job.delivery.receipt, settlement, finding, reason, delay)
        await self._complete(self._record(job, job.finish))

    async def _record(self, job: Job, finish: Finish) -> None:
        recorded = await insist(lambda: self._transactions.finish(finish))
        log_step(_ACTIONS[finish.settlement], job, error=finish.reason, recorded=recorded)
        if recorded is not None and self._on_change is not None:
            await self._on_change(recorded)

    async def _complete(self, work: Coroutine[None, None, None]) -> None:
        """Do this to its end, even if the task is cancelled meanwhile, unless it is cancelled twice."""
        task = asyncio.ensure_future(work)
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            try:
                if not _is_cancelled_twice():
                    await asyncio.wait([task])
            finally:
                task.cancel()
            raise


@dataclass(slots=True, eq=False)
class Job:
    """A message in progress. until: when its lease ends, by the process's clock; known once it is begun.

    action: what begin has decided. sent: the request may have reached the target.
    """

    delivery: Delivery
    until: float = 0.0
    started: float = field(default_factory=monotonic)
    transaction_id: UUID | None = None
    action: Action | None = None
    sent: bool = False
    answer: HttpResponse | None = None
    finish: Finish | None = None

    @property
    def known_id(self) -> UUID:
        if self.transaction_id is None:
            raise InternalError("the message names no transaction")
        return self.transaction_id


class _LeaseEnds(Exception):
    """Another process may have the message before the call would arrive."""


class _NotCalledAgain(Exception):
    """The result of an earlier call is unknown, and stays so."""


def _is_cancelled_twice() -> bool:
    """Return whether there is no time left to finish in order."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 1


class _Message(msgspec.Struct, rename={"transaction_id": "transactionId"}):
    transaction_id: UUID
    type: str
    request: msgspec.Raw


_MESSAGE = msgspec.json.Decoder(_Message)


def _read_message(delivery: Delivery) -> _Message | None:
    try:
        return _MESSAGE.decode(delivery.body)
    except (msgspec.DecodeError, RecursionError):
        return None
