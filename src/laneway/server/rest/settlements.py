"""Acks and nacks messages by id and token, and explains why some were refused."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from laneway.domain.messages import Nack, Outcome
from laneway.server.rest.access import find_usable
from laneway.server.rest.leases import Problem, diagnose, find_receipts, read_spans
from laneway.server.rest.refusals import record_refusals

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from laneway.domain.messages import Receipt
    from laneway.engine.columns import Spans
    from laneway.server.calls import Call
    from laneway.server.lease_tokens import LeaseTokens
    from laneway.server.rest.acks import Ack, NackItem

Named = TypeVar("Named", bound="Ack | NackItem")
R = TypeVar("R")


async def settle_usable(
    call: Call[Any, Any],
    items: Sequence[Named],
    settle: Callable[[Call[Any, Any], Sequence[Named]], Awaitable[list[R]]],
) -> Sequence[R | Problem]:
    """Settle messages of queues that the API key may use; the others are not found."""
    if call.identity.pattern is None:
        return await settle(call, items)
    usable = await find_usable(call, [item.id for item in items])
    results: list[R | Problem] = [Problem.NOT_FOUND] * len(items)
    settled = await settle(call, [items[position] for position in usable]) if usable else []
    for position, result in zip(usable, settled, strict=True):
        results[position] = result
    return results


async def ack(call: Call[Any, Any], acks: Sequence[Ack]) -> list[Problem | None]:
    """Return the problem of each ack, None if it succeeded."""
    results: list[Problem | None] = [None] * len(acks)
    tokens = await call.service.find_lease_tokens()
    spans = read_spans(acks, tokens)
    if spans is None:
        results, refused = await _ack_each(call, acks, tokens)
    else:
        refused = await _ack_spans(call, spans)
        if not refused:
            return results
    await _explain_refusals(call, acks, results, refused)
    await record_refusals(call, acks, results, tokens)
    return results


async def _ack_spans(call: Call[Any, Any], spans: Spans) -> list[int]:
    """Ack spans; return the positions of the messages that were refused."""
    return spans.find_positions(await call.service.broker.ack_spans(spans))


async def _ack_each(
    call: Call[Any, Any], acks: Sequence[Ack], tokens: LeaseTokens
) -> tuple[list[Problem | None], list[int]]:
    """Ack messages that need a look-up; return their problems, and the positions of those refused."""
    receipts = await find_receipts(call.broker, acks, tokens)
    # A message that is named twice is acked once, with the same result for both.
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


async def nack(call: Call[Any, Any], nacks: Sequence[NackItem]) -> list[Problem | Outcome]:
    """Return the outcome or problem of each nack."""
    broker = call.service.broker
    receipts = await find_receipts(broker, nacks, await call.service.find_lease_tokens())
    good: dict[Receipt, tuple[int, Nack]] = {}
    for item, receipt in zip(nacks, receipts, strict=True):
        if not isinstance(receipt, Problem):
            delay = None if item.delay is None else timedelta(seconds=item.delay)
            nack = Nack(*receipt, reason=item.error, delay=delay)
            good.setdefault(receipt, (len(good), nack))
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
