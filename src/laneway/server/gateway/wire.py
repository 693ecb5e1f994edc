"""The wire types of the gateway's API."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta


class FieldIssue(msgspec.Struct):
    """One field that is wrong."""

    path: Annotated[str, Meta(description="Names that lead to the field, joined by dots.")]
    message: Annotated[str, Meta(description="What is wrong, in words.")]


class RefusedRequest(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Why a request was refused."""

    status_code: Annotated[int, Meta(description="The status, again.")] = msgspec.field(
        name="statusCode"
    )
    error: Annotated[str, Meta(description="The name of the status, such as `Bad Request`.")]
    message: Annotated[str, Meta(description="What failed and why, in words.")]
    issues: Annotated[
        list[FieldIssue] | None, Meta(description="Every field that is wrong. Absent if none is.")
    ] = None


class AcceptedTransaction(msgspec.Struct):
    """The request is stored, and will be sent."""

    transaction_id: Annotated[str, Meta(description="Transaction id, a UUID.")] = msgspec.field(
        name="transactionId"
    )
    hash: Annotated[None, Meta(description="Always null: the target was not called yet.")]
    status: Annotated[str, Meta(description="Always `pending`.")]
    created_at: Annotated[
        datetime, Meta(description="When the request was accepted (ISO 8601).")
    ] = msgspec.field(name="createdAt")


class ChangedTransaction(msgspec.Struct):
    """The transaction after the call."""

    transaction_id: Annotated[str, Meta(description="Transaction id.")] = msgspec.field(
        name="transactionId"
    )
    status: Annotated[str, Meta(description="Its status now.")]


class TargetUrl(msgspec.Struct):
    """One URL of a target."""

    url: Annotated[str, Meta(description="The URL.")]
    available: Annotated[bool, Meta(description="Whether it takes calls.")]
    pending: Annotated[int, Meta(description="Transactions that the target has not finished.")]
    detail: Annotated[str | None, Meta(description="Why it is not available.")]


class TargetStatus(msgspec.Struct):
    """How a target is."""

    name: Annotated[str, Meta(description="Name of the target.")]
    kind: Annotated[str, Meta(description="Kind of target: `http` or `openzeppelin`.")]
    breaker: Annotated[
        str, Meta(description="`closed`: the target is called. `open`: its messages wait.")
    ]
    failures: Annotated[int, Meta(description="Calls that failed in a row.")]
    reason: Annotated[str | None, Meta(description="Why the last one failed.")]
    urls: Annotated[list[TargetUrl], Meta(description="The target's URLs.")]


class PoolStatus(msgspec.Struct):
    """How the targets are."""

    targets: Annotated[list[TargetStatus], Meta(description="All targets.")]


# Any JSON; each target has a schema of its own.
RequestBody = Any
