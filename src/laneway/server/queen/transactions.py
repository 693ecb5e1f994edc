"""The route that settles and pushes, all or nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any
from uuid import uuid4

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from laneway.domain.errors import Conflict, LeaseLost
from laneway.domain.streams import Fate
from laneway.server.access import named
from laneway.server.operations import Operation, Role
from laneway.server.queen.acks import (
    LARGEST_BATCH,
    Ack,
    hide_others,
    read_settlement,
)
from laneway.server.queen.pushes import Item, show_pushed
from laneway.server.queen.registry import go_by_what_is
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
    from laneway.server.queen.pushes import Pushing


class PushOperation(msgspec.Struct, kw_only=True, tag_field="type", tag="push"):
    """Messages to add: `items`, or one message itself."""

    items: list[Item] | None = None
    queue: QueueName | None = None
    payload: Raw | UnsetType = UNSET
    partition: PartitionName | None = None
    transaction_id: KeyText | None = msgspec.field(name="transactionId", default=None)


class AckOperation(Ack, kw_only=True, tag_field="type", tag="ack"):
    pass


class Transaction(msgspec.Struct, kw_only=True):
    """What is to happen; requiredLeases: unless these still hold something, nothing does."""

    operations: Annotated[list[PushOperation | AckOperation], Meta(min_length=1, max_length=10_000)]
    required_leases: Annotated[list[LeaseText], Meta(max_length=1000)] | None = msgspec.field(
        name="requiredLeases", default=None
    )
    kv: list[Any] | None = None
    timers: list[Any] | None = None


class Transacted(msgspec.Struct, kw_only=True):
    transaction_id: str = msgspec.field(name="transactionId")
    success: bool
    results: list[dict[str, Any]]
    error: str | None = None


class Transacting:
    def __init__(self, pushing: Pushing, leases: Leases) -> None:
        self._pushing = pushing
        self._leases = leases

    async def transact(self, call: Call[None, Transaction]) -> Answer:
        wanted = call.body
        if wanted.kv or wanted.timers:
            raise refuse("kv" if wanted.kv else "timers", "not part of what this server does")
        # One result for each message pushed and each message settled, in the order they were named.
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
            pushes, guards, new = await self._pushing.prepare(call, items)
            return await call.broker.streams.transact(
                settlements, pushes, required=required, guards=guards, new=new
            )

        try:
            done = await go_by_what_is(call.broker, items, transact)
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
                summary="Settle messages and add others, all or nothing",
                body=Transaction,
                answers={200: Transacted, 409: Transacted},
                role=Role.WRITE,
                reach=_queues_of_operations,
                tag="streams",
            ),
        )


def _read_items(operation: PushOperation) -> list[Item]:
    if operation.items is not None:
        return operation.items
    if operation.queue is None or isinstance(operation.payload, UnsetType):
        raise refuse("operations", "a push has items, or a queue and a payload")
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
        "noop": verdict.fate is Fate.NOOP,
    }


@named
async def _queues_of_operations(call: Call[Any, Any], /) -> Sequence[str]:
    """Return the queues pushed to; what is settled is looked up."""
    queues: set[str] = set()
    for operation in call.body.operations:
        if isinstance(operation, PushOperation):
            queues |= {item.queue for item in _read_items(operation)}
    return list(queues)
