"""The route that pushes and settles messages in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from laneway.domain.errors import Conflict, LeaseLost
from laneway.domain.streams import Fate
from laneway.server.access import named
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.acks import LARGEST_BATCH
from laneway.server.queen.pushes import Item, show_pushed
from laneway.server.queen.registry import retry_if_queues_changed
from laneway.server.queen.settlements import Ack, hide_others, read_settlement
from laneway.server.queen.wire import (
    KeyText,
    LeaseText,
    PartitionName,
    QueueName,
    read_lease,
    refuse,
)
from laneway.server.responses import Answer, answer_json, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.streams import Transacted as Done
    from laneway.domain.streams import Verdict
    from laneway.server.calls import Call
    from laneway.server.queen.leases import Leases
    from laneway.server.queen.pushes import PushRoutes


class PushOperation(msgspec.Struct, kw_only=True, tag_field="type", tag="push"):
    """Messages to push: `items`, or one message."""

    items: Annotated[list[Item] | None, Meta(description="Messages to push.")] = None
    queue: Annotated[
        QueueName | None, Meta(description="Queue of a single message. Required without `items`.")
    ] = None
    payload: Annotated[
        Raw | UnsetType,
        Meta(description="Payload of a single message: any JSON. Required without `items`."),
    ] = UNSET
    partition: Annotated[
        PartitionName | None, Meta(description="Partition of a single message. Default: `Default`.")
    ] = None
    transaction_id: Annotated[
        KeyText | None, Meta(description="Dedup key of a single message within its partition.")
    ] = msgspec.field(name="transactionId", default=None)


class AckOperation(Ack, kw_only=True, tag_field="type", tag="ack"):
    """A message to settle."""


class Transaction(msgspec.Struct, kw_only=True):
    """What to push and settle, all or nothing."""

    operations: Annotated[
        list[PushOperation | AckOperation],
        Meta(
            min_length=1,
            max_length=10_000,
            description="1 to 10,000 operations, with at most 10,000 messages in total.",
        ),
    ]
    required_leases: Annotated[
        Annotated[list[LeaseText], Meta(max_length=1000)] | None,
        Meta(
            description="Leases that must still be valid, at most 1000. If one is lost, nothing happens."
        ),
    ] = msgspec.field(name="requiredLeases", default=None)
    kv: Annotated[list[Any] | None, Meta(description="Not supported: must be empty.")] = None
    timers: Annotated[list[Any] | None, Meta(description="Not supported: must be empty.")] = None


class Transacted(msgspec.Struct, kw_only=True):
    """What became of a transaction."""

    transaction_id: Annotated[str, Meta(description="Id of this transaction, for logs.")] = (
        msgspec.field(name="transactionId")
    )
    success: Annotated[bool, Meta(description="Whether the transaction was committed.")]
    results: Annotated[
        list[dict[str, Any]],
        Meta(
            description="One result for each message pushed or settled, in the order of the request. "
            "Empty if nothing was committed."
        ),
    ]
    error: Annotated[
        str | None, Meta(description="Why nothing was committed. Absent otherwise.")
    ] = None


class TransactionRoutes:
    def __init__(self, pushes: PushRoutes, leases: Leases) -> None:
        self._pushes = pushes
        self._leases = leases

    async def transact(self, call: Call[None, Transaction]) -> Answer:
        wanted = call.body
        if wanted.kv or wanted.timers:
            raise refuse("kv" if wanted.kv else "timers", "not supported by this server")
        # One result for each message pushed or settled, in request order.
        order: list[Item | Ack] = []
        for operation in wanted.operations:
            if isinstance(operation, AckOperation):
                order.append(operation)
            else:
                order += _read_items(operation)
        items = [part for part in order if isinstance(part, Item)]
        acks = await hide_others(call, [part for part in order if isinstance(part, Ack)])
        if len(order) > LARGEST_BATCH:
            raise refuse("operations", f"more than {LARGEST_BATCH} messages")
        name = str(uuid4())
        required = [lease for text in wanted.required_leases or () if (lease := read_lease(text))]
        settlements = [read_settlement(ack, None) for ack in acks]

        async def transact() -> Done:
            pushes, guards, new = await self._pushes.prepare(call, items)
            return await call.broker.streams.transact(
                settlements, pushes, required=required, guards=guards, new=new
            )

        try:
            done = await retry_if_queues_changed(call.broker, items, transact)
        except (LeaseLost, Conflict) as error:
            failed = Transacted(transaction_id=name, success=False, results=[], error=str(error))
            return answer_json(409, failed)
        finally:
            for ack in acks:
                if ack.lease_id is not None:
                    self._leases.forget(ack.lease_id)
        verdicts, pushed = iter(done.verdicts), iter(done.pushed)
        results = [
            b'{"type":"push","success":true,%b' % show_pushed(index, part, next(pushed))[1:]
            if isinstance(part, Item)
            else encode(_show_ack(index, part, next(verdicts)))
            for index, part in enumerate(order)
        ]
        return Answer(
            200,
            b'{"transactionId":"%b","success":true,"results":[%b]}'
            % (name.encode(), b",".join(results)),
        )

    @property
    def operations(self) -> tuple[Operation[Any, Any], ...]:
        return (
            Operation(
                method="POST",
                path="/transaction",
                handler=self.transact,
                summary="Push and settle messages, all or nothing",
                description=(
                    "Pushes and settles messages in one database transaction. Use it to "
                    "consume from one queue and produce to another exactly once: give each "
                    "push a `transactionId`, so that a repeated transaction adds nothing "
                    "twice. After a 409 nothing changed."
                ),
                body=Transaction,
                example={
                    "operations": [
                        {
                            "type": "ack",
                            "transactionId": "order-12",
                            "partitionId": "7",
                            "leaseId": "933d4cad-a010-45d3-927d-d25f31175c1a",
                        },
                        {
                            "type": "push",
                            "queue": "invoices",
                            "payload": {"order": 12},
                            "transactionId": "invoice-12",
                        },
                    ]
                },
                answers={
                    200: Response(Transacted, "The transaction is committed."),
                    409: Response(
                        Transacted,
                        "Nothing changed: a lease is lost, an acknowledgement was "
                        "refused, or a queue is full. `error` says which.",
                    ),
                },
                role=Role.WRITE,
                reach=_queues_of_operations,
                tag="streams",
            ),
        )


def _read_items(operation: PushOperation) -> list[Item]:
    if operation.items is not None:
        return operation.items
    if operation.queue is None or isinstance(operation.payload, UnsetType):
        raise refuse("operations", "a push needs items, or a queue and a payload")
    return [
        Item(
            queue=operation.queue,
            payload=operation.payload,
            partition=operation.partition,
            transaction_id=operation.transaction_id,
        )
    ]


def _show_ack(index: int, ack: Ack, verdict: Verdict) -> dict[str, Any]:
    return {
        "type": "ack",
        "index": index,
        "success": True,
        "transactionId": ack.transaction_id,
        "leaseReleased": verdict.released,
        "dlq": verdict.fate is Fate.DEAD,
        **({"noop": True} if verdict.fate is Fate.NOOP else {}),
    }


@named
async def _queues_of_operations(call: Call[Any, Any], /) -> Sequence[str]:
    """Return the queues that are pushed to; messages to settle are looked up by id."""
    queues: set[str] = set()
    for operation in call.body.operations:
        if isinstance(operation, PushOperation):
            queues |= {item.queue for item in _read_items(operation)}
    return list(queues)
