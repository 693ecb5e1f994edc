"""The routes of timers: messages that are pushed at a time."""

from __future__ import annotations

from base64 import b64encode
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType

from laneway.server.access import named
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.deliveries import NO_HEADERS, read_headers
from laneway.server.queen.registry import retry_if_queues_changed
from laneway.server.queen.timer_operations import (
    Cancel,
    TimerBatch,
    TimerDone,
    TimerKey,
    TimerRequest,
    name_queues,
)
from laneway.server.queen.wire import SLASHED, ByQueue, KeyText, queue_in_path, show_moment
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.streams import Transacted
    from laneway.domain.timers import Timer, TimerOperation
    from laneway.server.calls import Call
    from laneway.server.queen.pushes import PushRoutes

LARGEST_PAGE = 1000


class TimerRequests(msgspec.Struct, kw_only=True):
    """Operations on timers, all or nothing."""

    operations: Annotated[
        list[TimerRequest],
        Meta(max_length=256, description="Up to 256 operations, each on another timer."),
    ]


class TimersDone(msgspec.Struct, kw_only=True):
    """What became of the operations."""

    results: Annotated[
        list[TimerDone], Meta(description="One result per operation, in the order of the request.")
    ]


class ByTimer(ByQueue, kw_only=True):
    timer_key: Annotated[
        TimerKey, Meta(description="Name of the timer. It may contain slashes.")
    ] = msgspec.field(name="timerKey")


class CancelByTimer(ByTimer, kw_only=True):
    txn: Annotated[
        KeyText | None,
        Meta(description="Transaction id of the timer. It is returned if there is no such timer."),
    ] = None


class Page(ByQueue, kw_only=True):
    after: Annotated[
        str | None, Meta(description="Only timers with names after this one, in byte order.")
    ] = None
    limit: Annotated[
        int, Meta(description="Timers per page, 1 to 1000; other numbers count as the nearest.")
    ] = 100


class TimerShown(msgspec.Struct, kw_only=True):
    """A pending timer."""

    found: Annotated[
        bool | UnsetType, Meta(description="Of a single timer: whether it is pending.")
    ] = UNSET
    queue: Annotated[str, Meta(description="Queue of the timer.")]
    timer_key: Annotated[str, Meta(description="Name of the timer.")] = msgspec.field(
        name="timerKey"
    )
    partition: Annotated[str | UnsetType, Meta(description="Partition to push to.")] = UNSET
    deliver_at: Annotated[str | UnsetType, Meta(description="When the message is pushed.")] = (
        msgspec.field(name="deliverAt", default=UNSET)
    )
    txn: Annotated[str | UnsetType, Meta(description="Transaction id of the message.")] = UNSET
    message_id: Annotated[str | UnsetType, Meta(description="Id of this timer.")] = msgspec.field(
        name="messageId", default=UNSET
    )
    payload: Annotated[
        str | UnsetType, Meta(description="Of a single timer: the payload as stored, in base64.")
    ] = UNSET
    payload_zstd: Annotated[bool | UnsetType, Meta(description="Always false.")] = msgspec.field(
        name="payloadZstd", default=UNSET
    )
    encrypted: Annotated[bool | UnsetType, Meta(description="Whether it is stored encrypted.")] = (
        UNSET
    )
    producer_sub: Annotated[
        str | UnsetType | None, Meta(description="Subject of the token that set the timer.")
    ] = msgspec.field(name="producerSub", default=UNSET)
    attempts: Annotated[int | UnsetType, Meta(description="How many pushes failed.")] = UNSET
    last_error: Annotated[
        str | UnsetType | None, Meta(description="Why the last push failed; null if none did.")
    ] = msgspec.field(name="lastError", default=UNSET)
    claimed: Annotated[
        bool | UnsetType,
        Meta(description="Always false: a timer can be cancelled until it is gone."),
    ] = UNSET
    created_at: Annotated[str | UnsetType, Meta(description="When it was set first.")] = (
        msgspec.field(name="createdAt", default=UNSET)
    )
    updated_at: Annotated[str | UnsetType, Meta(description="When it was set last.")] = (
        msgspec.field(name="updatedAt", default=UNSET)
    )


class TimersShown(msgspec.Struct, kw_only=True):
    """A page of pending timers."""

    rows: Annotated[list[TimerShown], Meta(description="The timers, in byte order of their names.")]
    truncated: Annotated[bool, Meta(description="Whether there are more.")]
    next_after: Annotated[
        str | None, Meta(description="`after` of the next page; null on the last.")
    ] = msgspec.field(name="nextAfter")


