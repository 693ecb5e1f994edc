"""The route that lists transactions."""

from __future__ import annotations

import base64
import binascii
from datetime import datetime
from typing import TYPE_CHECKING, Annotated
from uuid import UUID

import msgspec
from msgspec import Meta

from laneway.gateway.failures import InvalidFields
from laneway.gateway.records import TransactionRecord, make_record
from laneway.server.gateway.places import find_gateway, gateway_queue
from laneway.server.operations import Operation, Response, Role
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from laneway.domain.transactions import Transaction
    from laneway.server.calls import Call


class TransactionFilters(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    status: Annotated[str | None, Meta(description="Only transactions with this status.")] = None
    target: Annotated[str | None, Meta(description="Only transactions for this target.")] = None
    since: Annotated[
        str | None, Meta(description="Only those accepted at this time or later (ISO 8601).")
    ] = msgspec.field(name="from", default=None)
    until: Annotated[
        str | None, Meta(description="Only those accepted before this time (ISO 8601).")
    ] = msgspec.field(name="to", default=None)
    cursor: Annotated[
        str | None, Meta(description="`nextCursor` of the page before; without it, the first page.")
    ] = None
    limit: Annotated[
        int, Meta(ge=1, le=1000, description="Transactions per page, 1 to 1000. Default: 100.")
    ] = 100


class TransactionPage(msgspec.Struct):
    """A page of transactions, newest first."""

    transactions: Annotated[list[TransactionRecord], Meta(description="The transactions.")]
    next_cursor: Annotated[
        str | None, Meta(description="`cursor` of the next page; null: this is the last one.")
    ] = msgspec.field(name="nextCursor")


async def list_transactions(call: Call[TransactionFilters, None]) -> Answer:
    wanted = call.parameters
    found = await find_gateway(call).broker.transactions.list_all(
        statuses=None if wanted.status is None else [wanted.status],
        target=wanted.target,
        since=_read_time("from", wanted.since),
        until=_read_time("to", wanted.until),
        before=None if wanted.cursor is None else _read_cursor(wanted.cursor),
        limit=wanted.limit + 1,
    )
    page = found[: wanted.limit]
    following = _write_cursor(page[-1]) if len(found) > len(page) else None
    return answer_json(200, TransactionPage(list(map(make_record, page)), following))


def _read_time(name: str, text: str | None) -> datetime | None:
    if text is None:
        return None
    try:
        moment: datetime = msgspec.convert(text, Annotated[datetime, Meta(tz=True)])
    except msgspec.ValidationError:
        raise InvalidFields(
            [(name, "is not a time with a time zone, such as 2026-01-06T12:34:56Z")]
        ) from None
    return moment


def _write_cursor(transaction: Transaction) -> str:
    text = f"{transaction.created_at.isoformat()} {transaction.id}"
    return base64.urlsafe_b64encode(text.encode()).decode()


def _read_cursor(text: str) -> tuple[datetime, UUID]:
    try:
        moment, _, ident = base64.urlsafe_b64decode(text).decode().partition(" ")
        return datetime.fromisoformat(moment), UUID(ident)
    except (ValueError, binascii.Error):
        raise InvalidFields(
            [("cursor", "is not the nextCursor of a page: begin without one")]
        ) from None


OPERATIONS = (
    Operation(
        method="GET",
        path="/transactions",
        handler=list_transactions,
        summary="List transactions",
        description="Newest first. Pages stay right while transactions are added.",
        parameters=TransactionFilters,
        answers={200: Response(TransactionPage, "A page of transactions.")},
        role=Role.READ,
        reach=gateway_queue,
        compress=True,
        tag="gateway",
    ),
)
