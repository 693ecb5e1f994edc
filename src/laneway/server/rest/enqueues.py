"""The routes that add messages."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta, Raw

from laneway.domain.messages import OutgoingMessage
from laneway.server.access import named
from laneway.server.errors import InvalidInput, Issue, MalformedBody
from laneway.server.operations import Operation, Role
from laneway.server.responses import Answer, answer_json, encode
from laneway.server.rest.wire import (
    LONGEST,
    Attempts,
    Message,
    MessageType,
    Priority,
    QueueName,
    Seconds,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.server.calls import Call
    from laneway.server.settings import ServerSettings


class NewMessage(msgspec.Struct):
    """A message to add. The payload is any JSON and is kept byte for byte."""

    type: MessageType
    payload: Raw
    priority: Priority = 0
    ack_timeout: Seconds | None = msgspec.field(name="ackTimeout", default=None)
    max_attempts: Attempts | None = msgspec.field(name="maxAttempts", default=None)
    queue: QueueName | None = None
    consumer_id: str | None = msgspec.field(name="consumerId", default=None)
    delay: Annotated[float, Meta(ge=0, le=LONGEST)] | None = None
    dedup_key: Annotated[str, Meta(min_length=1, max_length=512)] | None = msgspec.field(
        name="dedupKey", default=None
    )


class Added(msgspec.Struct):
    message: str
    id: str
    queue: str


class BatchAdded(msgspec.Struct):
    message: str
    ids: list[str]


# A batch may hold this many messages, in a body within the server's limit.
Batch = Annotated[list[NewMessage], Meta(min_length=1, max_length=10_000)]


async def add_message(call: Call[None, NewMessage]) -> Answer:
    body = call.body
    settings = call.service.settings
    queue = body.queue or settings.queue
    pushed = await call.service.broker.push(queue, (read_message(body, settings, ()),))
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
    pushed = await call.service.broker.push_each(messages)
    count = len(messages)
    return answer_json(
        201,
        BatchAdded(
            f"Batch processed: {count}/{count} messages enqueued",
            [f"{segment}-{lane}-{seq}" for segment, lane, seq, _ in pushed],
        ),
    )


def read_message(
    body: NewMessage, settings: ServerSettings, place: Sequence[int]
) -> OutgoingMessage:
    if body.priority >= settings.priority_levels:
        highest = settings.priority_levels - 1
        raise InvalidInput([Issue("too_big", (*place, "priority"), f"Expected `int` <= {highest}")])
    if "\0" in body.type or "\0" in (body.queue or "") or "\0" in (body.dedup_key or ""):
        texts = {"type": body.type, "queue": body.queue, "dedupKey": body.dedup_key}
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
        summary="Add a message",
        body=NewMessage,
        example={"type": "mail", "payload": {"to": "ada@example.org"}, "priority": 5},
        answers={201: Added, 404: Message},
        role=Role.WRITE,
        reach=_queue_of_message,
    ),
    Operation(
        method="POST",
        path="/queue/batch",
        handler=add_batch,
        summary="Add many messages, all or none",
        body=Batch,
        example=[
            {"type": "mail", "payload": {"n": 1}},
            {"type": "mail", "payload": {"n": 2}, "delay": 60},
        ],
        answers={201: BatchAdded, 404: Message},
        role=Role.WRITE,
        reach=_queues_of_batch,
    ),
)
