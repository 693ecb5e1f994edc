"""The shapes that several routes of the REST protocol share."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

# Ten years: longer than anybody waits, short enough for every clock.
LONGEST = 315_360_000

# Of a queue that is there already: other protocols allow more in a name than this one.
QueueName = Annotated[str, Meta(min_length=1, max_length=255)]
Seconds = Annotated[float, Meta(gt=0, le=LONGEST)]
MessageType = Annotated[str, Meta(max_length=255)]
Priority = Annotated[int, Meta(ge=0, le=32_767)]
Attempts = Annotated[int, Meta(gt=0, le=32_767)]
StateName = Literal["queued", "processing", "acknowledged", "dead", "archived"]


class Reply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The outcome of a call in words."""

    message: str
    error: str | None = None


class RefusedKey(msgspec.Struct, kw_only=True):
    error: Literal["Unauthorized", "Forbidden"]
    message: str


class ValidationIssue(msgspec.Struct, kw_only=True):
    code: str
    path: list[str | int]
    message: str


class ZodError(msgspec.Struct, kw_only=True):
    issues: list[ValidationIssue]
    name: Literal["ZodError"] = "ZodError"


class ValidationProblem(msgspec.Struct, kw_only=True):
    success: Literal[False]
    error: ZodError


class MessageObject(msgspec.Struct):
    """A message as clients see it; times are Unix seconds unless they say ISO."""

    id: str
    queue_name: str
    type: str
    payload: Raw
    priority: int
    status: StateName
    attempt_count: int
    max_attempts: int | None
    ack_timeout_seconds: float
    lock_token: str | None
    locked_until: datetime | None
    consumer_id: str | None
    created_at: float
    dequeued_at: float | None
    acknowledged_at: float | None
    last_error: str | None
    payload_size: int
    stream_name: str = msgspec.field(name="_stream_name")
    stream_id: str = msgspec.field(name="_stream_id")
    processing_started_at: float | UnsetType = UNSET
