"""The routes that settle messages in hand, and keep them in hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from laneway.domain.errors import LeaseLost
from laneway.domain.messages import Receipt
from laneway.domain.streams import Fate, Settlement, Verdict
from laneway.engine.columns import Spans, make_spans
from laneway.server.access import by_token, looked_up
from laneway.server.operations import Operation, Role
from laneway.server.queen.wire import (
    LONGEST,
    GroupName,
    KeyText,
    LaneText,
    LeaseText,
    find_hidden,
    quote_all,
    read_address,
    read_group,
    read_lane,
    read_lease,
)
from laneway.server.responses import Answer, answer_json, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.messages import Token
    from laneway.domain.streams import Action
    from laneway.server.calls import Call
    from laneway.server.queen.leases import Leases

LARGEST_BATCH = 10_000
_SETTLED = frozenset({"completed", "success"})
_ACTIONS: dict[str, Action] = {
    "completed": "ack",
    "success": "ack",
    "failed": "retry",
    "retry": "retry",
    "dlq": "dead",
}
# Where a partition that cannot be ours is looked for, so that it is not found.
_NOWHERE = -1


class Ack(msgspec.Struct, kw_only=True):
    """What became of a message. Without a lease, of whoever holds it."""

    transaction_id: KeyText = msgspec.field(name="transactionId")
    partition_id: LaneText = msgspec.field(name="partitionId")
    status: Literal["completed", "success", "failed", "retry", "dlq"] = "completed"
    consumer_group: GroupName | None = msgspec.field(name="consumerGroup", default=None)
    lease_id: LeaseText | None = msgspec.field(name="leaseId", default=None)
    error: Annotated[str, Meta(max_length=10_000)] | None = None


class Acks(msgspec.Struct, kw_only=True):
    acknowledgments: Annotated[list[Ack], Meta(min_length=1, max_length=LARGEST_BATCH)]
    consumer_group: GroupName | None = msgspec.field(name="consumerGroup", default=None)


class Acked(msgspec.Struct, kw_only=True):
    """noop: the group had passed it already; dlq: it is a dead letter now."""

    index: int
    transaction_id: str = msgspec.field(name="transactionId")
    success: bool
    error: str | None
    queue_name: str | None = msgspec.field(name="queueName")
    partition_name: str | None = msgspec.field(name="partitionName")
    lease_released: bool = msgspec.field(name="leaseReleased")
    dlq: bool
    noop: bool = False


class Extend(msgspec.Struct):
    seconds: Annotated[float, Meta(gt=0, le=LONGEST)] = 60


class ByLease(msgspec.Struct):
    lease_id: LeaseText = msgspec.field(name="leaseId")


class Extended(msgspec.Struct, kw_only=True):
    """renewed: how many partitions the lease still holds."""

    index: int
    lease_id: str = msgspec.field(name="leaseId")
    success: bool
    error: str | None
    expires_at: datetime | None = msgspec.field(name="expiresAt")
    renewed: int


@dataclass(slots=True)
class Part:
    """Acknowledgements, one after the other, of what this process handed out of one lane.

    where: queue and partition, in JSON.
    """

    lease_id: str
    lane: str
    token: Token
    where: str
    keys: list[str] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)


class Acknowledging:
    def __init__(self, leases: Leases) -> None:
        self._leases = leases

    async def ack(self, call: Call[None, Ack]) -> Answer:
        return await self._settle(call, [call.body], None)

    async def ack_batch(self, call: Call[None, Acks]) -> Answer:
        return await self._settle(call, call.body.acknowledgments, call.body.consumer_group)

    async def extend(self, call: Call[ByLease, Extend]) -> Answer:
        lease_id = call.parameters.lease_id
        lease = read_lease(lease_id)
        lasts = timedelta(seconds=call.body.seconds)
        until, renewed = (await call.broker.streams.extend_leases([lease or ""], lasts=lasts))[0]
        return answer_json(
            200,
            [
                Extended(
                    index=0,
                    lease_id=lease_id,
                    success=until is not None,
                    error=None if until is not None else "Lease expired, released or unknown",
                    expires_at=until,
                    renewed=renewed,
                )
            ],
        )

    async def _settle(
        self, call: Call[Any, Any], acks: Sequence[Ack], default: str | None
    ) -> Answer:
        """Settle what this process handed out at once; ask the database about the rest."""
        acks = await hide_others(call, acks)
        parts = self._recall(acks, default)
        shown = None if parts is None else await self._settle_known(call, parts)
        if shown is None:
            shown = await self._settle_looked_up(call, acks, default)
        return Answer(200, f"[{','.join(shown)}]".encode())

    def _recall(self, acks: Sequence[Ack], default: str | None) -> list[Part] | None:
        """Return what is to be settled if it is all done, and all known; None otherwise."""
        parts: list[Part] = []
        lease_id = lane = group = None
        seqs: dict[str, int] = {}
        part: Part | None = None
        usual = read_group(default)
        for ack in acks:
            if ack.status not in _SETTLED or ack.lease_id is None:
                return None
            if part is None or ack.partition_id != lane or ack.lease_id != lease_id:
                lease_id, lane = ack.lease_id, ack.partition_id
                lease = self._leases.find(lease_id)
                span = lease.spans.get(lane) if lease is not None else None
                if lease is None or span is None:
                    return None
                group, seqs = lease.group, span.seqs
                queue, partition = quote_all([lease.queue, lease.partitions[lane]])
                where = f'"queueName":{queue},"partitionName":{partition}'
                part = Part(lease_id, lane, span.token, where)
                parts.append(part)
            given = ack.consumer_group
            seq = seqs.get(ack.transaction_id)
            if seq is None or (usual if given is None else read_group(given)) != group:
                return None
            part.keys.append(ack.transaction_id)
            part.seqs.append(seq)
        return parts

    async def _settle_known(self, call: Call[Any, Any], parts: Sequence[Part]) -> list[str] | None:
        """Return None where something is not held: nothing was settled, and all is looked up."""
        spans = _list_spans(parts)
        try:
            await call.service.broker.ack_whole(spans)
        except LeaseLost:
            return None
        released: dict[tuple[str, str], bool] = {}
        for part in parts:
            held = (part.lease_id, part.lane)
            released[held] = self._leases.settle(*held, part.keys) or released.get(held, False)
        shown: list[str] = []
        for part in parts:
            tail = f'"success":true,"error":null,{part.where},"leaseReleased":'
            tail += "true" if released[part.lease_id, part.lane] else "false"
            shown += [
                f'{{"index":{at},"transactionId":{key},{tail},"dlq":false}}'
                for at, key in enumerate(quote_all(part.keys), len(shown))
            ]
        return shown

    async def _settle_looked_up(
        self, call: Call[Any, Any], acks: Sequence[Ack], default: str | None
    ) -> list[str]:
        settlements = [read_settlement(ack, default) for ack in acks]
        verdicts = await call.broker.streams.settle(settlements)
        places = await call.broker.messages.name_lanes([item.lane for item in settlements])
        shown: list[str] = []
        for ack, settlement, verdict in zip(acks, settlements, verdicts, strict=True):
            if ack.lease_id is not None:
                self._leases.forget(ack.lease_id)
            queue, partition = places.get(settlement.lane, (None, None))
            shown.append(encode(show_verdict(len(shown), ack, verdict, queue, partition)).decode())
        return shown

    @property
    def operations(self) -> tuple[Operation[Any, Any], ...]:
        return (
            Operation(
                method="POST",
                path="/ack",
                handler=self.ack,
                summary="Say what became of a message",
                body=Ack,
                answers={200: list[Acked]},
                role=Role.WRITE,
                reach=looked_up,
                tag="streams",
            ),
            Operation(
                method="POST",
                path="/ack/batch",
                handler=self.ack_batch,
                summary="Say what became of many messages",
                body=Acks,
                answers={200: list[Acked]},
                role=Role.WRITE,
                reach=looked_up,
                tag="streams",
            ),
            Operation(
                method="POST",
                path="/lease/{leaseId}/extend",
                handler=self.extend,
                summary="Keep what a lease holds for longer",
                parameters=ByLease,
                body=Extend,
                body_optional=True,
                answers={200: list[Extended]},
                role=Role.WRITE,
                # A lease is a secret of whoever was given it.
                reach=by_token,
                tag="streams",
            ),
        )


def _list_spans(parts: Sequence[Part]) -> Spans:
    """Return a span for each part where all come in order, and none twice; else as many as it takes."""
    spans = Spans([], [], [], [])
    named: set[tuple[Token, str]] = set()
    for part in parts:
        first, last = part.seqs[0], part.seqs[-1]
        held = (part.token, part.lane)
        if part.seqs != list(range(first, last + 1)) or held in named:
            receipts = (Receipt(p.token, int(p.lane), seq) for p in parts for seq in p.seqs)
            return make_spans(list(dict.fromkeys(receipts)))
        named.add(held)
        spans.begin(part.token, int(part.lane), first)
        spans.last[-1] = last
    return spans


def read_settlement(ack: Ack, default: str | None) -> Settlement:
    lane = read_lane(ack.partition_id)
    address = read_address(ack.transaction_id, lane) if lane is not None else None
    return Settlement(
        _NOWHERE if lane is None else lane,
        ack.transaction_id,
        address.segment if address else None,
        address.seq if address else None,
        read_group(ack.consumer_group or default),
        read_lease(ack.lease_id),
        _ACTIONS[ack.status],
        ack.error,
    )


def show_verdict(
    index: int, ack: Ack, verdict: Verdict, queue: str | None, partition: str | None
) -> Acked:
    error = _ERRORS.get(verdict.fate)
    return Acked(
        index=index,
        transaction_id=ack.transaction_id,
        success=error is None,
        error=error,
        queue_name=queue,
        partition_name=partition,
        lease_released=verdict.released,
        dlq=verdict.fate is Fate.DEAD,
        noop=verdict.fate is Fate.NOOP,
    )


async def hide_others(call: Call[Any, Any], acks: Sequence[Ack]) -> Sequence[Ack]:
    """Return the acknowledgements with those of queues that the key may not use put nowhere."""
    if call.identity.pattern is None:
        return acks
    hidden = await find_hidden(call, [ack.partition_id for ack in acks])
    return [
        msgspec.structs.replace(ack, partition_id="") if ack.partition_id in hidden else ack
        for ack in acks
    ]


_ERRORS = {
    Fate.COMMITTED: "the group has committed this message already: it cannot be given back",
    Fate.UNRESOLVED: "unresolvable: the partition has no message of this transactionId",
    Fate.UNLEASED: "nobody holds this message: pop it, and name the lease it came with",
    Fate.LEASE: "invalid or expired lease: nothing under it was changed",
}