class TimerRoutes:
    def __init__(self, pushes: PushRoutes) -> None:
        self._pushes = pushes

    async def apply(self, call: Call[None, TimerRequests]) -> Answer:
        batch = TimerBatch(call.body.operations)

        async def transact() -> Transacted:
            messages, guards, new = await self._pushes.prepare(call, batch.items)
            operations = batch.make_operations(messages)
            return await _transact(call, operations, guards=guards, new=new)

        if not call.body.operations:
            return answer_json(200, TimersDone(results=[]))
        done = await retry_if_queues_changed(call.broker, batch.items, transact)
        return answer_json(200, TimersDone(results=batch.show(done.timers)))

    @property
    def operations(self) -> tuple[Operation[Any, Any], ...]:
        return (
            Operation(
                method="POST",
                path="/timers",
                handler=self.apply,
                summary="Set and cancel timers",
                description=(
                    "A timer pushes a message once, after a delay by the database's clock, never "
                    "before and soon afterwards. It is on disk before the server responds. Setting "
                    "a timer again replaces it, and deleting its queue deletes it. Once a cancel "
                    "has succeeded, the message is never pushed. If the queue is full (`maxSize`), "
                    "the message waits until there is room."
                ),
                body=TimerRequests,
                example={
                    "operations": [
                        {
                            "op": "schedule",
                            "queue": "orders",
                            "timerKey": "order-12:expire",
                            "payload": "eyJvcmRlciI6MTJ9",
                            "delayMs": 60_000,
                            "txn": "order-12-expired",
                        }
                    ]
                },
                answers={200: Response(TimersDone, "What became of each operation.")},
                role=Role.WRITE,
                reach=_queues_of_operations,
                tag="timers",
            ),
            Operation(
                method="GET",
                path="/timers/{queue}",
                handler=list_timers,
                summary="List the pending timers of a queue",
                description="Returns a page of timers, without their payloads.",
                parameters=Page,
                answers={
                    200: Response(TimersShown, "A page of timers; empty if there is no such queue.")
                },
                role=Role.READ,
                reach=queue_in_path,
                compress=True,
                tag="timers",
            ),
            Operation(
                method="GET",
                path="/timers/{queue}/{timerKey}",
                handler=show_timer,
                summary="Show a pending timer",
                description="Returns one timer with its payload.",
                parameters=ByTimer,
                answers={
                    200: Response(TimerShown, "The timer; `found` is false if none is pending.")
                },
                role=Role.READ,
                reach=queue_in_path,
                forms={"timerKey": SLASHED},
                tag="timers",
            ),
            Operation(
                method="DELETE",
                path="/timers/{queue}/{timerKey}",
                handler=cancel,
                summary="Cancel a timer",
                description=(
                    "Cancels one pending timer. If there is none, its message may have been pushed "
                    "already: look for it by its `txn`."
                ),
                parameters=CancelByTimer,
                answers={200: Response(TimerDone, "Whether it was cancelled: `ok`, and `status`.")},
                role=Role.WRITE,
                reach=queue_in_path,
                forms={"timerKey": SLASHED},
                tag="timers",
            ),
        )


async def cancel(call: Call[CancelByTimer, None]) -> Answer:
    wanted = call.parameters
    request = Cancel(queue=wanted.queue, timer_key=wanted.timer_key, txn=wanted.txn)
    batch = TimerBatch([request])
    done = await _transact(call, batch.make_operations(()), guards={}, new={})
    return answer_json(200, batch.show(done.timers)[0])


async def show_timer(call: Call[ByTimer, None]) -> Answer:
    queue, key = call.parameters.queue, call.parameters.timer_key
    timer = await call.broker.timers.find(queue, key)
    if timer is None:
        return answer_json(200, TimerShown(found=False, queue=queue, timer_key=key))
    shown = _show(queue, timer)
    shown.found = True
    shown.payload = b64encode(timer.body.encode()).decode()
    return answer_json(200, shown)


async def list_timers(call: Call[Page, None]) -> Answer:
    wanted = call.parameters
    limit = min(max(wanted.limit, 1), LARGEST_PAGE)
    found = await call.broker.timers.list_all(wanted.queue, after=wanted.after, limit=limit + 1)
    rows = [_show(wanted.queue, timer) for timer in found[:limit]]
    more = len(found) > limit
    return answer_json(
        200,
        TimersShown(rows=rows, truncated=more, next_after=rows[-1].timer_key if more else None),
    )


def _show(queue: str, timer: Timer) -> TimerShown:
    headers = NO_HEADERS if timer.headers is None else read_headers(timer.headers)
    return TimerShown(
        queue=queue,
        timer_key=timer.key,
        partition=timer.partition,
        deliver_at=show_moment(timer.deliver_at),
        txn=timer.dedup_key,
        message_id=str(timer.timer_id),
        payload_zstd=False,
        encrypted=headers.sealed,
        producer_sub=headers.sub,
        attempts=timer.attempts,
        last_error=timer.error,
        claimed=False,
        created_at=show_moment(timer.created_at),
        updated_at=show_moment(timer.updated_at),
    )


async def _transact(
    call: Call[Any, Any], operations: Sequence[TimerOperation], **more: Any
) -> Transacted:
    return await call.broker.streams.transact((), (), timers=operations, **more)


@named
async def _queues_of_operations(call: Call[Any, Any], /) -> Sequence[str]:
    return sorted(name_queues(call.body.operations))
