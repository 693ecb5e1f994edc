"""The routes that settle messages in hand: ack, nack, touch."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta

from laneway.domain.messages import Nack, Outcome
from laneway.server.access import looked_up
from laneway.server.operations import Operation, Role
from laneway.server.responses import Answer, answer_json, encode
from laneway.server.rest.access import find_usable
from laneway.server.rest.leases import Problem, diagnose, find_receipts, locate, read_spans
from laneway.server.rest.refusals import record_refusals
from laneway.server.rest.times import to_unix
from laneway.server.rest.wire import Message, Seconds

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from laneway.domain.messages import Receipt
    from laneway.engine.columns import Spans
    from laneway.server.calls import Call

Named = TypeVar("Named", bound="Ack | NackItem")
R = TypeVar("R")

IdText = Annotated[str, Meta(min_length=1, max_length=255)]
TokenText = Annotated[str, Meta(max_length=255)]
Reason = Annotated[str, Meta(max_length=2000)]


class Ack(msgspec.Struct):
    id: IdText
    lock_token: TokenText | None = None


class Acks(msgspec.Struct):
    acks: Annotated[list[Ack], Meta(min_length=1, max_length=100)]


class NackItem(msgspec.Struct):
    id: IdText
    lock_token: TokenText | None = None
    error: Reason | None = None


class Nacks(msgspec.Struct):
    nacks: Annotated[list[NackItem], Meta(min_length=1, max_length=100)]


class NackOne(msgspec.Struct):
    error_reason: Reason | None = msgspec.field(name="errorReason", default=None)
    lock_token: TokenText | None = None


class Touch(msgspec.Struct):
    """Without extend_seconds the lock lasts as long again as it did at first."""

    lock_token: TokenText
    extend_seconds: Seconds | None = None


class ById(msgspec.Struct):
    id: IdText


class Failure(msgspec.Struct):
    id: str
    error: str
    code: Literal["NOT_FOUND", "INVALID_STATE", "LOCK_LOST"]


class Acked(msgspec.Struct):
    message: str
    succeeded: list[str]
    failed: list[Failure]


class Nacked(msgspec.Struct):
    message: str
    succeeded: list[str]
    failed: list[Failure]
    requeued: list[str]
    moved_to_dlq: list[str] = msgspec.field(name="movedToDlq")


class Touched(msgspec.Struct):
    message: str
    new_timeout_at: float
    lock_token: str


ACKNOWLEDGED = Answer(200, encode(Message(message="Message acknowledged")))
NACKED = Answer(200, encode(Message(message="Message nacked successfully")))


async def ack_message(call: Call[None, Ack]) -> Answer:
    problem = (await _settle_usable(call, [call.body], _ack))[0]
    if problem is None:
        return ACKNOWLEDGED
    if problem is Problem.LOCK_LOST:
        return _refuse(409, problem)
    return _refuse(400, problem)


async def ack_messages(call: Call[None, Acks]) -> Answer:
    acks = call.body.acks
    problems = await _settle_usable(call, acks, _ack)
    failed = _list_failures(acks, problems)
    done = [ack.id for ack, problem in zip(acks, problems, strict=True) if problem is None]
    return answer_json(200, Acked(f"{len(done)}/{len(acks)} messages acknowledged", done, failed))


async def nack_message(call: Call[ById, NackOne]) -> Answer:
    item = NackItem(call.parameters.id, call.body.lock_token, call.body.error_reason)
    result = (await _settle_usable(call, [item], _nack))[0]
    if not isinstance(result, Problem):
        return NACKED
    return _refuse(409 if result is Problem.LOCK_LOST else 404, result)


async def nack_messages(call: Call[None, Nacks]) -> Answer:
    nacks = call.body.nacks
    results = await _settle_usable(call, nacks, _nack)
    problems = [result if isinstance(result, Problem) else None for result in results]
    requeued = _pick(nacks, results, Outcome.REQUEUED)
    dead = _pick(nacks, results, Outcome.DEAD)
    done = [nack.id for nack, problem in zip(nacks, problems, strict=True) if problem is None]
    failed = _list_failures(nacks, problems)
    return answer_json(
        200, Nacked(f"{len(done)}/{len(nacks)} messages nacked", done, failed, requeued, dead)
    )


async def touch_message(call: Call[ById, Touch]) -> Answer:
    item = Ack(call.parameters.id, call.body.lock_token)
    if not await find_usable(call, [item.id]):
        return _refuse_touch(Problem.NOT_FOUND)
    receipt = (await find_receipts(call.broker, [item]))[0]
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


async def _settle_usable(
    call: Call[Any, Any],
    items: Sequence[Named],
    settle: Callable[[Call[Any, Any], Sequence[Named]], Awaitable[list[R]]],
) -> Sequence[R | Problem]:
    """Settle the messages of queues that the key may use; the others are not found."""
    if call.identity.pattern is None:
        return await settle(call, items)
    usable = await find_usable(call, [item.id for item in items])
    results: list[R | Problem] = [Problem.NOT_FOUND] * len(items)
    settled = await settle(call, [items[position] for position in usable]) if usable else []
    for position, result in zip(usable, settled, strict=True):
        results[position] = result
    return results


async def _ack(call: Call[Any, Any], acks: Sequence[Ack]) -> list[Problem | None]:
    """Return what is wrong with each, None where it is settled."""
    results: list[Problem | None] = [None] * len(acks)
    spans = read_spans(acks)
    if spans is None:
        results, refused = await _ack_each(call, acks)
    else:
        refused = await _ack_spans(call, spans)
        if not refused:
            return results
    await _explain_refusals(call, acks, results, refused)
    await record_refusals(call, acks, results)
    return results


async def _ack_spans(call: Call[Any, Any], spans: Spans) -> list[int]:
    """Return the positions of those that were refused."""
    return spans.find_positions(await call.service.broker.ack_spans(spans))


async def _ack_each(
    call: Call[Any, Any], acks: Sequence[Ack]
) -> tuple[list[Problem | None], list[int]]:
    """Return what is wrong with each that cannot be settled, and the positions of those refused."""
    receipts = await find_receipts(call.broker, acks)
    # One that is named twice is settled once, and both are told the same.
    good: dict[Receipt, int] = {}
    for receipt in receipts:
        if not isinstance(receipt, Problem):
            good.setdefault(receipt, len(good))
    lost = set(await call.broker.ack(list(good)))
    results: list[Problem | None] = []
    refused: list[int] = []
    for position, receipt in enumerate(receipts):
        if isinstance(receipt, Problem):
            results.append(receipt)
        else:
            results.append(None)
            if good[receipt] in lost:
                refused.append(position)
    return results, refused


async def _nack(call: Call[Any, Any], nacks: Sequence[NackItem]) -> list[Problem | Outcome]:
    """Return what became of each, or what is wrong with it."""
    broker = call.service.broker
    receipts = await find_receipts(broker, nacks)
    good: dict[Receipt, tuple[int, Nack]] = {}
    for item, receipt in zip(nacks, receipts, strict=True):
        if not isinstance(receipt, Problem):
            good.setdefault(receipt, (len(good), Nack(*receipt, reason=item.error)))
    outcomes = await broker.nack([nack for _, nack in good.values()])
    results = [
        receipt if isinstance(receipt, Problem) else outcomes[good[receipt][0]]
        for receipt in receipts
    ]
    refused = [position for position, result in enumerate(results) if result is Outcome.LOST]
    await _explain_refusals(call, nacks, results, refused)
    return results


async def _explain_refusals(
    call: Call[Any, Any],
    items: Sequence[Ack | NackItem],
    results: list[Any],
    refused: Sequence[int],
) -> None:
    if refused:
        problems = await diagnose(call.broker, [items[position] for position in refused])
        for position, problem in zip(refused, problems, strict=True):
            results[position] = problem


async def _find_lease(call: Call[Any, Any], item: Ack) -> timedelta | None:
    """Return how long the message's lock lasts when nobody says otherwise."""
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
    return answer_json(status, Message(message=problem.words, error=problem.value))


