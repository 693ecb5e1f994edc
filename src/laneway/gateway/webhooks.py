"""Tells clients by webhook what became of their transactions, as Standard Webhooks 1.0 describes."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from datetime import timedelta
from http import HTTPStatus
from typing import TYPE_CHECKING

from laneway.domain.errors import LanewayError, Retryable
from laneway.domain.messages import Nack
from laneway.domain.transactions import WEBHOOKS
from laneway.gateway.calls import AddressRefused, CallFailed, HttpRequest
from laneway.gateway.counts import WebhookOutcome
from laneway.gateway.failures import read_retry_after
from laneway.gateway.patience import RETRY_PAUSE, insist
from laneway.gateway.signatures import read_secret, sign

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laneway.domain.messages import Delivery, Receipt
    from laneway.engine import Broker
    from laneway.gateway.calls import Calls
    from laneway.gateway.targets import Callback

logger = logging.getLogger(__name__)

TIMEOUT = timedelta(seconds=15)
LONG_POLL = timedelta(seconds=20)
LEASE = timedelta(seconds=60)
# An endpoint that has failed for this long is disabled.
PATIENCE = timedelta(days=5)

# Pauses after attempts: 28 hours together.
SCHEDULE = tuple(
    timedelta(seconds=seconds)
    for seconds in (5, 5 * 60, 30 * 60, 2 * 3600, 5 * 3600, 10 * 3600, 10 * 3600)
)
ATTEMPTS = len(SCHEDULE) + 1


class WebhookSender:
    """Sends the messages of the webhook queue. callbacks: by target. counts: by WebhookOutcome."""

    def __init__(
        self,
        *,
        broker: Broker,
        calls: Calls,
        callbacks: Mapping[str, Callback],
        concurrency: int,
        consumer: str,
        counts: list[int],
    ) -> None:
        self._broker = broker
        self._calls = calls
        self._keys = {
            target: [read_secret(secret) for secret in callback.secrets]
            for target, callback in callbacks.items()
        }
        self._concurrency = concurrency
        self._consumer = consumer
        self._counts = counts
        self._running: dict[asyncio.Task[None], Delivery] = {}
        self._room = asyncio.Event()

    @property
    def receipts(self) -> list[Receipt]:
        return [delivery.receipt for delivery in self._running.values()]

    async def run(self) -> None:
        """Send until cancelled; webhooks that were begun by then go on."""
        while True:
            try:
                while len(self._running) >= self._concurrency:
                    self._room.clear()
                    await self._room.wait()
                claimed = await self._broker.claim(
                    WEBHOOKS,
                    self._concurrency - len(self._running),
                    wait=LONG_POLL,
                    lease=LEASE,
                    consumer=self._consumer,
                )
                self._start(claimed)
            except Retryable as error:
                logger.debug("webhooks: %s", error)
                await asyncio.sleep(RETRY_PAUSE)
            except LanewayError:
                logger.exception("cannot claim webhooks")
                await asyncio.sleep(RETRY_PAUSE)

    async def finish(self) -> None:
        """Return when no webhook is in progress."""
        while self._running:
            await asyncio.wait(self._running)

    async def stop(self) -> None:
        """Cancel what is in progress, and release it."""
        left = self.receipts
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        if left:
            await self._broker.return_claims(left)

    def _start(self, claimed: Sequence[Delivery]) -> None:
        for delivery in claimed:
            task = asyncio.create_task(self._work(delivery), name="webhook")
            self._running[task] = delivery
            task.add_done_callback(self._end)

    def _end(self, task: asyncio.Task[None]) -> None:
        del self._running[task]
        self._room.set()
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.error("a webhook failed", exc_info=error)

    async def _work(self, delivery: Delivery) -> None:
        place = _read_place(delivery)
        if place is None:
            await self._settle(delivery, "the message has no URL", dead=True)
            return
        url, target = place
        disabled = any(
            each.disabled_at is not None and each.url == url
            for each in await insist(self._broker.transactions.list_endpoints)
        )
        if disabled:
            self._counts[WebhookOutcome.DISABLED] += 1
            await self._settle(delivery, f"webhook endpoint {url} is disabled", dead=True)
            return
        reason, gone, delay = await self._send(delivery, url, target)
        delivered = reason is None
        self._counts[WebhookOutcome.DELIVERED if delivered else WebhookOutcome.FAILED] += 1
        disabled, changed = await insist(
            lambda: self._broker.transactions.note_webhook(
                url, reason=reason, disable=gone, patience=PATIENCE
            )
        )
        if changed:
            logger.warning("webhook endpoint %s is disabled: %s", url, reason)
        await self._settle(delivery, reason, dead=disabled, delay=delay)

    async def _send(
        self, delivery: Delivery, url: str, target: str
    ) -> tuple[str | None, bool, timedelta | None]:
        """Return why the webhook failed (None: it did not), whether for good, and when to retry."""
        body = delivery.body.encode()
        keys = self._keys.get(target, ())
        request = HttpRequest(
            method="POST",
            url=url,
            headers=(
                ("content-type", "application/json"),
                *sign(f"msg_{delivery.id}", body, keys),
            ),
            body=body,
            timeout=TIMEOUT,
        )
        try:
            answer = await self._calls.send(request)
        except AddressRefused as error:
            return str(error), True, None
        except CallFailed as error:
            return str(error), False, None
        if answer.status in range(200, 300):
            return None, False, None
        gone = answer.status == HTTPStatus.GONE
        return f"answered {answer.status}", gone, read_retry_after(answer)

    async def _settle(
        self,
        delivery: Delivery,
        reason: str | None,
        *,
        dead: bool = False,
        delay: timedelta | None = None,
    ) -> None:
        if reason is None:
            await insist(lambda: self._broker.ack([delivery.receipt]))
            return
        place = min(delivery.attempt, len(SCHEDULE)) - 1
        pause = SCHEDULE[place] * random.uniform(0.9, 1.1)  # noqa: S311 - no secret
        token, lane, seq = delivery.receipt
        nack = Nack(token, lane, seq, reason, max(pause, delay or pause), dead=dead or None)
        await insist(lambda: self._broker.nack([nack]))


def _read_place(delivery: Delivery) -> tuple[str, str] | None:
    """Return the URL that a message is for and the target that it is about, None if it does not say."""
    match json.loads(delivery.headers or "{}"):
        case {"url": str(url), "target": str(target)}:
            return url, target
        case _:
            return None
