"""The routes that settle messages and extend leases."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from laneway.domain.errors import LeaseLost
from laneway.domain.messages import Receipt
from laneway.engine.columns import Spans, make_spans
from laneway.server.access import by_token, looked_up
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.settlements import Ack, Acked, hide_others, read_settlement, show_verdict
from laneway.server.queen.wire import (
    LONGEST,
    GroupName,
    LeaseText,
    quote_all,
    read_group,
    read_lease,
)
from laneway.server.responses import Answer, answer_json, encode

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.messages import Token
    from laneway.server.calls import Call
    from laneway.server.queen.leases import Leases

LARGEST_BATCH = 10_000
_SETTLED = frozenset({"completed", "success"})


class Acks(msgspec.Struct, kw_only=True):
    """Messages, and what became of them."""

    acknowledgments: Annotated[
        list[Ack],
        Meta(
            min_length=1,
            max_length=LARGEST_BATCH,
            description="1 to 10,000 messages, and what became of each.",
        ),
    ]
    consumer_group: Annotated[
        GroupName | None,
        Meta(
            description="Consumer group of the messages that do not name one. Default: the queue's own "
            "group."
        ),
    ] = msgspec.field(name="consumerGroup", default=None)


class Extend(msgspec.Struct):
    """How long to extend a lease."""

    seconds: Annotated[
        float,
        Meta(
            gt=0,
            le=LONGEST,
            description=(
                "New lease duration in seconds, counted from now; at most ten years. Default: 60."
            ),
        ),
    ] = 60


class ByLease(msgspec.Struct):
    lease_id: Annotated[LeaseText, Meta(description="Lease from the pop.")] = msgspec.field(
        name="leaseId"
    )


class Extended(msgspec.Struct, kw_only=True):
    """Whether a lease was extended."""

    index: Annotated[int, Meta(description="Always 0.")]
    lease_id: Annotated[str, Meta(description="Lease that the request named.")] = msgspec.field(
        name="leaseId"
    )
    success: Annotated[bool, Meta(description="Whether the lease was extended.")]
    error: Annotated[str | None, Meta(description="Why it was not extended.")]
    expires_at: Annotated[
        datetime | None, Meta(description="When the lease now expires (ISO 8601).")
    ] = msgspec.field(name="expiresAt")
    renewed: Annotated[int, Meta(description="How many partitions the lease still covers.")]


@dataclass(slots=True)
class Part:
    """Consecutive acks of one lane's messages that were popped from this process.

    where: queue and partition, in JSON. keys: as named. settled and seqs: what is acked, which in
    a group that commits offsets includes the messages before those named.
    """

    lease_id: str
    lane: str
    token: Token
    where: str
    keys: list[str] = field(default_factory=list)
    seqs: list[int] = field(default_factory=list)
    settled: list[str] | None = None

    def commit(self, leased: dict[str, int]) -> None:
        """Ack also the messages of the lane that come before those named; `leased` is in order."""
        if len(set(self.seqs)) == len(leased):
            return
        last = max(self.seqs)
        self.settled, self.seqs = [], []
        for key, seq in leased.items():
            if seq > last:
                break
            self.settled.append(key)
            self.seqs.append(seq)


class AckRoutes:
    def __init__(self, leases: Leases) -> None:
        self._leases = leases

    async def ack(self, call: Call[None, Ack]) -> Answer:
        return await self._settle(call, [call.body], None)

    async def ack_batch(self, call: Call[None, Acks]) -> Answer:
        return await self._settle(call, call.body.acknowledgments, call.body.consumer_group)

    async def extend(self, call: Call[ByLease, Extend]) -> Answer:
        lease_id = call.parameters.lease_id
        lease = read_lease(lease_id)
        duration = timedelta(seconds=call.body.seconds)
        until, renewed = (
            await call.broker.streams.extend_leases([lease or ""], duration=duration)
        )[0]
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
        """Settle messages that were popped from this process directly; look up the others."""
        acks = await hide_others(call, acks)
        parts = self._recall(acks, default)
        shown = None if parts is None else await self._settle_known(call, parts)
        if shown is None:
            shown = await self._settle_looked_up(call, acks, default)
        return Answer(200, f"[{','.join(shown)}]".encode())

    def _recall(self, acks: Sequence[Ack], default: str | None) -> list[Part] | None:
        """Return the acks as parts; None if one is no ack, or its message is not in `leases`."""
        parts: list[Part] = []
        committing: list[tuple[Part, dict[str, int]]] = []
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
                if lease.committing:
                    committing.append((part, seqs))
            given = ack.consumer_group
            seq = seqs.get(ack.transaction_id)
            if seq is None or (usual if given is None else read_group(given)) != group:
                return None
            part.keys.append(ack.transaction_id)
            part.seqs.append(seq)
        for part, seqs in committing:
            part.commit(seqs)
        return parts

    async def _settle_known(self, call: Call[Any, Any], parts: Sequence[Part]) -> list[str] | None:
        """Ack all parts. Return None, without any ack, if a lease is lost."""
        spans = _list_spans(parts)
        try:
            await call.service.broker.ack_whole(spans)
        except LeaseLost:
            return None
        released: dict[tuple[str, str], bool] = {}
        for part in parts:
            leased = (part.lease_id, part.lane)
            done = self._leases.settle(*leased, part.settled or part.keys)
            released[leased] = done or released.get(leased, False)
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
                summary="Ack, nack or dead-letter a message",
                description=(
                    "Reports what became of one message. In an ordered group, an ack also "
                    "acks the messages before it in its lease and partition, and a nack "
                    "returns everything else that the lease has in the partition. With "
                    "`ackMode` `individual`, an ack settles one message. The status is "
                    "200 also if the message was refused: check `success`. If it was refused "
                    "because the lease has expired, the message is delivered again, so "
                    "processing must be idempotent."
                ),
                body=Ack,
                example={
                    "transactionId": "order-12",
                    "partitionId": "7",
                    "status": "completed",
                    "leaseId": "933d4cad-a010-45d3-927d-d25f31175c1a",
                },
                answers={
                    200: Response(
                        list[Acked],
                        "The request was processed. `success` tells whether the message "
                        "was settled.",
                    )
                },
                role=Role.WRITE,
                reach=looked_up,
                tag="streams",
            ),
            Operation(
                method="POST",
                path="/ack/batch",
                handler=self.ack_batch,
                summary="Ack, nack or dead-letter many messages",
                description=(
                    "Reports what became of up to 10,000 messages. In an ordered group, the "
                    "first `failed` or `retry` of a partition returns its message and all "
                    "behind it, whatever the request says of these. If a lease does not cover "
                    "one of the messages named under it, or has expired, everything named "
                    "under that lease is refused; other leases are not affected. The status "
                    "is 200 also if messages were refused: check each `success`."
                ),
                body=Acks,
                example={
                    "acknowledgments": [
                        {
                            "transactionId": "order-12",
                            "partitionId": "7",
                            "leaseId": "933d4cad-a010-45d3-927d-d25f31175c1a",
                        }
                    ],
                    "consumerGroup": "billing",
                },
                answers={
                    200: Response(
                        list[Acked], "What became of each message, in the order of the request."
                    )
                },
                role=Role.WRITE,
                reach=looked_up,
                tag="streams",
            ),
            Operation(
                method="POST",
                path="/lease/{leaseId}/extend",
                handler=self.extend,
                summary="Extend a lease",
                description=(
                    "Gives everything that the lease still covers a new expiry time, counted "
                    "from now by the database's clock. Extend a lease regularly while "
                    "processing takes longer than it. If `success` is false, stop: other "
                    "consumers may have the messages."
                ),
                parameters=ByLease,
                body=Extend,
                example={"seconds": 60},
                body_optional=True,
                answers={
                    200: Response(
                        list[Extended],
                        "The request was processed. `success` tells whether the lease was "
                        "extended.",
                    )
                },
                role=Role.WRITE,
                # A lease id is known only to the consumer that popped it.
                reach=by_token,
                tag="streams",
            ),
        )


def _list_spans(parts: Sequence[Part]) -> Spans:
    """Return one span per part if its messages are consecutive and distinct, else more spans."""
    spans = Spans([], [], [], [])
    named: set[tuple[Token, str]] = set()
    for part in parts:
        first, last = part.seqs[0], part.seqs[-1]
        lease = (part.token, part.lane)
        if part.seqs != list(range(first, last + 1)) or lease in named:
            receipts = (Receipt(p.token, int(p.lane), seq) for p in parts for seq in p.seqs)
            return make_spans(list(dict.fromkeys(receipts)))
        named.add(lease)
        spans.begin(part.token, int(part.lane), first)
        spans.last[-1] = last
    return spans
