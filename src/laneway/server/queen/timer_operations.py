"""Operations on timers as clients send them, alone or in a transaction, and their results."""

from __future__ import annotations

import binascii
from base64 import b64decode
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias
from uuid import uuid4

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from laneway.domain.timers import TimerOperation
from laneway.server.queen.pushes import Item
from laneway.server.queen.wire import (
    LONGEST,
    KeyText,
    PartitionName,
    QueueName,
    refuse,
    show_moment,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.messages import OutgoingMessage
    from laneway.domain.timers import TimerResult

TimerKey = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=512,
        # A path without its last slash names the same timer.
        pattern=r"[^/]\Z",
        description="Name of the timer within its queue. It may not end with a slash.",
    ),
]


class _Operation(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, tag_field="op"):
    timer_key: TimerKey = msgspec.field(name="timerKey")


class Schedule(_Operation, kw_only=True, tag="schedule"):
    """Set a timer: push a message after a delay. It replaces the pending timer of this name."""

    queue: Annotated[
        QueueName, Meta(description="Queue to push to. It is created if it does not exist.")
    ]
    partition: Annotated[
        PartitionName | None, Meta(description="Partition to push to. Default: `Default`.")
    ] = None
    payload: Annotated[str, Meta(description="The message's payload: JSON, in base64.")]
    delay_ms: Annotated[
        Annotated[float, Meta(ge=-LONGEST * 1000, le=LONGEST * 1000)],
        Meta(
            description="Milliseconds until the push, up to ten years. A timer that is due, or was in "
            "the past, is pushed at once."
        ),
    ] = msgspec.field(name="delayMs")
    txn: Annotated[
        KeyText,
        Meta(
            description="Transaction id of the message. If the partition has it already, within the "
            "dedup window, nothing is pushed."
        ),
    ]
    payload_zstd: Annotated[
        bool, Meta(description="Must be false: payloads compressed by zstd are not supported.")
    ] = msgspec.field(name="payloadZstd", default=False)


class Reschedule(Schedule, kw_only=True, tag="reschedule"):
    """Set a timer, as `schedule` does."""


class Cancel(_Operation, kw_only=True, tag="cancel"):
    """Cancel a timer that is pending."""

    queue: Annotated[QueueName, Meta(description="Queue of the timer.")]
    txn: Annotated[
        KeyText | None,
        Meta(description="Transaction id of the timer. It is returned if there is no such timer."),
    ] = None


TimerRequest: TypeAlias = Schedule | Reschedule | Cancel


class TimerDone(msgspec.Struct, kw_only=True):
    """What became of an operation."""

    ok: Annotated[bool, Meta(description="Whether the timer was set or cancelled.")]
    status: Annotated[
        str,
        Meta(
            description="`scheduled`, `rescheduled` or `cancelled`. `absent`: no such timer is pending; "
            "its message may have been pushed."
        ),
    ]
    queue: Annotated[str, Meta(description="Queue of the timer.")]
    timer_key: Annotated[str, Meta(description="Name of the timer.")] = msgspec.field(
        name="timerKey"
    )
    txn: Annotated[str | None, Meta(description="Transaction id of its message.")]
    message_id: Annotated[
        str | UnsetType,
        Meta(
            description="Id of this timer, another one whenever it is set. The message gets an id of its "
            "own: find it by `txn`."
        ),
    ] = msgspec.field(name="messageId", default=UNSET)
    deliver_at: Annotated[
        str | UnsetType, Meta(description="When the message is pushed, or soon afterwards.")
    ] = msgspec.field(name="deliverAt", default=UNSET)


class TimerBatch:
    """The operations of one request on timers."""

    def __init__(self, requests: Sequence[TimerRequest]) -> None:
        self._requests = requests
        names = [(request.queue, request.timer_key) for request in requests]
        if len(set(names)) < len(names):
            raise refuse("timers", "each timer may be named once in a request")
        # The messages to push, for the timers that are set, in their order.
        self.items = [
            Item(
                queue=request.queue,
                payload=_read_payload(request),
                partition=request.partition,
                transaction_id=request.txn,
            )
            for request in requests
            if isinstance(request, Schedule)
        ]

    def make_operations(
        self, messages: Sequence[tuple[str, OutgoingMessage]]
    ) -> list[TimerOperation]:
        """Return the engine's operations; messages: those that were prepared of the items."""
        prepared = iter(messages)
        operations = []
        for request in self._requests:
            if isinstance(request, Schedule):
                _, message = next(prepared)
                delay = timedelta(milliseconds=request.delay_ms)
                operations.append(
                    TimerOperation(request.queue, request.timer_key, message, delay, uuid4())
                )
            else:
                operations.append(
                    TimerOperation(request.queue, request.timer_key, dedup_key=request.txn)
                )
        return operations

    def show(self, results: Sequence[TimerResult]) -> list[TimerDone]:
        shown = []
        for request, result in zip(self._requests, results, strict=True):
            done = TimerDone(
                ok=result.status != "absent",
                status=result.status,
                queue=request.queue,
                timer_key=request.timer_key,
                txn=result.dedup_key,
            )
            if isinstance(request, Schedule) and result.deliver_at is not None:
                done.message_id = str(result.timer_id)
                done.deliver_at = show_moment(result.deliver_at)
            shown.append(done)
        return shown


def _read_payload(request: Schedule) -> Raw:
    if request.payload_zstd:
        raise refuse("payloadZstd", "send the payload without compression")
    try:
        payload = b64decode(request.payload, validate=True)
    except (binascii.Error, ValueError):
        raise refuse("payload", "it is not base64") from None
    try:
        payload.decode()
        msgspec.json.decode(payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise refuse("payload", "it is not JSON in base64") from None
    return Raw(payload)


def name_queues(requests: Sequence[Any]) -> set[str]:
    return {request.queue for request in requests}
