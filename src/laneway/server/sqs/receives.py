"""ReceiveMessage: the messages it claims, and how a client sees them."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import TYPE_CHECKING

import msgspec

from laneway.server.sqs.attempts import find_attempt
from laneway.server.sqs.attributes import READABLE, is_fifo, read_visibility, read_wait
from laneway.server.sqs.claims import claim
from laneway.server.sqs.contents import read_headers, show_body
from laneway.server.sqs.digests import digest_attributes, digest_body
from laneway.server.sqs.handles import write_handle
from laneway.server.sqs.ids import show_id, show_sequence
from laneway.server.sqs.texts import Refusal
from laneway.server.sqs.wire import AttributeValue, QueueRequest, Result

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from laneway.domain.ids import MessageId
    from laneway.domain.messages import Delivery
    from laneway.domain.queues import Queue
    from laneway.server.sqs.contents import Headers
    from laneway.server.sqs.exchange import Exchange

MOST_MESSAGES = 10
LONGEST_VISIBILITY = 43_200
LONGEST_WAIT = 20

SYSTEM_ATTRIBUTES = frozenset(
    {
        "SenderId",
        "SentTimestamp",
        "ApproximateReceiveCount",
        "ApproximateFirstReceiveTimestamp",
        "SequenceNumber",
        "MessageDeduplicationId",
        "MessageGroupId",
        "AWSTraceHeader",
        "DeadLetterQueueSourceArn",
    }
)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_FIRST = "ApproximateFirstReceiveTimestamp"
# Seconds that a call waits, beyond its own wait, for an earlier call of the same attempt to end.
_TURN = 2.0
_ATTEMPT = re.compile(r"[A-Za-z0-9!-/:-@\[-`{-~]{1,128}")


class ReceiveMessage(QueueRequest, kw_only=True):
    attribute_names: list[str] = msgspec.field(default_factory=list)
    message_system_attribute_names: list[str] = msgspec.field(default_factory=list)
    message_attribute_names: list[str] = msgspec.field(default_factory=list)
    max_number_of_messages: int | None = None
    visibility_timeout: int | None = None
    wait_time_seconds: int | None = None
    receive_request_attempt_id: str | None = None


class Message(Result, kw_only=True):
    message_id: str
    receipt_handle: str
    md5_of_body: str
    body: str
    attributes: dict[str, str] | None = None
    md5_of_message_attributes: str | None = None
    message_attributes: dict[str, AttributeValue] | None = None


class Messages(Result, kw_only=True):
    messages: list[Message] | None = None


async def receive_message(exchange: Exchange, request: ReceiveMessage) -> Messages:
    queue = await exchange.find_queue(request)
    _check(request)
    if request.receive_request_attempt_id is not None and is_fifo(queue):
        return await _receive_again(exchange, request, queue)
    return await _show(exchange, request, queue, await _receive(exchange, request, queue))


async def _receive_again(exchange: Exchange, request: ReceiveMessage, queue: Queue) -> Messages:
    """Return what an earlier call of the same attempt got, if all of it is still leased."""
    attempt = request.receive_request_attempt_id
    if not attempt or not _ATTEMPT.fullmatch(attempt):
        raise Refusal.ID.fault(value=attempt, parameter="ReceiveRequestAttemptId")
    seconds = request.visibility_timeout
    lease = timedelta(seconds=read_visibility(queue) if seconds is None else seconds)
    began = monotonic()
    patience = _find_wait(request, queue) + _TURN
    async with exchange.attempts.take_turn(queue, attempt, patience=patience) as mine:
        if not mine:
            return Messages()
        again = await find_attempt(exchange.broker, queue, attempt, lease=lease)
        if again is not None:
            return await _show(exchange, request, queue, again.deliveries, again.received)
        deliveries = await _receive(exchange, request, queue, monotonic() - began)
        if not deliveries:
            return Messages()
        received = _find_received(deliveries[0], request, _find_visibility(request, queue))
        await exchange.broker.receive_attempts.note(
            queue.name, attempt, deliveries, received=received
        )
    return await _show(exchange, request, queue, deliveries, received)


async def _receive(
    exchange: Exchange, request: ReceiveMessage, queue: Queue, waited: float = 0
) -> list[Delivery]:
    """Claim what the call asks for. waited: the seconds of its wait that have passed already."""
    wait = _find_wait(request, queue)
    return await claim(
        exchange,
        queue,
        request.max_number_of_messages or 1,
        wait=max(wait - waited, 0),
        visibility=request.visibility_timeout,
    )


async def _show(
    exchange: Exchange,
    request: ReceiveMessage,
    queue: Queue,
    deliveries: Sequence[Delivery],
    received: int | None = None,
) -> Messages:
    """Return the answer. received: when an earlier call got it, in milliseconds of Unix time."""
    if not deliveries:
        return Messages()
    names = {*request.attribute_names, *request.message_system_attribute_names}
    if "All" in names:
        names = set(SYSTEM_ATTRIBUTES)
    firsts: Mapping[MessageId, int] = {}
    repeated = [delivery.id for delivery in deliveries if delivery.attempt > 1]
    if repeated and _FIRST in names:
        firsts = await exchange.broker.messages.find_first_claims(queue.name, repeated)
    lease = _find_visibility(request, queue)
    shown = []
    for delivery in deliveries:
        headers = read_headers(delivery.headers)
        at = _find_received(delivery, request, lease) if received is None else received
        body = show_body(delivery.body)
        moved = headers.moved
        message = Message(
            message_id=(moved and moved.id) or show_id(*delivery[1:4]),
            receipt_handle=write_handle(delivery, queue.queue_id, at),
            md5_of_body=digest_body(body.encode("utf-8", "surrogatepass")),
            body=body,
        )
        if names:
            first = firsts.get(delivery.id, at) if _FIRST in names else at
            system = _show_system(exchange, delivery, headers, queue, first=first, names=names)
            message.attributes = system or None
        if request.message_attribute_names and headers.sqs is not None:
            chosen = _choose(headers.sqs.attributes, request.message_attribute_names)
            if chosen:
                message.message_attributes = chosen
                message.md5_of_message_attributes = digest_attributes(chosen)
        shown.append(message)
    return Messages(messages=shown)


def _find_wait(request: ReceiveMessage, queue: Queue) -> int:
    seconds = request.wait_time_seconds
    return read_wait(queue) if seconds is None else seconds


def _find_visibility(request: ReceiveMessage, queue: Queue) -> int:
    return request.visibility_timeout or read_visibility(queue)


def _find_received(delivery: Delivery, request: ReceiveMessage, visibility: int) -> int:
    """Return when a message was claimed, in milliseconds of Unix time, from its deadline."""
    if request.visibility_timeout or delivery.lease is None:
        lease: float = visibility
    else:
        lease = delivery.lease.total_seconds()
    return int((delivery.until.timestamp() - lease) * 1000)


def _show_system(
    exchange: Exchange,
    delivery: Delivery,
    headers: Headers,
    queue: Queue,
    *,
    first: int,
    names: Collection[str],
) -> dict[str, str]:
    moved = headers.moved
    sent = moved.sent if moved else None
    values: dict[str, str | None] = {
        "SenderId": exchange.find_owned(queue.name).owner.account,
        "SentTimestamp": str(sent or (delivery.created_at - _EPOCH) // _MILLISECOND),
        # In all queues that it was moved through.
        "ApproximateReceiveCount": str(delivery.attempt + (moved.received if moved else 0)),
        _FIRST: str(first),
        "MessageGroupId": delivery.partition or None,
        "MessageDeduplicationId": delivery.dedup_key or (moved.key if moved else None),
        "AWSTraceHeader": headers.sqs.trace if headers.sqs else None,
        "DeadLetterQueueSourceArn": moved.source if moved else None,
    }
    if is_fifo(queue):
        values["SequenceNumber"] = show_sequence(delivery.seq)
    return {name: value for name, value in values.items() if value is not None and name in names}


def _choose(
    attributes: Mapping[str, AttributeValue], wanted: Iterable[str]
) -> dict[str, AttributeValue]:
    """Return the attributes that are named: by name, by a prefix with .*, or by All, * or .*."""
    names = set(wanted)
    if names & _EVERYTHING:
        return dict(attributes)
    # The period is of the pattern: Hel.* is for Hello too.
    beginnings = tuple(name.removesuffix(".*") for name in names if name.endswith(".*"))
    return {
        name: value
        for name, value in attributes.items()
        if name in names or name.startswith(beginnings)
    }


_EVERYTHING = frozenset({"All", "*", ".*"})


def _check(request: ReceiveMessage) -> None:
    _check_range(Refusal.COUNT, request.max_number_of_messages, 1, MOST_MESSAGES)
    _check_range(Refusal.VISIBILITY, request.visibility_timeout, 0, LONGEST_VISIBILITY)
    _check_range(Refusal.WAIT, request.wait_time_seconds, 0, LONGEST_WAIT)
    for name in (*request.attribute_names, *request.message_system_attribute_names):
        if name not in SYSTEM_ATTRIBUTES and name not in READABLE:
            raise Refusal.ATTRIBUTE.fault(name=name)


def _check_range(refusal: Refusal, value: int | None, low: int, high: int) -> None:
    if value is not None and not low <= value <= high:
        raise refusal.fault(value=value)
