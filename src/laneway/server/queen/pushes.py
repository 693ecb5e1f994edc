"""The route that pushes messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple
from uuid import UUID

import msgspec
from msgspec import Meta, Raw

from laneway.domain.errors import QueueNotFound
from laneway.domain.messages import OutgoingMessage
from laneway.domain.streams import ENCRYPTED
from laneway.server.access import named
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.options import make_settings, name_parts
from laneway.server.queen.registry import retry_if_queues_changed
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
    """A message to push."""

    queue: Annotated[
        QueueName, Meta(description="Queue to push to. It is created if it does not exist.")
    ]
    payload: Annotated[Raw, Meta(description="Any JSON. It is delivered byte for byte.")]
    partition: Annotated[
        PartitionName | None,
        Meta(
            description="Partition to push to, the unit of order. It is created if it does not exist. "
            "Default: `Default`."
        ),
    ] = None
    transaction_id: Annotated[
        KeyText | None,
        Meta(
            description="Dedup key within the partition, 1 to 512 characters. Pushing it again within the "
            "dedup window (600 seconds unless configured) adds nothing. Default: the "
            "message's id."
        ),
    ] = msgspec.field(name="transactionId", default=None)
    trace_id: Annotated[
        UUID | None, Meta(description="Trace id, a UUID. It is returned with the message.")
    ] = msgspec.field(name="traceId", default=None)


class Items(msgspec.Struct):
    """Messages to push."""

    items: Annotated[
        list[Item],
        Meta(
            max_length=LARGEST_BATCH,
            description="Up to 10,000 messages to push. Messages of one partition keep this order.",
        ),
    ]


class Queued(msgspec.Struct):
    """What became of a pushed message."""

    index: Annotated[int, Meta(description="Position of the message in the request, from 0.")]
    status: Annotated[
        Literal["queued", "duplicate", "failed"],
        Meta(
            description="`queued`: added. `duplicate`: the transaction id was pushed before. `failed`: "
            "the queue is full (`maxSize`)."
        ),
    ]
    message_id: Annotated[
        str | None,
        Meta(
            description="Id of the message; for a duplicate, of the message pushed before. Null if it "
            "failed."
        ),
    ]
    transaction_id: Annotated[
        str,
        Meta(description="Transaction id of the message, or its id if it was pushed without one."),
    ]
    partition_id: Annotated[
        str | None, Meta(description="Id of the partition. Ack takes it. Null if the push failed.")
    ]
    trace_id: Annotated[str | None, Meta(description="Trace id that the message was pushed with.")]
    queue_name: Annotated[str, Meta(description="Queue that the message was pushed to.")] = (
        msgspec.field(name="queueName")
    )
    error: Annotated[
        str | None, Meta(description="Why the push of this message failed. Absent unless it did.")
    ] = None


class Headers(msgspec.Struct, omit_defaults=True, rename={"trace_id": "traceId"}):
    """What is stored with a message beside its body; sealed: the body is encrypted."""

    trace_id: UUID | None = None
    sub: str | None = None
    sealed: bool = False


class Outgoing(NamedTuple):
    """Messages in request order, the queue options that they assume, and the queues to create."""

    messages: list[tuple[str, OutgoingMessage]]
    guards: dict[str, int]
    new: dict[str, QueueSettings]

    @property
    def guarded(self) -> bool:
        """Whether the push has to check limits, or create queues, first."""
        return bool(self.new) or any(guards & ~ENCRYPTED for guards in self.guards.values())


class PushRoutes:
    def __init__(self, vault: Vault) -> None:
        self._vault = vault

    async def push(self, call: Call[None, Items]) -> Answer:
        items = call.body.items
        if not items:
            return Answer(201, b"[]")
        pushed = await retry_if_queues_changed(call.broker, items, lambda: self._push(call, items))
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
        """Return the messages, and the queues that must be created for them."""
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
                summary="Push messages",
                description=(
                    "Adds messages to partitions of queues. Queues and partitions that do not "
                    "exist are created. The messages are on disk before the server responds. "
                    "Unless a queue has a `maxSize`, all messages are added or none. After a "
                    "timeout or a 503 they may have been added: push again with the same "
                    "transaction ids to add each only once."
                ),
                body=Items,
                example={
                    "items": [
                        {"queue": "orders", "partition": "customer-7", "payload": {"total": 12}}
                    ]
                },
                answers={
                    201: Response(
                        list[Queued],
                        "What became of each message, in the order of the request. Check "
                        "`status`: a full queue refuses messages one by one.",
                    )
                },
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
            encode(f'queue "{item.queue}" is full (maxSize): retry later'),
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
