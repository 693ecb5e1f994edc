"""Acks of the streams protocol as settlements, and the results of settlements as its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from laneway.domain.streams import Fate, Settlement, Verdict
from laneway.server.queen.wire import (
    GroupName,
    LeaseText,
    PartitionId,
    TransactionId,
    find_hidden,
    read_address,
    read_group,
    read_lane,
    read_lease,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.streams import Action
    from laneway.server.calls import Call

_ACTIONS: dict[str, Action] = {
    "completed": "ack",
    "success": "ack",
    "failed": "retry",
    "retry": "release",
    "dlq": "dead",
}
# A lane that does not exist, for a partition id that is not one of ours.
_NOWHERE = -1
_ERRORS = {
    Fate.COMMITTED: "already committed: the group has passed this message, so it cannot be nacked",
    Fate.UNRESOLVED: "unresolvable: the partition has no message with this transactionId",
    Fate.UNLEASED: "message not leased: pop it, and send the `leaseId` of the pop with the ack",
    Fate.LEASE: "invalid or expired lease: nothing under it was changed. Pop the messages again",
}


class Ack(msgspec.Struct, kw_only=True):
    """What became of a message."""

    transaction_id: TransactionId = msgspec.field(name="transactionId")
    partition_id: PartitionId = msgspec.field(name="partitionId")
    status: Annotated[
        Literal["completed", "success", "failed", "retry", "dlq"],
        Meta(
            description="`completed` (the default) and `success` ack the message. `failed` nacks it. "
            "`retry` returns it without counting the attempt; where acks are individual, it nacks it. "
            "`dlq` makes it a dead letter."
        ),
    ] = "completed"
    consumer_group: Annotated[
        GroupName | None,
        Meta(
            description="Consumer group that popped the message. Default: the batch's, else the queue's "
            "own group."
        ),
    ] = msgspec.field(name="consumerGroup", default=None)
    lease_id: Annotated[
        LeaseText | None,
        Meta(
            description="Lease from the pop. Without it, the message's current lease is used, whichever "
            "consumer has it."
        ),
    ] = msgspec.field(name="leaseId", default=None)
    error: Annotated[
        Annotated[str, Meta(max_length=10_000)] | None,
        Meta(
            description="Why processing failed, at most 10,000 characters. Shown with the dead letter."
        ),
    ] = None


class Acked(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Whether a message was settled."""

    index: Annotated[int, Meta(description="Position of the message in the request, from 0.")]
    transaction_id: Annotated[str, Meta(description="Transaction id, as the request named it.")] = (
        msgspec.field(name="transactionId")
    )
    success: Annotated[bool, Meta(description="Whether the message was settled.")]
    error: Annotated[str | None, Meta(description="Why it was not settled.")]
    queue_name: Annotated[
        str | None, Meta(description="Queue of the message; null if the partition is unknown.")
    ] = msgspec.field(name="queueName")
    partition_name: Annotated[
        str | None, Meta(description="Partition of the message; null if it is unknown.")
    ] = msgspec.field(name="partitionName")
    lease_released: Annotated[
        bool,
        Meta(
            description="Whether this settled the last message that the lease had in this partition."
        ),
    ] = msgspec.field(name="leaseReleased")
    dlq: Annotated[bool, Meta(description="Whether the message became a dead letter.")]
    noop: Annotated[
        bool,
        Meta(
            description="Whether nothing changed because the group had passed the message before. "
            "Absent unless true."
        ),
    ] = False


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
    """Return the acks, without the partition id if the API key may not use its queue."""
    if call.identity.pattern is None:
        return acks
    hidden = await find_hidden(call, [ack.partition_id for ack in acks])
    return [
        msgspec.structs.replace(ack, partition_id="") if ack.partition_id in hidden else ack
        for ack in acks
    ]
