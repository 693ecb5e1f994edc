"""The routes about one transaction: its status, cancel and retry; and about the targets."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from laneway.domain.errors import Conflict
from laneway.gateway.records import TransactionRecord
from laneway.gateway.targets import NonceSource
from laneway.server.gateway.errors import UnknownTarget
from laneway.server.gateway.places import (
    find_gateway,
    find_place,
    gateway_queue,
    read_id,
    refuse_id,
)
from laneway.server.gateway.wire import (
    ChangedTransaction,
    PoolStatus,
    RefusedRequest,
    TargetStatus,
    TargetUrl,
)
from laneway.server.operations import Operation, Response, Role
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from laneway.domain.transactions import Breaker
    from laneway.gateway.gateway import Place
    from laneway.server.calls import Call


class TransactionPath(msgspec.Struct, kw_only=True):
    transaction_id: Annotated[str, Meta(description="Transaction id, a UUID.")] = msgspec.field(
        name="transactionId"
    )


class AddressPath(msgspec.Struct, kw_only=True):
    address: Annotated[str, Meta(description="Ethereum address, `0x` and 40 hexadecimal digits.")]


class Nonce(msgspec.Struct):
    """The next nonce of an address."""

    nonce: Annotated[str, Meta(description="The nonce, as a decimal number.")]


async def show_status(call: Call[TransactionPath, None]) -> Answer:
    transaction_id = read_id(call.parameters.transaction_id)
    record = await find_gateway(call).statuses.find(transaction_id)
    if record is None:
        raise refuse_id(transaction_id)
    return Answer(200, record)


async def cancel(call: Call[TransactionPath, None]) -> Answer:
    transaction_id = read_id(call.parameters.transaction_id)
    gateway = find_gateway(call)
    done = await gateway.broker.transactions.cancel(transaction_id)
    if done is None:
        raise refuse_id(transaction_id)
    status, cancelled = done
    if not cancelled:
        raise Conflict(
            f"transaction {transaction_id} cannot be cancelled: it is {status}"
            + (", and its call has begun" if status == "pending" else "")
        )
    await gateway.statuses.forget(transaction_id)
    return answer_json(200, ChangedTransaction(str(transaction_id), status))


async def retry(call: Call[TransactionPath, None]) -> Answer:
    transaction_id = read_id(call.parameters.transaction_id)
    gateway = find_gateway(call)
    found = await gateway.statuses.load(transaction_id)
    if found is None:
        raise refuse_id(transaction_id)
    place = find_place(gateway, found.type)
    done = await place.intake.retry(found)
    if done is None:
        raise refuse_id(transaction_id)
    status, retried = done
    if not retried:
        raise Conflict(
            f"transaction {transaction_id} cannot be sent again: it is {status}. Only one that was"
            " given up can be"
        )
    await gateway.statuses.forget(transaction_id)
    return answer_json(202, ChangedTransaction(str(transaction_id), status))


async def show_pool(call: Call[None, None]) -> Answer:
    gateway = find_gateway(call)
    breakers = {each.target: each for each in await gateway.broker.transactions.list_breakers()}
    shown = await asyncio.gather(
        *(_show_target(place, breakers.get(name)) for name, place in gateway.places.items())
    )
    return answer_json(200, PoolStatus(list(shown)))


async def _show_target(place: Place, breaker: Breaker | None) -> TargetStatus:
    target = place.upstream.target
    health = await place.pool.ask()
    return TargetStatus(
        target.name,
        target.kind,
        "open" if breaker is not None and breaker.opened_at is not None else "closed",
        0 if breaker is None else breaker.failures,
        None if breaker is None else breaker.reason,
        [
            TargetUrl(url, health[url].available, health[url].pending, health[url].detail)
            for url in target.urls
        ],
    )


async def show_nonce(call: Call[AddressPath, None]) -> Answer:
    place = find_place(find_gateway(call), "gasless")
    upstream = place.upstream
    if not isinstance(upstream, NonceSource):
        raise UnknownTarget("no target has nonces: add one of the kind openzeppelin")
    nonce = await upstream.read_nonce(call.parameters.address, place.calls)
    return answer_json(200, Nonce(str(nonce)))


_NOT_FOUND = Response(RefusedRequest, "There is no such transaction.")

OPERATIONS = (
    Operation(
        method="GET",
        path="/status/{transactionId}",
        handler=show_status,
        summary="Show what became of a transaction",
        description=(
            "Looks in the cache, then in the database. A transaction that is submitted and not final "
            "is asked for at its target, once a second at most."
        ),
        parameters=TransactionPath,
        answers={200: Response(TransactionRecord, "The transaction."), 404: _NOT_FOUND},
        role=Role.READ,
        reach=gateway_queue,
        tag="gateway",
    ),
    Operation(
        method="POST",
        path="/transactions/{transactionId}/cancel",
        handler=cancel,
        summary="Cancel a transaction that was not sent yet",
        description="One whose call has begun, or that is final, is refused with 409.",
        parameters=TransactionPath,
        answers={
            200: Response(ChangedTransaction, "The transaction is cancelled."),
            404: _NOT_FOUND,
            409: Response(RefusedRequest, "Its call has begun, or it is final."),
        },
        role=Role.WRITE,
        reach=gateway_queue,
        tag="gateway",
    ),
    Operation(
        method="POST",
        path="/transactions/{transactionId}/retry",
        handler=retry,
        summary="Send a transaction again that was given up",
        description=(
            "Redrives its dead letter. If the result of an earlier call is unknown, the target is asked "
            "first."
        ),
        parameters=TransactionPath,
        answers={
            202: Response(ChangedTransaction, "The transaction will be sent again."),
            404: _NOT_FOUND,
            409: Response(RefusedRequest, "It was not given up."),
        },
        role=Role.WRITE,
        reach=gateway_queue,
        tag="gateway",
    ),
    Operation(
        method="GET",
        path="/pool-status",
        handler=show_pool,
        summary="Show how the targets are",
        description="The health of each URL is at most ten seconds old.",
        answers={200: Response(PoolStatus, "The targets.")},
        role=Role.READ,
        reach=gateway_queue,
        tag="gateway",
    ),
    Operation(
        method="GET",
        path="/gasless/nonce/{address}",
        handler=show_nonce,
        summary="Show the next nonce of an address",
        description="Reads it from the forwarder contract. 503 if the chain is unreachable.",
        parameters=AddressPath,
        answers={
            200: Response(Nonce, "The nonce."),
            404: Response(RefusedRequest, "No target has nonces."),
        },
        role=Role.READ,
        reach=gateway_queue,
        tag="gateway",
    ),
)