def _refuse_touch(problem: Problem) -> Answer:
    if problem is Problem.NOT_FOUND:
        return _refuse(404, problem)
    return _refuse(409, Problem.LOCK_LOST)


# In the reference's examples.
_TOKEN = "933d4cad-a010-45d3-927d-d25f31175c1a"  # noqa: S105 - of a message, and made up

OPERATIONS = (
    Operation(
        method="POST",
        path="/queue/ack",
        handler=ack_message,
        summary="Acknowledge a message",
        body=Ack,
        example={"id": "2-1-1", "lock_token": _TOKEN},
        answers={200: Message, 400: Message, 409: Message},
        role=Role.WRITE,
        reach=looked_up,
    ),
    Operation(
        method="POST",
        path="/queue/ack/batch",
        handler=ack_messages,
        summary="Acknowledge many messages, each on its own",
        body=Acks,
        example={"acks": [{"id": "2-1-1", "lock_token": _TOKEN}]},
        answers={200: Acked},
        role=Role.WRITE,
        reach=looked_up,
    ),
    Operation(
        method="POST",
        path="/queue/nack/batch",
        handler=nack_messages,
        summary="Give many messages back, each on its own",
        body=Nacks,
        example={"nacks": [{"id": "2-1-1", "lock_token": _TOKEN, "error": "no such address"}]},
        answers={200: Nacked},
        role=Role.WRITE,
        reach=looked_up,
    ),
    Operation(
        method="POST",
        path="/queue/message/{id}/nack",
        handler=nack_message,
        summary="Give a message back after a failure",
        parameters=ById,
        body=NackOne,
        example={"lock_token": _TOKEN, "errorReason": "no such address"},
        body_optional=True,
        answers={200: Message, 404: Message, 409: Message},
        role=Role.WRITE,
        reach=looked_up,
    ),
    Operation(
        method="PUT",
        path="/queue/message/{id}/touch",
        handler=touch_message,
        summary="Have a message's lock last longer",
        parameters=ById,
        body=Touch,
        example={"lock_token": _TOKEN, "extend_seconds": 60},
        answers={200: Touched, 404: Message, 409: Message},
        role=Role.WRITE,
        reach=looked_up,
    ),
)
