"""The routes that hand messages out."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from laneway.server.answers import Answer, answer_json, encode
from laneway.server.metrics import Traffic
from laneway.server.operations import Operation, Role
from laneway.server.rest.objects import show_deliveries
from laneway.server.rest.wire import Message, MessageObject, MessageType, QueueName, Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.messages import Delivery
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
    deliveries = await _claim(call, 1)
    if not deliveries:
        return NOTHING
    shown = await _show(call, deliveries)
    return answer_json(200, shown[0])


async def take_messages(call: Call[TakeMany, None]) -> Answer:
    deliveries = await _claim(call, call.parameters.count)
    shown = await _show(call, deliveries) if deliveries else []
    return answer_json(200, Taken(shown, len(shown)))


async def _claim(call: Call[Any, None], count: int) -> list[Delivery]:
    """Return what was taken; when the client has gone meanwhile, it is given back at once."""
    wanted: Take = call.parameters
    claim = call.service.broker.claim(
        wanted.queue or call.settings.queue,
        count,
        wait=timedelta(seconds=wanted.timeout),
        lease=wanted.lease,
        consumer=wanted.consumer_id,
        partition=wanted.type,
    )
    if not wanted.timeout:
        deliveries = await claim
    else:
        deliveries = await call.attend(claim, otherwise=[])
    if deliveries and call.is_gone():
        await call.service.broker.release([delivery.receipt for delivery in deliveries])
        call.leave()
    return deliveries


async def _show(call: Call[Any, None], deliveries: Sequence[Delivery]) -> list[MessageObject]:
    wanted: Take = call.parameters
    call.service.metrics.count_messages(Traffic.DELIVERED, len(deliveries))
    queue = await call.broker.find_queue(wanted.queue or call.settings.queue)
    return show_deliveries(deliveries, queue, consumer=wanted.consumer_id, lease=wanted.lease)


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
