"""SendMessage and SendMessageBatch."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from laneway.domain.messages import OutgoingMessage
from laneway.server.sqs.attributes import has_content_deduplication, is_fifo, read_maximum_size
from laneway.server.sqs.batches import check_entries, tell_failure
from laneway.server.sqs.contents import (
    check_attributes,
    find_trace,
    read_body,
    read_trace,
    show_body,
    write_headers,
)
from laneway.server.sqs.digests import digest_attributes
from laneway.server.sqs.errors import Fault
from laneway.server.sqs.ids import show_id, show_sequence
from laneway.server.sqs.texts import Refusal
from laneway.server.sqs.wire import AttributeValue, BatchFailure, QueueRequest, Request, Result

if TYPE_CHECKING:
    from laneway.domain.messages import Pushed
    from laneway.domain.queues import Queue
    from laneway.server.sqs.contents import Body
    from laneway.server.sqs.exchange import Exchange

LONGEST_DELAY = 900
LARGEST_BATCH = 1_048_576
LONGEST_ID = 128

_NO_DELAY = timedelta(0)


class Parcel(Request, kw_only=True):
    """The parts of a message, alone or in a batch."""

    message_body: msgspec.Raw = msgspec.Raw(b'""')
    delay_seconds: int | None = None
    message_attributes: dict[str, AttributeValue] = msgspec.field(default_factory=dict)
    message_system_attributes: dict[str, AttributeValue] = msgspec.field(default_factory=dict)
    message_deduplication_id: str | None = None
    message_group_id: str | None = None


class SendMessage(Parcel, kw_only=True):
    queue_url: str = ""


class SendEntry(Parcel, kw_only=True):
    id: str


class SendMessageBatch(QueueRequest, kw_only=True):
    entries: list[SendEntry] = msgspec.field(default_factory=list)


class Sent(Result, kw_only=True):
    md5_of_message_body: str
    message_id: str
    md5_of_message_attributes: str | None = None
    md5_of_message_system_attributes: str | None = None
    sequence_number: str | None = None


class SentEntry(Sent, kw_only=True):
    id: str


class SentBatch(Result, kw_only=True):
    successful: list[SentEntry] | None = None
    failed: list[BatchFailure] | None = None


class Packed(NamedTuple):
    """A message ready to push, with the digests for its sender."""

    message: OutgoingMessage
    body: Body
    size: int


async def send_message(exchange: Exchange, request: SendMessage) -> Sent:
    queue = await exchange.find_queue(request)
    fifo = is_fifo(queue)
    packed = pack(request, queue, fifo=fifo, trace=find_trace(exchange.call.request.headers))
    largest = read_maximum_size(queue)
    if packed.size > largest:
        raise Refusal.MESSAGE_LENGTH.fault(limit=largest)
    pushed = await exchange.broker.push(queue.name, (packed.message,))
    sent = Sent(md5_of_message_body=packed.body.digest, message_id=show_id(*pushed[0][:3]))
    _describe(sent, request, pushed[0], fifo=fifo)
    return sent


async def send_batch(exchange: Exchange, request: SendMessageBatch) -> SentBatch:
    check_entries(request.entries, "SendMessageBatch")
    queue = await exchange.find_queue(request)
    failed = []
    good: list[tuple[SendEntry, Packed]] = []
    total = 0
    fifo = is_fifo(queue)
    largest = read_maximum_size(queue)
    if fifo:
        _check_fifo_batch(request.entries, queue)
    trace = find_trace(exchange.call.request.headers)
    for number, entry in enumerate(request.entries, 1):
        try:
            packed = pack(entry, queue, fifo=fifo, trace=trace, number=number)
            total += packed.size
            if packed.size > largest:
                raise Refusal.ENTRY_LENGTH.fault(limit=largest)
        except Fault as fault:
            failed.append(tell_failure(entry, fault))
        else:
            good.append((entry, packed))
    if total > LARGEST_BATCH:
        raise Refusal.BATCH_LENGTH.fault(limit=LARGEST_BATCH, size=total)
    pushed = await exchange.broker.push(queue.name, [packed.message for _, packed in good])
    sent = []
    for (entry, packed), place in zip(good, pushed, strict=True):
        item = SentEntry(
            id=entry.id,
            md5_of_message_body=packed.body.digest,
            message_id=show_id(*place[:3]),
        )
        _describe(item, entry, place, fifo=fifo)
        sent.append(item)
    return SentBatch(successful=sent or None, failed=failed or None)


def pack(
    parcel: Parcel, queue: Queue, *, fifo: bool, trace: str | None = None, number: int = 0
) -> Packed:
    """Validate a message by itself and return it ready to push.

    trace: the request's, for messages that have none. number: of the entry in its batch, from 1;
    0 for a message alone.
    """
    body = read_body(parcel.message_body, number)
    size = body.size
    headers = None
    if parcel.message_attributes or parcel.message_system_attributes or trace:
        size += check_attributes(parcel.message_attributes)
        trace = read_trace(parcel.message_system_attributes) or trace
        headers = write_headers(parcel.message_attributes, trace)
    group = parcel.message_group_id
    if group is not None:
        _check_id(group, "MessageGroupId")
    delay = None
    if parcel.delay_seconds is not None:
        delay = _read_delay(parcel.delay_seconds, queue)
    if fifo:
        if not group:
            raise Refusal.MISSING.fault(parameter="MessageGroupId")
        if delay:
            raise _other_type(parcel.delay_seconds, "DelaySeconds", number)
        key = _find_key(parcel, body, queue)
        return Packed(OutgoingMessage(body.text, group, 0, None, key, headers), body, size)
    if parcel.message_deduplication_id is not None:
        raise _other_type(parcel.message_deduplication_id, "MessageDeduplicationId", number)
    return Packed(OutgoingMessage(body.text, group or "", 0, delay, None, headers), body, size)


def _other_type(value: object, parameter: str, number: int) -> Fault:
    if number:
        return Refusal.ENTRY_OTHER_TYPE.fault()
    return Refusal.OTHER_TYPE.fault(value=value, parameter=parameter)


def _describe(sent: Sent, parcel: Parcel, place: Pushed, *, fifo: bool) -> None:
    """Add the fields that only some messages have."""
    if parcel.message_attributes:
        sent.md5_of_message_attributes = digest_attributes(parcel.message_attributes)
    if parcel.message_system_attributes:
        sent.md5_of_message_system_attributes = digest_attributes(parcel.message_system_attributes)
    if fifo:
        sent.sequence_number = show_sequence(place.seq)


def _check_fifo_batch(entries: list[SendEntry], queue: Queue) -> None:
    """Refuse the whole batch if an entry has no message group or no deduplication id."""
    by_content = has_content_deduplication(queue)
    for entry in entries:
        if not entry.message_group_id:
            raise Refusal.NO_GROUP.fault()
        if entry.message_deduplication_id is None and not by_content:
            raise Refusal.NO_DEDUPLICATION_ID.fault()


def _find_key(parcel: Parcel, body: Body, queue: Queue) -> str:
    if parcel.message_deduplication_id is not None:
        _check_id(parcel.message_deduplication_id, "MessageDeduplicationId")
        return parcel.message_deduplication_id
    if not has_content_deduplication(queue):
        raise Refusal.NO_DEDUPLICATION_ID.fault()
    return sha256(show_body(body.text).encode()).hexdigest()


def _check_id(text: str, parameter: str) -> None:
    # Three times faster than a pattern. All visible ASCII characters.
    if 0 < len(text) <= LONGEST_ID and text.isascii() and text.isprintable() and " " not in text:
        return
    raise Refusal.ID.fault(value=text, parameter=parameter)


def _read_delay(seconds: int, queue: Queue) -> timedelta | None:
    if not 0 <= seconds <= LONGEST_DELAY:
        raise Refusal.DELAY.fault(value=seconds)
    if seconds:
        return timedelta(seconds=seconds)
    # Zero matters only if the queue has a delay.
    return None if queue.settings.delay is None else _NO_DELAY
