"""The routes that pop messages: of a queue, of a partition, of a namespace or task."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from laneway.domain.errors import NotFound
from laneway.engine.deliveries import count_messages, list_receipts
from laneway.server.access import filtered
from laneway.server.claims import Claims
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.claims import Claimed, claim_any, claim_queue, widen_lease
from laneway.server.queen.wire import (
    LONGEST,
    SLASHED,
    START_MODES,
    GroupName,
    MomentText,
    PartitionName,
    QueueName,
    queue_in_path,
    read_group,
    refuse,
)
from laneway.server.responses import Answer

if TYPE_CHECKING:
    from laneway.domain.messages import ClaimedSpan
    from laneway.server.calls import Call
    from laneway.server.queen.deliveries import PopWriter
    from laneway.server.queen.encryption import Vault

NOTHING = Answer(204)
NO_WAIT = timedelta(0)

# The sizes of a pop with autopilot, where the client names none.
OUR_BATCH = 100
OUR_PARTITIONS = 16


class Pop(msgspec.Struct, kw_only=True):
    """How many messages to pop, for which group, and how long to wait."""

    batch: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        Meta(
            description="How many messages to return at most, 1 to 10,000. Default: 1, or 100 with "
            "`autopilot`."
        ),
    ] = None
    wait: Annotated[
        bool, Meta(description="Whether to wait for messages if none is ready. Default: false.")
    ] = False
    timeout: Annotated[
        float,
        Meta(
            ge=0,
            le=86_400_000,
            description="Milliseconds to wait at most, with `wait`; at most a day. Default: 30000.",
        ),
    ] = 30_000
    consumer_group: Annotated[
        GroupName | None,
        Meta(
            description="Consumer group to pop for. A group that does not exist is created. Default: the "
            "queue's own group."
        ),
    ] = msgspec.field(name="consumerGroup", default=None)
    auto_ack: Annotated[
        bool,
        Meta(
            description="Whether to ack the messages as they are returned. Then a message that is lost on "
            "the way is not delivered again. Default: false."
        ),
    ] = msgspec.field(name="autoAck", default=False)
    partitions: Annotated[
        Annotated[int, Meta(ge=1, le=10_000)] | None,
        Meta(
            description="How many partitions to claim from at most, 1 to 10,000. Default: 1, or 16 with "
            "`autopilot`."
        ),
    ] = None
    subscription_mode: Annotated[
        MomentText | None, Meta(description=f"Where a new group starts. {START_MODES}")
    ] = msgspec.field(name="subscriptionMode", default=None)
    subscription_from: Annotated[
        MomentText | None,
        Meta(
            description="Time at which a new group starts (ISO 8601, UTC unless it names a zone), or "
            "`now`. Takes precedence over `subscriptionMode`."
        ),
    ] = msgspec.field(name="subscriptionFrom", default=None)
    lease_seconds: Annotated[
        Annotated[float, Meta(gt=0, le=LONGEST)] | None,
        Meta(
            description="Lease duration in seconds, at most ten years. Default: the queue's `leaseTime`."
        ),
    ] = msgspec.field(name="leaseSeconds", default=None)
    autopilot: Annotated[
        bool,
        Meta(
            description="Whether the server chooses `batch` and `partitions` where they are not given. "
            "Default: false."
        ),
    ] = False
    conflation: Annotated[
        bool,
        Meta(
            description="Whether to get only the newest message of each partition. Not supported: true "
            "is refused (400), and nothing is claimed. Default: false."
        ),
    ] = False

    def __post_init__(self) -> None:
        if self.conflation:
            raise ValueError("conflation is not supported: leave it out to get every message")

    @property
    def patience(self) -> timedelta:
        return timedelta(milliseconds=self.timeout) if self.wait else NO_WAIT

    @property
    def lease(self) -> timedelta | None:
        return None if self.lease_seconds is None else timedelta(seconds=self.lease_seconds)

    @property
    def most(self) -> int:
        return self.batch or (OUR_BATCH if self.autopilot else 1)

    @property
    def lanes(self) -> int:
        return self.partitions or (OUR_PARTITIONS if self.autopilot else 1)


class PopQueue(Pop, kw_only=True):
    queue: Annotated[
        QueueName, Meta(description="Queue to pop from. Percent-encode slashes as `%2F`.")
    ]


class PopPartition(PopQueue, kw_only=True):
    partition: Annotated[
        PartitionName, Meta(description="Partition to pop from. Percent-encode slashes as `%2F`.")
    ]


class PopAny(Pop, kw_only=True):
    namespace: Annotated[
        str | None,
        Meta(description="Pop from queues of this namespace. This or `task` is required."),
    ] = None
    task: Annotated[str | None, Meta(description="Pop from queues of this task.")] = None


class Popped(msgspec.Struct):
    """Messages, under one lease."""

    success: Annotated[bool, Meta(description="Always true.")]
    queue: Annotated[str, Meta(description="Queue that the messages are from.")]
    partition: Annotated[str, Meta(description="Partition of the first message.")]
    partition_id: Annotated[str, Meta(description="Id of the partition of the first message.")] = (
        msgspec.field(name="partitionId")
    )
    lease_id: Annotated[
        str | None,
        Meta(
            description="Lease on all these messages: send it with ack and extend. Null with `autoAck`."
        ),
    ] = msgspec.field(name="leaseId")
    consumer_group: Annotated[
        str, Meta(description="Consumer group that the messages were popped for.")
    ] = msgspec.field(name="consumerGroup")
    partitions_claimed: Annotated[
        int, Meta(description="How many partitions the messages are from.")
    ] = msgspec.field(name="partitionsClaimed")
    messages: Annotated[
        list[dict[str, Any]],
        Meta(
            description="The messages, in the order in which they are to be processed. Each has `id`, "
            "`transactionId`, `partitionId`, `partition`, `data`, `createdAt`, `retryCount`, "
            "`traceId` and `producerSub`."
        ),
    ]


class PopRoutes:
    def __init__(self, writer: PopWriter, vault: Vault) -> None:
        self._writer = writer
        self._vault = vault

    async def pop_queue(self, call: Call[PopQueue, None]) -> Answer:
        queue = call.parameters.queue
        partition = getattr(call.parameters, "partition", None)
        async with Claims(call) as claims:
            work = claim_queue(call, claims, self._vault, queue, partition)
            if call.parameters.wait:
                claimed = await claims.attend(work, otherwise=Claimed(queue, (), waited=True))
            else:
                claimed = await work
            return await self._answer(call, claims, claimed, widen=partition is None)

    async def pop_any(self, call: Call[PopAny, None]) -> Answer:
        wanted = call.parameters
        if wanted.namespace is None and wanted.task is None:
            raise refuse("namespace", "name a queue in the path, or a namespace or task")
        async with Claims(call) as claims:
            work = claim_any(call, claims, self._vault)
            if wanted.wait:
                claimed = await claims.attend(work, otherwise=Claimed("", (), waited=True))
            else:
                claimed = await work
            return await self._answer(call, claims, claimed, widen=True)

    async def _answer(
        self, call: Call[Any, None], claims: Claims, claimed: Claimed, *, widen: bool
    ) -> Answer:
        """Return the answer to a pop. widen: its lease may get messages of more partitions."""
        wanted: Pop = call.parameters
        if not claimed.spans:
            return NOTHING
        spans = sorted(claimed.spans, key=_find_place)
        broker = call.service.broker
        group = read_group(wanted.consumer_group)
        lease = str(spans[0].token)
        # A pop that left the sizes to us and had to wait got all the messages there were.
        wide = wanted.partitions is not None or not claimed.waited
        if widen and wide and wanted.lanes > 1 and count_messages(spans) < wanted.most:
            try:
                more = await widen_lease(broker, claims, claimed.queue, spans, wanted=wanted)
            except NotFound:
                # The queue or group was deleted, and its leases with it, or it was renamed.
                await claims.release()
                return NOTHING
            if more.lease is not None:
                spans += more.spans
                lease = str(more.lease)
        await claims.require_client()
        extra = ""
        if wanted.autopilot:
            extra = f',"autopilot":{{"partitions":{wanted.lanes},"batch":{wanted.most}}}'
        shown = self._writer.show(
            claimed.queue,
            group,
            spans,
            lease=None if wanted.auto_ack else lease,
            committing=broker.streams.commits_offsets(claimed.queue, group),
            extra=extra,
        )
        if wanted.auto_ack:
            await broker.ack(list_receipts(spans))
            claims.keep()
        return Answer(200, shown)

    @property
    def operations(self) -> tuple[Operation[Any, Any], ...]:
        return (
            Operation(
                method="GET",
                path="/pop/queue/{queue}/partition/{partition}",
                handler=self.pop_queue,
                summary="Pop the next messages of one partition, or wait for some",
                description=(
                    "Returns messages of one partition under one lease. In an ordered group a "
                    "partition is leased to one consumer at a time, so the answer is 204 "
                    "while another consumer has it. Ack the messages, or extend the lease, "
                    "before it expires; otherwise they are delivered again and the attempt "
                    "counts."
                ),
                parameters=PopPartition,
                answers={
                    200: Response(Popped, "The messages, leased to the caller."),
                    204: Response(
                        None, "No message became ready in time, or the queue does not exist."
                    ),
                },
                role=Role.WRITE,
                reach=queue_in_path,
                forms={"queue": ".+?", "partition": SLASHED},
                tag="streams",
            ),
            Operation(
                method="GET",
                path="/pop/queue/{queue}",
                handler=self.pop_queue,
                summary="Pop the next messages of a queue, or wait for some",
                description=(
                    "Returns messages under one lease, from up to `partitions` partitions. An "
                    "ordered group gets each partition in order; a shared group gets the "
                    "oldest messages of all partitions. Ack the messages, or extend the "
                    "lease, before it expires; otherwise they are delivered again and the "
                    "attempt counts. With `wait`, the queue need not exist yet."
                ),
                parameters=PopQueue,
                answers={
                    200: Response(Popped, "The messages, leased to the caller."),
                    204: Response(
                        None, "No message became ready in time, or the queue does not exist."
                    ),
                },
                role=Role.WRITE,
                reach=queue_in_path,
                forms={"queue": SLASHED},
                tag="streams",
            ),
            Operation(
                method="GET",
                path="/pop",
                handler=self.pop_any,
                summary="Pop the next messages of any queue of a namespace or task",
                description=(
                    "Returns messages of one of the queues that have this namespace and task, "
                    "under one lease. Queues of higher `priority` come first. Without "
                    "`namespace` and `task` the request is refused (400)."
                ),
                parameters=PopAny,
                answers={
                    200: Response(Popped, "The messages, leased to the caller."),
                    204: Response(
                        None, "No message became ready in time, or no queue has these labels."
                    ),
                },
                role=Role.WRITE,
                reach=filtered,
                tag="streams",
            ),
        )


def _find_place(span: ClaimedSpan) -> int:
    """Return the position of a span's first message among all that were claimed together."""
    return span.positions[0] if span.positions else -1
