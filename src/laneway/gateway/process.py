"""A process that delivers: it sends accepted requests to their targets, and webhooks to clients."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from datetime import timedelta
from time import monotonic
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from laneway.domain.errors import LanewayError
from laneway.gateway.breaker import TargetBreaker, follow_breakers
from laneway.gateway.delivery import LEASE, Deliverer
from laneway.gateway.webhooks import WebhookSender

if TYPE_CHECKING:
    from datetime import datetime
    from uuid import UUID

    from laneway.gateway.gateway import Gateway

logger = logging.getLogger(__name__)

# In seconds: leases are extended, lost transactions are looked for, and old ones are deleted.
HEARTBEAT = 15.0
LOST_INTERVAL = 10.0
SWEEP_INTERVAL = 60.0
BATCH = 500

# Transactions about which nothing was heard for this long are asked for.
QUIET = timedelta(seconds=10)
ASK_INTERVAL = 2.0
ASK_BATCH = 100
# A transaction is looked for among the dead letters no sooner after its last change.
LOST_AGE = timedelta(minutes=1)
RETRY_PAUSE = 1.0
# How long messages are released at the end, in seconds, before they are left to their leases.
RELEASE_TIME = 5.0


class DeliveryProcess:
    """What one process delivers. Several may run on one database."""

    def __init__(self, gateway: Gateway) -> None:
        settings = gateway.settings
        broker = gateway.broker
        self._gateway = gateway
        self._broker = broker
        self._process = uuid4()
        consumer = f"gateway {socket.gethostname()} {os.getpid()}"
        slots = asyncio.Semaphore(settings.concurrency)
        places = gateway.places
        self._breakers = {
            name: TargetBreaker(place.upstream.target, broker.transactions)
            for name, place in places.items()
        }
        self._deliverers = [
            Deliverer(
                place.upstream,
                broker=broker,
                calls=place.calls,
                pool=place.pool,
                breaker=self._breakers[name],
                slots=slots,
                batch=min(settings.concurrency, place.upstream.target.concurrency or 10**6),
                consumer=consumer,
                process=self._process,
                on_change=gateway.statuses.note_change,
                counts=gateway.counts.calls[name],
            )
            for name, place in places.items()
        ]
        callbacks = {name: place.upstream.target.callback for name, place in places.items()}
        self._webhooks = WebhookSender(
            broker=broker,
            calls=gateway.webhook_calls,
            callbacks={name: each for name, each in callbacks.items() if each is not None},
            concurrency=settings.concurrency,
            consumer=consumer,
            counts=gateway.counts.webhooks,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Deliver until `stop` is set; then finish what is in progress, and release the rest."""
        stopping = asyncio.create_task(stop.wait(), name="gateway")
        starting = asyncio.create_task(self._create_queues(), name="gateway")
        try:
            await _wait_for_first(stopping, starting)
            if not stopping.done():
                await self._deliver(stopping)
        finally:
            await _end([stopping, starting])

    async def _deliver(self, stopping: asyncio.Task[Any]) -> None:
        claiming: list[Deliverer | WebhookSender] = [*self._deliverers, self._webhooks]
        keeping = [
            asyncio.create_task(work, name="gateway")
            for work in (
                follow_breakers(self._breakers, self._broker.transactions),
                self._extend_leases(),
                self._look_for_lost(),
                self._sweep(),
                self._ask_targets(),
                *(each.report() for each in self._deliverers),
            )
        ]
        loops = [asyncio.create_task(each.run(), name="gateway") for each in claiming]
        try:
            await _wait_for_first(stopping, *loops, *keeping)
            await _end(loops)
            try:
                async with asyncio.timeout(self._gateway.settings.shutdown.total_seconds()):
                    await asyncio.gather(*(each.finish() for each in claiming))
            except TimeoutError:
                left = sum(len(each.receipts) for each in claiming)
                logger.warning("%d calls did not end in time: they are released", left)
        finally:
            await _end(loops)
            try:
                async with asyncio.timeout(RELEASE_TIME):
                    await asyncio.gather(*(each.stop() for each in claiming))
            except TimeoutError:
                logger.warning("the database is unreachable: messages return when leases expire")
            await _end(keeping)

    async def _extend_leases(self) -> None:
        while True:
            await asyncio.sleep(HEARTBEAT)
            began = monotonic()
            jobs = [job for each in self._deliverers for job in each.jobs]
            receipts = [*[job.delivery.receipt for job in jobs], *self._webhooks.receipts]
            try:
                extended = await self._broker.extend(receipts, lease=LEASE)
            except LanewayError as error:
                logger.debug("cannot extend leases: %s", error)
                continue
            for job, until in zip(jobs, extended, strict=False):
                # A lost lease ends the job before its next call.
                job.until = began + LEASE.total_seconds() if until is not None else began

    async def _look_for_lost(self) -> None:
        place: tuple[datetime, UUID] | None = None
        while True:
            try:
                failed, place = await self._broker.transactions.fail_lost(
                    after=place, limit=BATCH, min_age=LOST_AGE
                )
                if failed:
                    logger.warning("%d transactions failed: their messages are gone", failed)
            except LanewayError as error:
                logger.debug("cannot look for lost transactions: %s", error)
            await asyncio.sleep(LOST_INTERVAL)

    async def _sweep(self) -> None:
        settings = self._gateway.settings
        while True:
            try:
                deleted = await self._broker.transactions.sweep(
                    age=settings.retention, key_age=settings.idempotency_keys, limit=BATCH
                )
            except LanewayError as error:
                logger.debug("cannot delete old transactions: %s", error)
                deleted = 0
            await asyncio.sleep(0 if deleted >= BATCH else SWEEP_INTERVAL)

    async def _ask_targets(self) -> None:
        """Ask targets for transactions that they have not reported on."""
        while True:
            try:
                quiet = await self._broker.transactions.list_submitted(QUIET, limit=ASK_BATCH)
                await asyncio.gather(*map(self._gateway.statuses.refresh, quiet))
            except LanewayError as error:
                logger.debug("cannot ask targets: %s", error)
            await asyncio.sleep(ASK_INTERVAL)

    async def _create_queues(self) -> None:
        while True:
            try:
                return await self._gateway.create_queues()
            except LanewayError as error:
                logger.warning("the gateway cannot start yet: %s", error)
            await asyncio.sleep(RETRY_PAUSE)


async def _wait_for_first(*tasks: asyncio.Task[Any]) -> None:
    """Return when one of the tasks has ended; raise its error if it failed."""
    ended, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for each in ended:
        each.result()


async def _end(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
