"""The route that pushes and settles messages in one transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, NamedTuple
from uuid import uuid4

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from laneway.domain.errors import Conflict, LeaseLost, PreconditionFailed
from laneway.domain.streams import Fate
from laneway.server.access import named
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.acks import LARGEST_BATCH
from laneway.server.queen.kv_operations import (
    GetPrefix,
    KvBatch,
    KvRequest,
    name_spaces,
    show_lost,
)
from laneway.server.queen.pushes import Item, show_pushed
from laneway.server.queen.registry import retry_if_queues_changed
from laneway.server.queen.settlements import Ack, hide_others, read_settlement
from laneway.server.queen.timer_operations import TimerBatch, TimerRequest, name_queues
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
            max_length=10_000,
            description="Up to 10,000 operations, with at most 10,000 messages in total. May be empty "
            "if there are operations on keys or timers.",
        ),
    ]
    required_leases: Annotated[
        Annotated[list[LeaseText], Meta(max_length=1000)] | None,
        Meta(
            description="Leases that must still be valid, at most 1000. If one is lost, nothing happens."
        ),
    ] = msgspec.field(name="requiredLeases", default=None)
    kv: Annotated[
        Annotated[list[KvRequest], Meta(max_length=64)] | None,
        Meta(
            description="Up to 64 operations on keys, on up to 256 keys together, as of `POST /kv`, "
            "without `getPrefix`. They are done first. If a `required` one does not apply, nothing "
            "of the transaction is done."
        ),
    ] = None
    timers: Annotated[
        Annotated[list[TimerRequest], Meta(max_length=256)] | None,
        Meta(description="Up to 256 operations on timers, as of `POST /timers`."),
    ] = None


class Transacted(msgspec.Struct, kw_only=True):
    """What became of a transaction."""

    transaction_id: Annotated[str, Meta(description="Id of this transaction, for logs.")] = (
        msgspec.field(name="transactionId")
    )
    success: Annotated[bool, Meta(description="Whether the transaction was committed.")]
    results: Annotated[
        list[dict[str, Any]],
        Meta(
            description="One result for each message pushed or settled, in the order of the request, then "
            "for each operation on a key, then on a timer. Empty if nothing was committed."
        ),
    ]
    error: Annotated[
        str | None, Meta(description="Why nothing was committed. Absent otherwise.")
    ] = None
    ok: Annotated[
        bool | UnsetType,
        Meta(description="False if a required operation on a key did not apply. Absent otherwise."),
    ] = UNSET
    reason: Annotated[str | UnsetType, Meta(description="Then `kv_precondition`.")] = UNSET
    failed_index: Annotated[
        int | UnsetType, Meta(description="Then the position of that operation among the results.")
    ] = msgspec.field(name="failedIndex", default=UNSET)
    kv_reason: Annotated[
        str | UnsetType, Meta(description="Then why it did not apply, as `POST /kv` says.")
    ] = msgspec.field(name="kvReason", default=UNSET)
    version: Annotated[int | UnsetType, Meta(description="Then the version of its key.")] = UNSET
    value: Annotated[Raw | UnsetType, Meta(description="Then the value of its key.")] = UNSET


class _Parts(NamedTuple):
    """A transaction; order: what has a result, in the order of the request."""

    order: list[Item | Ack]
    kv: KvBatch
    timers: TimerBatch


# Of a transaction's operations on keys, which all other work waits for.
MOST_KEYS = 256


class TransactionRoutes:
    def __init__(self, pushes: PushRoutes, leases: Leases) -> None:
        self._pushes = pushes
        self._leases = leases

    async def transact(self, call: Call[None, Transaction]) -> Answer:
        parts = _read_parts(call.body)
        order, kv, timers = parts
        items = [part for part in order if isinstance(part, Item)]
        acks = await hide_others(call, [part for part in order if isinstance(part, Ack)])
        name = str(uuid4())
        leases = call.body.required_leases or ()
        required = [lease for text in leases if (lease := read_lease(text))]
        settlements = [read_settlement(ack, None) for ack in acks]
        outgoing = [*items, *timers.items]

        async def transact() -> Done:
            messages, guards, new = await self._pushes.prepare(call, outgoing)
            return await call.broker.streams.transact(
                settlements,
                messages[: len(items)],
                required=required,
                guards=guards,
                new=new,
                kv=kv.operations,
                timers=timers.make_operations(messages[len(items) :]),
            )

        try:
            done = await retry_if_queues_changed(call.broker, outgoing, transact)
        except PreconditionFailed as error:
            failed = Transacted(
                transaction_id=name, success=False, results=[], error="kv_precondition_failed"
            )
            lost = show_lost(error, len(order) + kv.find_request(error))
            return answer_json(200, {**msgspec.to_builtins(failed), **lost})
        except (LeaseLost, Conflict) as error:
            failed = Transacted(transaction_id=name, success=False, results=[], error=str(error))
            return answer_json(409, failed)
        finally:
            for ack in acks:
                if ack.lease_id is not None:
                    self._leases.forget(ack.lease_id)
        return Answer(
            200,
            b'{"transactionId":"%b","success":true,"results":[%b]}'
            % (name.encode(), b",".join(_show_results(parts, done))),
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
                    "twice. After a 409 nothing changed. Operations on keys (`kv`) and timers "
                    "(`timers`) belong to the same transaction."
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
                    200: Response(
                        Transacted,
                        "The transaction is committed; or, with `success` false, a required "
                        "operation on a key did not apply, and nothing changed.",
                    ),
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


def _read_parts(wanted: Transaction) -> _Parts:
    if not (wanted.operations or wanted.kv or wanted.timers):
        raise refuse("operations", "nothing to do: give operations, kv or timers")
    order: list[Item | Ack] = []
    for operation in wanted.operations:
        if isinstance(operation, AckOperation):
            order.append(operation)
        else:
            order += _read_items(operation)
    if len(order) > LARGEST_BATCH:
        raise refuse("operations", f"more than {LARGEST_BATCH} messages")
    if any(isinstance(request, GetPrefix) for request in wanted.kv or ()):
        raise refuse("kv", "getPrefix is not allowed in a transaction: send it to POST /kv")
    return _Parts(
        order, KvBatch(wanted.kv or (), most_keys=MOST_KEYS), TimerBatch(wanted.timers or ())
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


def _show_results(parts: _Parts, done: Done) -> list[bytes]:
    order, kv, timers = parts
    verdicts, pushed = iter(done.verdicts), iter(done.pushed)
    results = [
        b'{"type":"push","success":true,%b' % show_pushed(index, part, next(pushed))[1:]
        if isinstance(part, Item)
        else encode(_show_ack(index, part, next(verdicts)))
        for index, part in enumerate(order)
    ]
    for place, written in enumerate(kv.show(done.kv)):
        written.index = len(results)
        results.append(b'{"type":"kv","opIndex":%d,%b' % (place, encode(written)[1:]))
    for place, timer in enumerate(timers.show(done.timers)):
        head = b'{"index":%d,"type":"timer","opIndex":%d,' % (len(results), place)
        results.append(head + encode(timer)[1:])
    return results


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
async def _queues_of_operations(call: Call[Any, Any], /) -> Sequence[str] | None:
    """Return the queues that are pushed to; messages to settle are looked up by id."""
    queues: set[str] = set()
    for operation in call.body.operations:
        if isinstance(operation, PushOperation):
            queues |= {item.queue for item in _read_items(operation)}
    spaces = name_spaces(call.body.kv or ())
    if spaces is None:
        return None
    return sorted(queues | spaces | name_queues(call.body.timers or ()))
