"""DeleteMessage and ChangeMessageVisibility, alone and in batches."""

from __future__ import annotations

from datetime import timedelta
from time import time
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import msgspec

from laneway.domain.messages import Nack, Outcome, Status
from laneway.server.sqs.attributes import is_fifo
from laneway.server.sqs.batches import check_entries, tell_failure
from laneway.server.sqs.errors import Fault
from laneway.server.sqs.handles import read_handle
from laneway.server.sqs.receives import LONGEST_VISIBILITY
from laneway.server.sqs.texts import Refusal
from laneway.server.sqs.wire import BatchEntry, BatchFailure, QueueRequest, Result

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from laneway.domain.queues import Queue
    from laneway.server.sqs.exchange import Exchange
    from laneway.server.sqs.handles import Handle

E = TypeVar("E", bound=BatchEntry)
T = TypeVar("T")

_UNSETTLED = frozenset({Status.QUEUED, Status.PROCESSING})
_NOW = timedelta(0)


class DeleteMessage(QueueRequest, kw_only=True):
    receipt_handle: str = ""


class DeleteEntry(BatchEntry, kw_only=True):
    receipt_handle: str = ""


class DeleteMessageBatch(QueueRequest, kw_only=True):
    entries: list[DeleteEntry] = msgspec.field(default_factory=list)


class ChangeMessageVisibility(QueueRequest, kw_only=True):
    receipt_handle: str = ""
    visibility_timeout: int | None = None


class ChangeEntry(BatchEntry, kw_only=True):
    receipt_handle: str = ""
    visibility_timeout: int | None = None


class ChangeMessageVisibilityBatch(QueueRequest, kw_only=True):
    entries: list[ChangeEntry] = msgspec.field(default_factory=list)


class Settled(Result, kw_only=True):
    id: str


class SettledBatch(Result, kw_only=True):
    successful: list[Settled] | None = None
    failed: list[BatchFailure] | None = None


class Change(NamedTuple):
    """A message's new visibility, checked."""

    handle: Handle
    seconds: int


async def delete_message(exchange: Exchange, request: DeleteMessage) -> None:
    queue = await exchange.find_queue(request)
    handle = _read_handle(request.receipt_handle, queue)
    fault = (await _delete(exchange, queue, [handle]))[0]
    if fault is not None:
        raise fault


async def delete_batch(exchange: Exchange, request: DeleteMessageBatch) -> SettledBatch:
    def read(entry: DeleteEntry, queue: Queue) -> Handle:
        return _read_handle(entry.receipt_handle, queue)

    return await _settle_batch(exchange, request, request.entries, read, _delete)


async def change_visibility(exchange: Exchange, request: ChangeMessageVisibility) -> None:
    queue = await exchange.find_queue(request)
    change = _read_change(request, queue)
    fault = (await _change(exchange, queue, [change]))[0]
    if fault is not None:
        raise fault


async def change_batch(exchange: Exchange, request: ChangeMessageVisibilityBatch) -> SettledBatch:
    return await _settle_batch(exchange, request, request.entries, _read_change, _change)


async def _settle_batch(
    exchange: Exchange,
    request: QueueRequest,
    entries: Sequence[E],
    read: Callable[[E, Queue], T],
    settle: Callable[[Exchange, Queue, Sequence[T]], Awaitable[Sequence[Fault | None]]],
) -> SettledBatch:
    """Settle each entry on its own; an invalid one fails alone."""
    check_entries(entries, type(request).__name__)
    queue = await exchange.find_queue(request)
    good: list[tuple[E, T]] = []
    failed = []
    for entry in entries:
        try:
            good.append((entry, read(entry, queue)))
        except Fault as wrong:
            failed.append(tell_failure(entry, wrong))
    successful = []
    faults = await settle(exchange, queue, [item for _, item in good]) if good else []
    for (entry, _), fault in zip(good, faults, strict=True):
        if fault is None:
            successful.append(Settled(id=entry.id))
        else:
            failed.append(tell_failure(entry, fault))
    return SettledBatch(successful=successful or None, failed=failed or None)


