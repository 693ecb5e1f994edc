"""Transactions as clients see them: the same JSON over HTTP and in the cache."""

from __future__ import annotations

from datetime import datetime  # noqa: TC003 - msgspec reads it
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta, Raw

if TYPE_CHECKING:
    from laneway.domain.transactions import Transaction


class TransactionRecord(msgspec.Struct, rename={"transaction_id": "transactionId"}):
    """A transaction."""

    transaction_id: Annotated[str, Meta(description="Transaction id, a UUID.")]
    type: Annotated[
        str, Meta(description="What was asked for: `direct`, `gasless` or the target's name.")
    ]
    target: Annotated[str, Meta(description="Target that the request is for.")]
    status: Annotated[
        str,
        Meta(
            description="`pending`, `success`, `failed` or `cancelled`. Of a relayer also `submitted`, "
            "`mined`, `confirmed`, `reverted` and `expired`."
        ),
    ]
    hash: Annotated[
        str | None, Meta(description="Transaction hash; null until the target has told it.")
    ]
    created_at: Annotated[
        datetime, Meta(description="When the request was accepted (ISO 8601).")
    ] = msgspec.field(name="createdAt")
    confirmed_at: Annotated[
        datetime | None,
        Meta(description="When the target confirmed it (ISO 8601); null: not yet, or not told."),
    ] = msgspec.field(name="confirmedAt")
    result: Annotated[Raw | None, Meta(description="The target's answer, once there is a result.")]
    error_message: Annotated[
        str | None,
        Meta(description="Why it failed or, while it is pending, why the latest attempt failed."),
    ]


_ENCODER = msgspec.json.Encoder()


def encode_record(transaction: Transaction) -> bytes:
    return _ENCODER.encode(make_record(transaction))


def make_record(transaction: Transaction) -> TransactionRecord:
    result = transaction.result
    return TransactionRecord(
        transaction_id=str(transaction.id),
        type=transaction.type,
        target=transaction.target,
        status=transaction.status,
        hash=transaction.hash,
        created_at=transaction.created_at,
        confirmed_at=transaction.confirmed_at,
        result=None if result is None else Raw(result.encode()),
        error_message=transaction.error,
    )
