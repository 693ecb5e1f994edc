"""The routes that ack and nack messages and extend leases."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta

from laneway.domain.messages import Outcome
from laneway.server.access import looked_up
from laneway.server.operations import Operation, Response, Role
from laneway.server.responses import Answer, answer_json, encode
from laneway.server.rest.access import find_usable
from laneway.server.rest.leases import Problem, diagnose, find_receipts, locate
from laneway.server.rest.settlements import ack, nack, settle_usable
from laneway.server.rest.times import to_unix
from laneway.server.rest.wire import LONGEST, Reply, Seconds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.server.calls import Call

IdText = Annotated[str, Meta(min_length=1, max_length=255)]
TokenText = Annotated[str, Meta(max_length=255)]
DequeuedId = Annotated[IdText, Meta(description="Id of the message, as the dequeue returned it.")]
LockToken = Annotated[
    TokenText | None,
    Meta(
        description="Token of the lease, as the dequeue returned it. Without it, the message's "
        "current lease is used, whichever consumer has it."
    ),
]
Reason = Annotated[
    Annotated[str, Meta(max_length=2000)] | None,
    Meta(
        description="Why processing failed, at most 2000 characters. Shown as the message's "
        "`last_error`."
    ),
]
Delay = Annotated[
    Annotated[float, Meta(ge=0, le=LONGEST)] | None,
    Meta(
        description="Seconds until the message is delivered again, at most ten years. Default: the "
        "queue's backoff. Ignored if the message becomes a dead letter."
    ),
]


class Ack(msgspec.Struct):
    """A message to ack."""

    id: DequeuedId
    lock_token: LockToken = None


class Acks(msgspec.Struct):
    """Messages to ack."""

    acks: Annotated[
        list[Ack], Meta(min_length=1, max_length=100, description="1 to 100 messages to ack.")
    ]


class NackItem(msgspec.Struct):
    """A message to nack."""

    id: DequeuedId
    lock_token: LockToken = None
    error: Reason = None
    delay: Delay = None


class Nacks(msgspec.Struct):
    """Messages to nack."""

    nacks: Annotated[
        list[NackItem], Meta(min_length=1, max_length=100, description="1 to 100 messages to nack.")
    ]


class NackOne(msgspec.Struct):
    """Why a message is nacked, and when it is delivered again."""

    error_reason: Reason = msgspec.field(name="errorReason", default=None)
    lock_token: LockToken = None
    delay: Delay = None


class Touch(msgspec.Struct):
    """How long to extend a lease."""

    lock_token: Annotated[
        TokenText, Meta(description="Token of the lease, as the dequeue returned it.")
    ]
    extend_seconds: Annotated[
        Seconds | None,
        Meta(
            description="New lease duration in seconds, counted from now; at most ten years. Default: the "
            "lease duration of the message or its queue."
        ),
    ] = None


class ById(msgspec.Struct):
    id: DequeuedId


class Failure(msgspec.Struct):
    """A message that was not settled, and why."""

    id: Annotated[str, Meta(description="Id of the message, as the request named it.")]
    error: Annotated[str, Meta(description="Why it was not settled, in words.")]
    code: Annotated[
        Literal["NOT_FOUND", "INVALID_STATE", "LOCK_LOST"],
        Meta(
            description="`NOT_FOUND`: no such message. `INVALID_STATE`: it is not in flight, whatever the "
            "token is. `LOCK_LOST`: the lease has expired, or the token is another lease's."
        ),
    ]


class Acked(msgspec.Struct):
    """Which messages of a batch were acked."""

    message: Annotated[str, Meta(description="How many messages were acked, in words for people.")]
    succeeded: Annotated[list[str], Meta(description="Ids of the messages that were acked.")]
    failed: Annotated[list[Failure], Meta(description="The messages that were not acked, and why.")]


class Nacked(msgspec.Struct):
    """Which messages of a batch were nacked, and where they went."""

    message: Annotated[str, Meta(description="How many messages were nacked, in words for people.")]
    succeeded: Annotated[list[str], Meta(description="Ids of the messages that were nacked.")]
    failed: Annotated[
        list[Failure], Meta(description="The messages that were not nacked, and why.")
    ]
    requeued: Annotated[
        list[str],
        Meta(
            description="Ids of the messages that will be delivered again, after their `delay` or the "
            "queue's backoff."
        ),
    ]
    moved_to_dlq: Annotated[
        list[str],
        Meta(
            description="Ids of the messages that became dead letters because their attempts are used up."
        ),
    ] = msgspec.field(name="movedToDlq")


class Touched(msgspec.Struct):
    """The extended lease."""

    message: Annotated[str, Meta(description="What happened, in words for people.")]
    new_timeout_at: Annotated[
        float, Meta(description="When the lease now expires, in Unix seconds.")
    ]
    lock_token: Annotated[str, Meta(description="Token of the lease. It stays the same.")]


ACKNOWLEDGED = Answer(200, encode(Reply(message="Message acknowledged")))
NACKED = Answer(200, encode(Reply(message="Message nacked successfully")))


async def ack_message(call: Call[None, Ack]) -> Answer:
    problem = (await settle_usable(call, [call.body], ack))[0]
    if problem is None:
        return ACKNOWLEDGED
    if problem is Problem.LOCK_LOST:
        return _refuse(409, problem)
    return _refuse(400, problem)


async def ack_messages(call: Call[None, Acks]) -> Answer:
    acks = call.body.acks
    problems = await settle_usable(call, acks, ack)
    failed = _list_failures(acks, problems)
    done = [item.id for item, problem in zip(acks, problems, strict=True) if problem is None]
    return answer_json(200, Acked(f"{len(done)}/{len(acks)} messages acknowledged", done, failed))


async def nack_message(call: Call[ById, NackOne]) -> Answer:
    body = call.body
    item = NackItem(call.parameters.id, body.lock_token, body.error_reason, body.delay)
    result = (await settle_usable(call, [item], nack))[0]
    if not isinstance(result, Problem):
        return NACKED
    return _refuse(409 if result is Problem.LOCK_LOST else 404, result)


async def nack_messages(call: Call[None, Nacks]) -> Answer:
    nacks = call.body.nacks
    results = await settle_usable(call, nacks, nack)
    problems = [result if isinstance(result, Problem) else None for result in results]
    requeued = _pick(nacks, results, Outcome.REQUEUED)
    dead = _pick(nacks, results, Outcome.DEAD)
    done = [item.id for item, problem in zip(nacks, problems, strict=True) if problem is None]
    failed = _list_failures(nacks, problems)
    return answer_json(
        200, Nacked(f"{len(done)}/{len(nacks)} messages nacked", done, failed, requeued, dead)
    )


async def touch_message(call: Call[ById, Touch]) -> Answer:
    item = Ack(call.parameters.id, call.body.lock_token)
    if not await find_usable(call, [item.id]):
        return _refuse_touch(Problem.NOT_FOUND)
    tokens = await call.service.find_lease_tokens()
    receipt = (await find_receipts(call.broker, [item], tokens))[0]
    if isinstance(receipt, Problem):
        return _refuse_touch(receipt)
    extend = call.body.extend_seconds
    lease = timedelta(seconds=extend) if extend else await _find_lease(call, item)
    until = None
    if lease is not None:
        until = (await call.broker.extend([receipt], lease=lease))[0]
    if until is None:
        return _refuse_touch((await diagnose(call.broker, [item]))[0])
    return answer_json(
        200, Touched("Lock extended successfully", to_unix(until), call.body.lock_token)
    )


async def _find_lease(call: Call[Any, Any], item: Ack) -> timedelta | None:
    """Return the message's own lease duration, or its queue's."""
    found = await locate(call.broker, [item.id])
    message = found[0].message if found else None
    return None if message is None else message.lease


def _list_failures(
    items: Sequence[Ack | NackItem], problems: Sequence[Problem | None]
) -> list[Failure]:
    return [
        Failure(item.id, problem.words, problem.value)
        for item, problem in zip(items, problems, strict=True)
        if problem is not None
    ]


def _pick(
    nacks: Sequence[NackItem], results: Sequence[Problem | Outcome], wanted: Outcome
) -> list[str]:
    return [item.id for item, result in zip(nacks, results, strict=True) if result is wanted]


def _refuse(status: int, problem: Problem) -> Answer:
    return answer_json(status, Reply(message=problem.words, error=problem.value))


def _refuse_touch(problem: Problem) -> Answer:
    # A message that is not in flight has no lease to extend: for a touch, it is not found.
    lost = problem is Problem.LOCK_LOST
    return _refuse(409, problem) if lost else _refuse(404, Problem.NOT_FOUND)


# For examples in the API reference.
_TOKEN = "933d4cada01045d3927dd25f31175c1a5f0c2a9b1d3e4f60"  # noqa: S105 - an example

OPERATIONS = (
    Operation(
        method="POST",
        path="/queue/ack",
        handler=ack_message,
        summary="Ack a message",
        description=(
            "Reports that the message is processed. It is not delivered again, and the ack is "
            "on disk before the server responds. After a 409 the lease had expired: another "
            "consumer may have the message, so processing must be idempotent. After a 503, "
            "send the ack again."
        ),
        body=Ack,
        example={"id": "2-1-1", "lock_token": _TOKEN},
        answers={
            200: Response(Reply, "The message is acked."),
            400: Response(
                Reply,
                "The message does not exist (`NOT_FOUND`) or is not in flight "
                "(`INVALID_STATE`), for example because it was acked before.",
            ),
            409: Response(
                Reply,
                "The lease has expired, or the token is that of another lease "
                "(`LOCK_LOST`). Nothing changed.",
            ),
        },
        role=Role.WRITE,
        reach=looked_up,
    ),
    Operation(
        method="POST",
        path="/queue/ack/batch",
        handler=ack_messages,
        summary="Ack many messages, each on its own",
        description=(
            "Acks up to 100 messages. Each message succeeds or fails by itself, so the status "
            "is 200 even if some failed: check `failed`. The acks are on disk before the "
            "server responds. After a 503, send the batch again."
        ),
        body=Acks,
        example={"acks": [{"id": "2-1-1", "lock_token": _TOKEN}]},
        answers={
            200: Response(
                Acked, "The batch was processed. `failed` lists the messages that were not acked."
            )
        },
        role=Role.WRITE,
        reach=looked_up,
    ),
    Operation(
        method="POST",
        path="/queue/nack/batch",
        handler=nack_messages,
        summary="Nack many messages, each on its own",
        description=(
            "Reports that processing failed for up to 100 messages. Each attempt counts: a "
            "message with attempts left is delivered again after its `delay` or the queue's "
            "backoff, any other becomes a dead letter. Each message succeeds or fails by itself, "
            "so the status is 200 even if some failed: check `failed`."
        ),
        body=Nacks,
        example={"nacks": [{"id": "2-1-1", "lock_token": _TOKEN, "error": "no such address"}]},
        answers={
            200: Response(
                Nacked, "The batch was processed. `failed` lists the messages that were not nacked."
            )
        },
        role=Role.WRITE,
        reach=looked_up,
    ),
    Operation(
        method="POST",
        path="/queue/message/{id}/nack",
        handler=nack_message,
        summary="Nack a message",
        description=(
            "Reports that processing failed. The attempt counts: the message is delivered "
            "again after `delay` or the queue's backoff, or becomes a dead letter if its attempts "
            "are used up. After a 409 the lease had already expired, and that counted as the "
            "failed attempt."
        ),
        parameters=ById,
        body=NackOne,
        example={"lock_token": _TOKEN, "errorReason": "no such address"},
        body_optional=True,
        answers={
            200: Response(Reply, "The message is nacked."),
            404: Response(
                Reply,
                "The message does not exist (`NOT_FOUND`) or is not in flight (`INVALID_STATE`).",
            ),
            409: Response(
                Reply,
                "The lease has expired, or the token is that of another lease "
                "(`LOCK_LOST`). Nothing changed.",
            ),
        },
        role=Role.WRITE,
        reach=looked_up,
    ),
    Operation(
        method="PUT",
        path="/queue/message/{id}/touch",
        handler=touch_message,
        summary="Extend a message's lease",
        description=(
            "Gives the lease a new expiry time, counted from now by the database's clock. The "
            "time may be earlier than before. Touch a message regularly while processing "
            "takes longer than its lease. After a 409, stop: another consumer may have the "
            "message."
        ),
        parameters=ById,
        body=Touch,
        example={"lock_token": _TOKEN, "extend_seconds": 60},
        answers={
            200: Response(Touched, "The lease is extended."),
            404: Response(Reply, "The message does not exist or is not in flight (`NOT_FOUND`)."),
            409: Response(
                Reply,
                "The lease has expired, or the token is that of another lease "
                "(`LOCK_LOST`). Nothing changed.",
            ),
        },
        role=Role.WRITE,
        reach=looked_up,
    ),
)
