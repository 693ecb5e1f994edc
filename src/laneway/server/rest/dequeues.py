"""The routes that dequeue messages."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from laneway.server.access import named
from laneway.server.claims import Claims
from laneway.server.operations import Operation, Role
from laneway.server.responses import Answer, encode
from laneway.server.rest.deliveries import HandoutWriter, Taker
from laneway.server.rest.wire import Message, MessageObject, MessageType, QueueName, Seconds

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from laneway.server.calls import Call

# A long poll may wait for a day.
LONGEST_WAIT = 86_400

NOTHING = Answer(404, encode(Message(message="Message not found")))


class Take(msgspec.Struct, kw_only=True):
    """Which message to take, and for how long; timeout: how long to wait for one."""

    timeout: Annotated[float, Meta(ge=0, le=LONGEST_WAIT)] = 0
    ack_timeout: Seconds | None = msgspec.field(name="ackTimeout", default=None)
    type: MessageType | None = None
    consumer_id: Annotated[str, Meta(max_length=255)] | None = msgspec.field(
        name="consumerId", default=None
    )
    queue: QueueName | None = None

    @property
    def lease(self) -> timedelta | None:
        return None if self.ack_timeout is None else timedelta(seconds=self.ack_timeout)


class TakeMany(Take, kw_only=True):
    count: Annotated[int, Meta(ge=1, le=100)]


class Taken(msgspec.Struct):
    messages: list[MessageObject]
    count: int


async def take_message(call: Call[Take, None]) -> Answer:
    return await _dequeue(call, 1, _answer_one)


async def take_messages(call: Call[TakeMany, None]) -> Answer:
    return await _dequeue(call, call.parameters.count, _answer_batch)


async def _dequeue(
    call: Call[Any, None], count: int, answer: Callable[[Sequence[str]], Answer]
) -> Answer:
    """Claim up to `count` messages and return the answer that `answer` makes of their JSON."""
    wanted: Take = call.parameters
    name = wanted.queue or call.settings.queue
    queues = call.service.broker.queues
    async with Claims(call) as claims:
        queue = await queues.find(name)
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
        taker = Taker(queues.peek(name) or queue, wanted.consumer_id, wanted.lease)
        return answer(call.service.own(HandoutWriter).write(spans, taker))


def _answer_one(messages: Sequence[str]) -> Answer:
    return Answer(200, messages[0].encode()) if messages else NOTHING


def _answer_batch(messages: Sequence[str]) -> Answer:
    """Return what `Taken` describes; the messages are JSON already."""
    body = f'{{"messages":[{",".join(messages)}],"count":{len(messages)}}}'
    return Answer(200, body.encode())


@named
async def _queue_taken_from(call: Call[Any, Any], /) -> Sequence[str]:
    return (call.parameters.queue or call.settings.queue,)


OPERATIONS = (
    Operation(
        method="GET",
        path="/queue/message",
        handler=take_message,
        summary="Take the next message, or wait for one",
        parameters=Take,
        answers={200: MessageObject, 404: Message},
        role=Role.WRITE,
        reach=_queue_taken_from,
    ),
    Operation(
        method="GET",
        path="/queue/messages/batch",
        handler=take_messages,
        summary="Take up to `count` messages",
        parameters=TakeMany,
        answers={200: Taken, 404: Message},
        role=Role.WRITE,
        reach=_queue_taken_from,
    ),
)
