"""The routes that dequeue messages."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from laneway.server.access import named
from laneway.server.claims import Claims
from laneway.server.operations import Operation, Response, Role
from laneway.server.responses import Answer, encode
from laneway.server.rest.deliveries import DeliveryWriter, DequeueContext
from laneway.server.rest.wire import (
    QUEUE_NOT_FOUND,
    MessageObject,
    MessageType,
    QueueName,
    Reply,
    Seconds,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laneway.server.calls import Call

# A long poll may wait for a day.
LONGEST_WAIT = 86_400

NOTHING = Answer(404, encode(Reply(message="Message not found")))


class Dequeue(msgspec.Struct, kw_only=True):
    """Which message to dequeue, how long to wait for one, and how long to lease it."""

    timeout: Annotated[
        float,
        Meta(
            ge=0,
            le=LONGEST_WAIT,
            description=(
                "Seconds to wait for a message if none is ready, at most 86,400 (a day). "
                "Default 0: do not wait."
            ),
        ),
    ] = 0
    ack_timeout: Annotated[
        Seconds | None,
        Meta(
            description="Lease duration in seconds, at most ten years. Default: the message's own, else "
            "the queue's."
        ),
    ] = msgspec.field(name="ackTimeout", default=None)
    type: Annotated[
        MessageType | None,
        Meta(description="Dequeue only messages of this type. Default: any type."),
    ] = None
    consumer_id: Annotated[
        Annotated[str, Meta(max_length=255)] | None,
        Meta(
            description="Name of the consumer, shown while the message is in flight and in the activity "
            "log."
        ),
    ] = msgspec.field(name="consumerId", default=None)
    queue: Annotated[
        QueueName | None,
        Meta(description="Queue to dequeue from. Default: the server's default queue."),
    ] = None

    @property
    def lease(self) -> timedelta | None:
        return None if self.ack_timeout is None else timedelta(seconds=self.ack_timeout)


class DequeueMany(Dequeue, kw_only=True):
    count: Annotated[
        int,
        Meta(
            ge=1,
            le=100,
            description="Messages per batch, 1 to 100. Fewer are returned if fewer are ready.",
        ),
    ]


class DequeuedBatch(msgspec.Struct):
    """The messages that were dequeued."""

    messages: Annotated[
        list[MessageObject],
        Meta(description="The messages, in the order in which they are to be processed."),
    ]
    count: Annotated[int, Meta(description="How many messages were returned.")]


async def dequeue_message(call: Call[Dequeue, None]) -> Answer:
    return await _dequeue(call, 1, _answer_one)


async def dequeue_messages(call: Call[DequeueMany, None]) -> Answer:
    return await _dequeue(call, call.parameters.count, _answer_batch)


async def _dequeue(
    call: Call[Any, None], count: int, answer: Callable[[Sequence[str]], Answer]
) -> Answer:
    """Claim up to `count` messages and return the answer that `answer` makes of their JSON."""
    wanted: Dequeue = call.parameters
    name = wanted.queue or call.settings.queue
    queues = call.service.broker.queues
    async with Claims(call) as claims:
        queue = await queues.find(name)
        tokens = await call.service.find_lease_tokens()
        spans = await claims.make(
            call.service.broker.claim_spans(
                name,
                count,
                wait=timedelta(seconds=wanted.timeout),
                lease=wanted.lease,
                consumer=wanted.consumer_id,
                partition=wanted.type,
            ),
            wait=wanted.timeout > 0,
        )
        # Its settings may have changed during a long poll.
        queue = queues.peek(name) or queue
        context = DequeueContext(queue, wanted.consumer_id, wanted.lease, tokens)
        return answer(call.service.own(DeliveryWriter).write(spans, context))


def _answer_one(messages: Sequence[str]) -> Answer:
    return Answer(200, messages[0].encode()) if messages else NOTHING


def _answer_batch(messages: Sequence[str]) -> Answer:
    """Return what `DequeuedBatch` describes; the messages are JSON already."""
    body = f'{{"messages":[{",".join(messages)}],"count":{len(messages)}}}'
    return Answer(200, body.encode())


@named
async def _dequeued_queue(call: Call[Any, Any], /) -> Sequence[str]:
    return (call.parameters.queue or call.settings.queue,)


OPERATIONS = (
    Operation(
        method="GET",
        path="/queue/message",
        handler=dequeue_message,
        summary="Dequeue the next message, or wait for one",
        description=(
            "Returns the next message and leases it to the caller until `locked_until`. "
            "Messages of higher priority come first, then older ones. Ack, nack or touch the "
            "message with its `lock_token` before the lease expires; otherwise it is "
            "delivered again and the attempt counts. If the client disconnects while it "
            "waits, no message is lost to it."
        ),
        parameters=Dequeue,
        answers={
            200: Response(MessageObject, "The message, leased to the caller."),
            404: Response(
                Reply,
                "No message became ready within `timeout`, or the queue does not exist. "
                "The text says which.",
            ),
        },
        role=Role.WRITE,
        reach=_dequeued_queue,
    ),
    Operation(
        method="GET",
        path="/queue/messages/batch",
        handler=dequeue_messages,
        summary="Dequeue up to `count` messages, or wait for some",
        description=(
            "Returns up to `count` messages and leases each to the caller until its "
            "`locked_until`. It responds as soon as one message is ready and does not wait "
            "for the batch to fill. Without ready messages the answer is an empty list. Each "
            "message is settled on its own, by its id and `lock_token`."
        ),
        parameters=DequeueMany,
        answers={
            200: Response(
                DequeuedBatch,
                "The messages, leased to the caller; an empty list if none became ready "
                "within `timeout`.",
            ),
            404: QUEUE_NOT_FOUND,
        },
        role=Role.WRITE,
        reach=_dequeued_queue,
    ),
)
