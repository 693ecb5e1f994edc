"""The routes that enqueue messages."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Raw

from laneway.domain.messages import OutgoingMessage
from laneway.server.access import named
from laneway.server.errors import InvalidInput, Issue, MalformedBody
from laneway.server.operations import Operation, Response, Role
from laneway.server.responses import Answer, answer_json, encode
from laneway.server.rest.wire import (
    LONGEST,
    QUEUE_NOT_FOUND,
    Attempts,
    MessageType,
    NewPriority,
    QueueName,
    Seconds,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.server.calls import Call
    from laneway.server.settings import ServerSettings


class NewMessage(msgspec.Struct):
    """A message to enqueue."""

    type: Annotated[
        MessageType,
        Meta(
            description="Type of the message: its partition, the unit of order. At most 255 characters."
        ),
    ]
    payload: Annotated[Raw, Meta(description="Any JSON. It is delivered byte for byte.")]
    priority: Annotated[
        NewPriority,
        Meta(
            description="Priority, from 0 (the default) to the server's highest level (9 unless "
            "configured). Higher numbers are delivered first."
        ),
    ] = 0
    ack_timeout: Annotated[
        Seconds | None,
        Meta(description="Lease duration in seconds, at most ten years. Default: the queue's."),
    ] = msgspec.field(name="ackTimeout", default=None)
    max_attempts: Annotated[
        Attempts | None,
        Meta(
            description="Deliveries before the message becomes a dead letter, 1 to 32,767. Default: the "
            "queue's."
        ),
    ] = msgspec.field(name="maxAttempts", default=None)
    queue: Annotated[
        QueueName | None,
        Meta(description="Queue to enqueue to. Default: the server's default queue."),
    ] = None
    consumer_id: Annotated[
        Annotated[str, Meta(max_length=255)] | None,
        Meta(
            description="Name of the producer, at most 255 characters. The activity log shows it as the "
            "`consumer_id` of the `enqueue`."
        ),
    ] = msgspec.field(name="consumerId", default=None)
    delay: Annotated[
        Annotated[float, Meta(ge=0, le=LONGEST)] | None,
        Meta(
            description="Seconds before the message is delivered for the first time, at most ten years. "
            "Default: 0."
        ),
    ] = None
    dedup_key: Annotated[
        Annotated[str, Meta(min_length=1, max_length=512)] | None,
        Meta(
            description="Dedup key, 1 to 512 characters. A message with a key that the queue has seen "
            "within its dedup window is not added again."
        ),
    ] = msgspec.field(name="dedupKey", default=None)


class Added(msgspec.Struct):
    """The message that was enqueued."""

    message: Annotated[str, Meta(description="What happened, in words for people.")]
    id: Annotated[
        str,
        Meta(
            description="Message id. For a duplicate, the id of the message that has the dedup key."
        ),
    ]
    queue: Annotated[str, Meta(description="Queue that the message is in.")]


class BatchAdded(msgspec.Struct):
    """The messages that were enqueued."""

    message: Annotated[str, Meta(description="What happened, in words for people.")]
    ids: Annotated[
        list[str],
        Meta(
            description="Message ids in the order of the request. For a duplicate, the id of the message "
            "that has the dedup key."
        ),
    ]


# Messages per batch; the server's limit on bodies applies too.
Batch = Annotated[list[NewMessage], Meta(min_length=1, max_length=10_000)]


async def add_message(call: Call[None, NewMessage]) -> Answer:
    body = call.body
    settings = call.service.settings
    queue = body.queue or settings.queue
    producers = None if body.consumer_id is None else (body.consumer_id,)
    message = read_message(body, settings, ())
    pushed = await call.service.broker.push(queue, (message,), producers=producers)
    segment, lane, seq, _ = pushed[0]
    return Answer(
        201,
        b'{"message":"Message added successfully","id":"%d-%d-%d","queue":%b}'
        % (segment, lane, seq, encode(queue)),
    )


async def add_batch(call: Call[None, list[NewMessage]]) -> Answer:
    settings = call.service.settings
    default = settings.queue
    messages = [
        (body.queue or default, read_message(body, settings, (index,)))
        for index, body in enumerate(call.body)
    ]
    pushed = await call.service.broker.push_each(messages, producers=list_producers(call.body))
    count = len(messages)
    return answer_json(
        201,
        BatchAdded(
            f"Batch processed: {count}/{count} messages enqueued",
            [f"{segment}-{lane}-{seq}" for segment, lane, seq, _ in pushed],
        ),
    )


def list_producers(bodies: Sequence[NewMessage]) -> list[str | None] | None:
    """Return the producer of each message, or None if none is named."""
    producers = [body.consumer_id for body in bodies]
    return producers if any(producers) else None


def read_message(
    body: NewMessage, settings: ServerSettings, place: Sequence[int]
) -> OutgoingMessage:
    if body.priority >= settings.priority_levels:
        highest = settings.priority_levels - 1
        raise InvalidInput([Issue("too_big", (*place, "priority"), f"Expected `int` <= {highest}")])
    if (
        "\0" in body.type
        or "\0" in (body.queue or "")
        or "\0" in (body.dedup_key or "")
        or "\0" in (body.consumer_id or "")
    ):
        texts = {
            "type": body.type,
            "queue": body.queue,
            "dedupKey": body.dedup_key,
            "consumerId": body.consumer_id,
        }
        field = next(name for name, text in texts.items() if "\0" in (text or ""))
        raise InvalidInput([Issue("custom", (*place, field), "A NUL cannot be stored")])
    try:
        payload = str(body.payload, "utf-8")
    except UnicodeDecodeError:
        raise MalformedBody("Malformed JSON in request body") from None
    return OutgoingMessage(
        payload,
        body.type,
        body.priority,
        timedelta(seconds=body.delay) if body.delay else None,
        body.dedup_key,
        None,
        timedelta(seconds=body.ack_timeout) if body.ack_timeout else None,
        body.max_attempts,
    )


@named
async def _queue_of_message(call: Call[Any, Any], /) -> Sequence[str]:
    return (call.body.queue or call.settings.queue,)


@named
async def _queues_of_batch(call: Call[Any, Any], /) -> Sequence[str]:
    return list({body.queue or call.settings.queue for body in call.body})


OPERATIONS = (
    Operation(
        method="POST",
        path="/queue/message",
        handler=add_message,
        summary="Enqueue a message",
        description=(
            "Adds one message to a queue. The message is on disk before the server responds, "
            "except on an unlogged queue. After a timeout or a 503 the message may have been "
            "added: retry with the same `dedupKey` to add it only once. A payload that is too "
            "large is refused with 413."
        ),
        body=NewMessage,
        example={"type": "mail", "payload": {"to": "ada@example.org"}, "priority": 5},
        answers={
            201: Response(
                Added, "The message is enqueued, or a message with this dedup key already was."
            ),
            404: QUEUE_NOT_FOUND,
        },
        role=Role.WRITE,
        reach=_queue_of_message,
    ),
    Operation(
        method="POST",
        path="/queue/batch",
        handler=add_batch,
        summary="Enqueue many messages, all or none",
        description=(
            "Adds up to 10,000 messages, to one queue or to several, in one transaction. All "
            "of them are on disk before the server responds, or none is added. Messages of "
            "one type keep the order of the batch. After a timeout or a 503 the batch may "
            "have been added: retry with the same dedup keys."
        ),
        body=Batch,
        example=[
            {"type": "mail", "payload": {"n": 1}},
            {"type": "mail", "payload": {"n": 2}, "delay": 60},
        ],
        answers={
            201: Response(
                BatchAdded, "All messages are enqueued. Those with known dedup keys already were."
            ),
            404: QUEUE_NOT_FOUND,
        },
        role=Role.WRITE,
        reach=_queues_of_batch,
    ),
)
