"""Finds the targets of requests, in the gateway of the server process."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from laneway.domain.transactions import TRANSACTIONS
from laneway.gateway.failures import InvalidTransaction
from laneway.server.access import named
from laneway.server.gateway.errors import UnknownTarget, UnknownTransaction

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.gateway.gateway import Gateway, Place
    from laneway.server.calls import Call


@named
async def gateway_queue(_: Call[Any, Any], /) -> Sequence[str]:
    """Return the queue of the gateway: keys that may use it may use the gateway."""
    return (TRANSACTIONS,)


def find_gateway(call: Call[Any, Any]) -> Gateway:
    gateway = call.service.gateway
    if gateway is None:
        raise UnknownTarget(
            "the gateway has no targets. Add one to laneway.toml with: laneway gateway target add"
        )
    return gateway


def find_place(gateway: Gateway, type: str) -> Place:  # noqa: A002 - its name in the API
    """Return the target that accepts requests of this type."""
    for place in gateway.places.values():
        if type in place.upstream.types:
            return place
    known = sorted(each for place in gateway.places.values() for each in place.upstream.types)
    raise UnknownTarget(f'no target accepts "{type}": use {" or ".join(known)}')


def read_id(text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidTransaction(f'"{text}" is not a transaction id: it is a UUID') from None


def refuse_id(transaction_id: UUID) -> UnknownTransaction:
    return UnknownTransaction(f"transaction {transaction_id} not found")