async def _delete(
    exchange: Exchange, queue: Queue, handles: Sequence[Handle]
) -> list[Fault | None]:
    """Ack messages. One whose lease has ended is deleted too, except in FIFO queues."""
    broker = exchange.broker
    receipts = list({handle.receipt: None for handle in handles})
    lost = {receipts[position] for position in await broker.ack(receipts)}
    broker.in_flight.note(queue, len(lost) - len(receipts))
    broker.noisy.note_settled(queue, (each.lane for each in receipts if each not in lost))
    faults: list[Fault | None] = [None] * len(handles)
    if not lost:
        return faults
    late = [handle.message for handle in handles if handle.receipt in lost]
    if not is_fifo(queue):
        gone = await broker.messages.delete(queue.name, late, source=Status.QUEUED)
        left = [message for message in late if message not in gone]
        await broker.messages.delete(queue.name, left, source=Status.PROCESSING)
        return faults
    found = dict(zip(late, await broker.messages.find(queue.name, late), strict=True))
    for position, handle in enumerate(handles):
        message = found.get(handle.message) if handle.receipt in lost else None
        if message is not None and message.status in _UNSETTLED:
            faults[position] = Refusal.EXPIRED_HANDLE.fault(handle=handle.text)
    return faults


async def _change(
    exchange: Exchange, queue: Queue, changes: Sequence[Change]
) -> list[Fault | None]:
    faults: list[Fault | None] = [None] * len(changes)
    by_seconds: dict[int, list[int]] = {}
    for position, change in enumerate(changes):
        by_seconds.setdefault(change.seconds, []).append(position)
    for seconds, positions in by_seconds.items():
        handles = [changes[position].handle for position in positions]
        kept = await _extend(exchange, queue, handles, seconds)
        lost = [position for position, leased in zip(positions, kept, strict=True) if not leased]
        if lost:
            handles = [changes[position].handle for position in lost]
            late = await _change_late(exchange, queue, handles, seconds)
            for position, fault in zip(lost, late, strict=True):
                faults[position] = fault
    return faults


async def _extend(
    exchange: Exchange, queue: Queue, handles: Sequence[Handle], seconds: int
) -> list[bool]:
    """Set a new deadline from now; zero nacks. Return which messages were leased."""
    broker = exchange.broker
    if seconds:
        lease = timedelta(seconds=seconds)
        untils = await broker.extend([handle.receipt for handle in handles], lease=lease)
        broker.expect_expiry(lease)
        return [until is not None for until in untils]
    outcomes = await broker.nack([Nack(*handle.receipt, delay=_NOW) for handle in handles])
    returned = zip(handles, outcomes, strict=True)
    broker.noisy.note_settled(
        queue, (handle.lane for handle, outcome in returned if outcome is not Outcome.LOST)
    )
    if Outcome.DEAD in outcomes and queue.settings.dead_letter_queue is not None:
        await broker.dead_letters.redrive_by_policy(queue.name)
    return [outcome is not Outcome.LOST for outcome in outcomes]


async def _change_late(
    exchange: Exchange, queue: Queue, handles: Sequence[Handle], seconds: int
) -> list[Fault | None]:
    """Change the visibility by handles whose own lease has ended, as far as AWS does.

    In a standard queue it changes for the newest receive of the message, if that is in flight. Otherwise nothing
    changes, and only a message that is gone is a fault.
    """
    found = await exchange.broker.messages.find(queue.name, [handle.message for handle in handles])
    newest = []
    faults: list[Fault | None] = []
    for handle, message in zip(handles, found, strict=True):
        exists = message is not None and message.status in _UNSETTLED
        faults.append(None if exists else Refusal.GONE.fault(handle=handle.text))
        if message is not None and message.status == Status.PROCESSING and message.token:
            newest.append(handle._replace(token=message.token))
    if newest and not is_fifo(queue):
        await _extend(exchange, queue, newest, seconds)
    return faults


def _read_handle(text: str, queue: Queue) -> Handle:
    if not text:
        raise Refusal.MISSING.fault(parameter="ReceiptHandle")
    return read_handle(text, queue.queue_id)


def _read_change(request: ChangeMessageVisibility | ChangeEntry, queue: Queue) -> Change:
    seconds = request.visibility_timeout
    if seconds is None:
        raise Refusal.MISSING.fault(parameter="VisibilityTimeout")
    if not 0 <= seconds <= LONGEST_VISIBILITY:
        raise Refusal.CHANGED_VISIBILITY.fault(value=seconds)
    handle = _read_handle(request.receipt_handle, queue)
    if time() + seconds - handle.received / 1000 > LONGEST_VISIBILITY + 1:
        raise Refusal.TOTAL_VISIBILITY.fault(value=seconds)
    return Change(handle, seconds)
