"""The route that adds messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta, Raw

from laneway.domain.errors import QueueNotFound
from laneway.domain.messages import OutgoingMessage
from laneway.domain.streams import ENCRYPTED
from laneway.server.access import named
from laneway.server.operations import Operation, Role
from laneway.server.queen.options import make_settings, name_parts
from laneway.server.queen.registry import go_by_what_is
from laneway.server.queen.wire import (
    DEFAULT_PARTITION,
    KeyText,
    PartitionName,
    QueueName,
    show_address,
)
from laneway.server.responses import Answer, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.messages import Pushed
    from laneway.domain.settings import QueueSettings
    from laneway.server.calls import Call
    from laneway.server.queen.encryption import Vault

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
    """Messages in the order they were sent; what they reckon with of their queues; queues to make."""

    messages: list[tuple[str, OutgoingMessage]]
    guards: dict[str, int]
    new: dict[str, QueueSettings]

    @property
    def guarded(self) -> bool:
        """Tell whether a push has to count, to wait or to make something first."""
        return bool(self.new) or any(guards & ~ENCRYPTED for guards in self.guards.values())


class Pushing:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def push(self, call: Call[None, Items]) -> Answer:
        items = call.body.items
        pushed = await go_by_what_is(call.broker, items, lambda: self._push(call, items))
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

    async def _push(self, call: Call[Any, Any], items: Sequence[Item]) -> Sequence[Pushed | None]:
        messages, guards, new = out = await self.prepare(call, items)
        broker = call.service.broker
        if out.guarded:
            return await broker.streams.push_within_limits(messages, guards=guards, new=new)
        if len(guards) == 1:
            [(name, expected)] = guards.items()
            return await broker.push(name, [message for _, message in messages], guards=expected)
        return await broker.push_each(messages, guards=[guards[name] for name, _ in messages])

    async def prepare(self, call: Call[Any, Any], items: Sequence[Item]) -> Outgoing:
        """Return the messages, and the queues that are to be made with them."""
        out = Outgoing([], {}, {})
        subject = call.identity.subject
        for item in items:
            name = item.queue
            guards = out.guards.get(name)
            if guards is None:
                guards = out.guards[name] = await self._find_guards(call, name, out.new)
            out.messages.append((name, self._read(item, guards, subject)))
        return out

    async def _find_guards(
        self, call: Call[Any, Any], name: str, new: dict[str, QueueSettings]
    ) -> int:
        try:
            return (await call.broker.queues.find(name)).guards
        except QueueNotFound:
            new[name] = make_settings(
                name_parts(name), record_events=call.settings.activity.enabled
            )
            return 0

    def _read(self, item: Item, guards: int, subject: str | None) -> OutgoingMessage:
        headers = None
        encrypted = guards & ENCRYPTED > 0
        if item.trace_id is not None or subject is not None or encrypted:
            headers = encode(Headers(item.trace_id, subject, encrypted)).decode()
        if encrypted:
            body = self._vault.seal(bytes(item.payload), queue=item.queue)
        else:
            body = str(item.payload, "utf-8")
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


@named
async def _queues_of_items(call: Call[Any, Any], /) -> Sequence[str]:
    return list({item.queue for item in call.body.items})
