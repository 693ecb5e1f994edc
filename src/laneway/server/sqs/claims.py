"""The claims of a receive: within the queue's limits, no expired messages, none received too often."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from time import monotonic, time
from typing import TYPE_CHECKING

from laneway.domain.messages import Nack
from laneway.engine.deliveries import list_deliveries
from laneway.server.sqs.attributes import is_fifo, read_visibility
from laneway.server.sqs.texts import Refusal

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.messages import ClaimedSpan, Delivery
    from laneway.domain.queues import Queue
    from laneway.server.sqs.exchange import Exchange

_NOW = timedelta(0)
# Seconds between looks whether a queue at its limit of messages in flight has room again.
_PAUSE = 1.0


async def claim(
    exchange: Exchange, queue: Queue, want: int, *, wait: float, visibility: int | None
) -> list[Delivery]:
    """Return up to `want` messages that a receive may show.

    wait, visibility: in seconds; without a visibility, the queue's applies.
    """
    broker = exchange.broker
    deadline = monotonic() + wait
    room = await broker.in_flight.find_room(queue, exchange.settings.in_flight)
    while not room and (left := deadline - monotonic()) > 0:
        if not await exchange.claims.attend(
            asyncio.sleep(min(left, _PAUSE), result=True), otherwise=False
        ):
            return []
        room = await broker.in_flight.find_room(queue, exchange.settings.in_flight)
    if not room:
        if wait or is_fifo(queue):
            return []
        raise Refusal.IN_FLIGHT.fault(queue=exchange.find_owned(queue.name).name)
    await broker.noisy.refresh(queue)
    lease = timedelta(seconds=visibility) if visibility else None
    deliveries = await _claim_deliverable(
        exchange, queue, min(want, room), deadline=deadline, lease=lease
    )
    if not deliveries:
        return []
    await exchange.claims.require_client()
    if visibility == 0 or (visibility is None and read_visibility(queue) == 0):
        await broker.nack([Nack(*delivery.receipt, delay=_NOW) for delivery in deliveries])
    else:
        broker.in_flight.note(queue, len(deliveries))
        if not is_fifo(queue):
            broker.noisy.note_claimed(queue, deliveries)
        broker.expect_expiry(lease or queue.settings.lease)
    return deliveries


async def _claim_deliverable(
    exchange: Exchange, queue: Queue, want: int, *, deadline: float, lease: timedelta | None
) -> list[Delivery]:
    """Claim until there are enough messages to show, no more are ready, or the time is up."""
    good: list[Delivery] = []
    while len(good) < want:
        left = 0.0 if good else max(deadline - monotonic(), 0.0)
        work = exchange.broker.claim_spans(
            queue.name, want - len(good), wait=timedelta(seconds=left), lease=lease, fill=True
        )
        spans = await exchange.claims.make(work, wait=left > 0)
        if not spans:
            break
        claimed = _list_messages(queue, spans)
        kept = await _dead_letter_exhausted(
            exchange, queue, await _drop_expired(exchange, queue, claimed)
        )
        good += kept
        if len(kept) == len(claimed):
            break
        # Some were not to be shown.
    return good


def _list_messages(queue: Queue, spans: Sequence[ClaimedSpan]) -> list[Delivery]:
    if not is_fifo(queue):
        return list_deliveries(spans)
    # One message group after the other.
    return [delivery for span in spans for delivery in list_deliveries((span,))]


async def _drop_expired(
    exchange: Exchange, queue: Queue, deliveries: list[Delivery]
) -> list[Delivery]:
    """Ack the messages that are past the queue's retention and not swept yet; return the others."""
    if queue.settings.message_ttl is None:
        return deliveries
    deadline = time() - queue.settings.message_ttl.total_seconds()
    expired = [each for each in deliveries if each.created_at.timestamp() <= deadline]
    if not expired:
        return deliveries
    await exchange.broker.ack([delivery.receipt for delivery in expired])
    return [delivery for delivery in deliveries if delivery not in expired]


async def _dead_letter_exhausted(
    exchange: Exchange, queue: Queue, deliveries: list[Delivery]
) -> list[Delivery]:
    """Move messages that were received too often to the dead-letter queue; return the others.

    If that queue was deleted, they return to their own queue.
    """
    most = queue.settings.max_receives
    if most is None or all(delivery.attempt <= most for delivery in deliveries):
        return deliveries
    reason = f"received {most} times and not deleted"
    exhausted = [delivery for delivery in deliveries if delivery.attempt > most]
    nacks = [Nack(*delivery.receipt, reason=reason, dead=True) for delivery in exhausted]
    await exchange.broker.nack(nacks)
    await exchange.broker.dead_letters.redrive_by_policy(queue.name)
    return [delivery for delivery in deliveries if delivery.attempt <= most]
