"""The route that adds messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta, Raw

from laneway.domain.messages import OutgoingMessage
from laneway.server.answers import Answer, encode
from laneway.server.errors import MalformedBody
from laneway.server.metrics import Traffic
from laneway.server.operations import Operation, Role
from laneway.server.queen.options import OPEN, Guards, read_guards
from laneway.server.queen.registry import find_or_make_queue
from laneway.server.queen.wire import (
    DEFAULT_PARTITION,
    KeyText,
    PartitionName,
    QueueName,
    show_address,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.messages import Pushed
    from laneway.server.calls import Call
    from laneway.server.queen.vault import Vault

LARGEST_BATCH = 10_000


class Item(msgspec.Struct, kw_only=True):
    """A message to add. The payload is any JSON; it comes back as it was sent."""

    queue: QueueName
    payload: Raw
    partition: PartitionName | None = None
    transaction_id: KeyText | None = msgspec.field(name="transactionId", default=None)
    trace_id: UUID | None = msgspec.field(name="traceId", default=None)


class Items(msgspec.Struct):
    items: Annotated[list[Item], Meta(min_length=1, max_length=LARGEST_BATCH)]


class Queued(msgspec.Struct):
    index: int
    status: Literal["queued", "duplicate", "failed"]
    message_id: str | None
    transaction_id: str
    partition_id: str | None
    trace_id: str | None
    queue_name: str = msgspec.field(name="queueName")
    error: str | None = None


class Headers(msgspec.Struct, omit_defaults=True, rename={"trace_id": "traceId"}):
    """What goes with a message beside its body; sealed: the body is encrypted."""

    trace_id: UUID | None = None
    sub: str | None = None
    sealed: bool = False


class Outgoing(NamedTuple):
    """Messages of one queue, with their places among all that were sent."""

    guards: Guards
    places: list[int]
    messages: list[OutgoingMessage]


class Pushing:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def push(self, call: Call[None, Items]) -> Answer:
        items = call.body.items
        pushed: list[Pushed | None] = [None] * len(items)
        by_queue = await self.prepare(call, items)
        plain = {name: out for name, out in by_queue.items() if not _guarded(out.guards)}
        if len(plain) == 1:
            [(name, out)] = plain.items()
            _place(pushed, out.places, await call.service.broker.push(name, out.messages))
        elif plain:
            each = [(name, message) for name, out in plain.items() for message in out.messages]
            places = [place for out in plain.values() for place in out.places]
            _place(pushed, places, await call.service.broker.push_each(each))
        for name, out in by_queue.items():
            if _guarded(out.guards):
                fitted = await call.service.broker.push_guarded(
                    name, out.messages, room=out.guards.room, window=out.guards.window
                )
                _place(pushed, out.places, fitted)
        call.service.metrics.count_messages(Traffic.PUSHED, len(items) - pushed.count(None))
        return Answer(
            201,
            b"[%b]"
            % b",".join(
                [
                    show_pushed(index, item, place)
                    for index, (item, place) in enumerate(zip(items, pushed, strict=True))
                ]
            ),
        )

    async def prepare(self, call: Call[Any, Any], items: Sequence[Item]) -> dict[str, Outgoing]:
        """Return the messages by queue; queues that are new are made."""
        prepared: dict[str, Outgoing] = {}
        for place, item in enumerate(items):
            out = prepared.get(item.queue)
            if out is None:
                queue = await find_or_make_queue(call, item.queue)
                out = prepared[item.queue] = Outgoing(read_guards(queue), [], [])
            out.places.append(place)
            out.messages.append(self._read(item, out.guards, call.identity.subject))
        return prepared

    def _read(self, item: Item, guards: Guards, subject: str | None) -> OutgoingMessage:
        headers = None
        if item.trace_id is not None or subject is not None or guards.encrypted:
            headers = encode(Headers(item.trace_id, subject, guards.encrypted)).decode()
        try:
            if guards.encrypted:
                body = self._vault.seal(bytes(item.payload), queue=item.queue)
            else:
                body = str(item.payload, "utf-8")
        except UnicodeDecodeError:
            raise MalformedBody("the request's body is not JSON") from None
        return OutgoingMessage(
            body, item.partition or DEFAULT_PARTITION, 0, None, item.transaction_id, headers
        )

    @property
    def operations(self) -> tuple[Operation[Any, Any], ...]:
        return (
            Operation(
                method="POST",
                path="/push",
                handler=self.push,
                summary="Add messages; queues and partitions appear when first named",
                body=Items,
                answers={201: list[Queued]},
                role=Role.WRITE,
                reach=_queues_of_items,
                tag="streams",
            ),
        )


def show_pushed(index: int, item: Item, place: Pushed | None) -> bytes:
    trace = b'"%b"' % str(item.trace_id).encode() if item.trace_id is not None else b"null"
    if place is None:
        return b'{"index":%d,"status":"failed","message_id":null,"transaction_id":%b,' % (
            index,
            encode(item.transaction_id),
        ) + b'"partition_id":null,"trace_id":%b,"queueName":%b,"error":%b}' % (
            trace,
            encode(item.queue),
            encode(f'queue "{item.queue}" is full: it takes no more than its maxSize'),
        )
    segment, lane, seq, duplicate = place
    address = show_address(segment, lane, seq)
    return (
        b'{"index":%d,"status":"%b","message_id":"%b","transaction_id":%b,"partition_id":"%d",'
        b'"trace_id":%b,"queueName":%b}'
        % (
            index,
            b"duplicate" if duplicate else b"queued",
            address.encode(),
            encode(item.transaction_id or address),
            lane,
            trace,
            encode(item.queue),
        )
    )


def _guarded(guards: Guards) -> bool:
    return guards is not OPEN and (guards.room is not None or guards.window is not None)


def _place(pushed: list[Pushed | None], places: Sequence[int], fitted: Sequence[Pushed]) -> None:
    # What did not fit is at the end.
    for place, found in zip(places, fitted, strict=False):
        pushed[place] = found


async def _queues_of_items(call: Call[Any, Any], /) -> Sequence[str]:
    return list({item.queue for item in call.body.items})
