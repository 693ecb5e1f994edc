"""The routes that hand messages out."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from laneway.engine.deliveries import count_messages, list_receipts
from laneway.server.access import named
from laneway.server.metrics import Traffic
from laneway.server.operations import Operation, Role
from laneway.server.responses import Answer, encode
from laneway.server.rest.deliveries import HandoutWriter, Taker
from laneway.server.rest.wire import MessageObject, MessageType, QueueName, Reply, Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.server.calls import Call

# A long poll may wait for a day.
LONGEST_WAIT = 86_400

NOTHING = Answer(404, encode(Reply(message="Message not found")))


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
    messages = await _take(call, 1)
    return Answer(200, messages[0].encode()) if messages else NOTHING


async def take_messages(call: Call[TakeMany, None]) -> Answer:
    messages = await _take(call, call.parameters.count)
    # As Taken says, of messages that are JSON already.
    body = f'{{"messages":[{",".join(messages)}],"count":{len(messages)}}}'
    return Answer(200, body.encode())


async def _take(call: Call[Any, None], count: int) -> list[str]:
    """Return what was taken, as JSON; when the client has gone meanwhile, it is given back at once."""
    wanted: Take = call.parameters
    name = wanted.queue or call.settings.queue
    broker = call.service.broker
    claim = broker.claim_spans(
        name,
        count,
        wait=timedelta(seconds=wanted.timeout),
        lease=wanted.lease,
        consumer=wanted.consumer_id,
        partition=wanted.type,
    )
    if not wanted.timeout:
        handouts = await claim
    else:
        handouts = await call.attend(claim, otherwise=[])
    if handouts and call.is_gone():
        await broker.release(list_receipts(handouts))
        call.leave()
    call.service.metrics.count_messages(Traffic.DELIVERED, count_messages(handouts))
    queue = await broker.queues.find(name)
    return call.service.own(HandoutWriter).write(
        handouts, Taker(queue, wanted.consumer_id, wanted.lease)
    )


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
        answers={200: MessageObject, 404: Reply},
        role=Role.WRITE,
        reach=_queue_taken_from,
    ),
    Operation(
        method="GET",
        path="/queue/messages/batch",
        handler=take_messages,
        summary="Take up to `count` messages",
        parameters=TakeMany,
        answers={200: Taken, 404: Reply},
        role=Role.WRITE,
        reach=_queue_taken_from,
    ),
)
