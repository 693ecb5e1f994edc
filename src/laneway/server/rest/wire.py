"""The wire types that several routes of the REST protocol share."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from laneway.domain.messages import LARGEST_PRIORITY
from laneway.server.operations import Response

# Ten years in seconds; the database can add it to any date it stores.
LONGEST = 315_360_000

# The name of an existing queue: other protocols allow more characters than this one.
QueueName = Annotated[str, Meta(min_length=1, max_length=255)]
Seconds = Annotated[float, Meta(gt=0, le=LONGEST)]
MessageType = Annotated[str, Meta(max_length=255)]
Priority = Annotated[int, Meta(ge=0, le=LARGEST_PRIORITY)]
# Of a message that is written. The OpenAPI document names the server's own limit.
NewPriority = Annotated[
    int, Meta(ge=0, le=LARGEST_PRIORITY, extra_json_schema={"x-maximum": "highest_priority"})
]
Attempts = Annotated[int, Meta(gt=0, le=32_767)]
StateName = Literal["queued", "processing", "acknowledged", "dead", "archived"]


class Reply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The outcome of a call in words."""

    message: Annotated[str, Meta(description="What happened, in words for people.")]
    error: Annotated[
        str | None,
        Meta(
            description="A code for programs: `NOT_FOUND`, `INVALID_STATE` or `LOCK_LOST`. Absent where "
            "the status says enough."
        ),
    ] = None


QUEUE_NOT_FOUND = Response(
    Reply, "The queue does not exist. Create it with `POST /api/queues`, or correct the name."
)


class RefusedKey(msgspec.Struct, kw_only=True):
    """The API key is missing, invalid, or may not do this."""

    error: Annotated[
        Literal["Unauthorized", "Forbidden"],
        Meta(
            description="`Unauthorized` (401): no valid API key. `Forbidden` (403): the key is valid but "
            "may not do this."
        ),
    ]
    message: Annotated[str, Meta(description="Why the request was refused, and what to change.")]


class ValidationIssue(msgspec.Struct, kw_only=True):
    """One thing that is wrong with a request."""

    code: Annotated[
        str,
        Meta(
            description="What kind of issue it is, such as `invalid_type`, `too_small` or `too_big`."
        ),
    ]
    path: Annotated[
        list[str | int],
        Meta(
            description="Where it is: names of fields and positions in lists, from the outside in. Empty "
            "for the request as a whole."
        ),
    ]
    message: Annotated[str, Meta(description="What is wrong, in words.")]


class ZodError(msgspec.Struct, kw_only=True):
    """What is wrong with a request, in the form of the Zod library."""

    issues: Annotated[
        list[ValidationIssue],
        Meta(description="What is wrong. Invalid types are reported one at a time."),
    ]
    name: Annotated[Literal["ZodError"], Meta(description="Always `ZodError`.")] = "ZodError"


class ValidationProblem(msgspec.Struct, kw_only=True):
    """The request is well-formed JSON but not what the operation takes."""

    success: Annotated[Literal[False], Meta(description="Always false.")]
    error: Annotated[ZodError, Meta(description="What is wrong.")]


class MessageObject(msgspec.Struct):
    """A message; times are Unix seconds unless their format is date-time."""

    id: Annotated[str, Meta(description="Message id, such as `2-1-1`. It never changes.")]
    queue_name: Annotated[str, Meta(description="Queue that the message is in.")]
    type: Annotated[str, Meta(description="Type of the message: its partition, the unit of order.")]
    payload: Annotated[Raw, Meta(description="The JSON that was enqueued, byte for byte.")]
    priority: Annotated[int, Meta(description="Priority. Higher numbers are delivered first.")]
    status: Annotated[
        StateName,
        Meta(
            description="State of the message. `queued`: ready or delayed. `processing`: in flight."
        ),
    ]
    attempt_count: Annotated[
        int, Meta(description="How many times the message was delivered, this delivery included.")
    ]
    max_attempts: Annotated[
        int | None,
        Meta(description="Deliveries before the message becomes a dead letter; null: no limit."),
    ]
    ack_timeout_seconds: Annotated[float, Meta(description="Lease duration in seconds.")]
    lock_token: Annotated[
        str | None,
        Meta(
            description="Proof of the lease: send it with ack, nack and touch. Null unless the message is "
            "in flight."
        ),
    ]
    locked_until: Annotated[
        datetime | None,
        Meta(
            description="When the lease expires (ISO 8601). Null unless the message is in flight."
        ),
    ]
    consumer_id: Annotated[
        str | None,
        Meta(
            description="Consumer that has the lease, if it named itself. Null unless the message is in "
            "flight."
        ),
    ]
    created_at: Annotated[
        float, Meta(description="When the message was enqueued, in Unix seconds.")
    ]
    dequeued_at: Annotated[
        float | None, Meta(description="When its latest delivery began, in Unix seconds.")
    ]
    acknowledged_at: Annotated[
        float | None, Meta(description="When it was acked, in Unix seconds.")
    ]
    last_error: Annotated[
        str | None, Meta(description="Why the latest attempt failed; null: none failed.")
    ]
    payload_size: Annotated[int, Meta(description="Size of the payload in bytes.")]
    stream_name: Annotated[
        str, Meta(description="`queue_` and the status. For compatibility with Relay.")
    ] = msgspec.field(name="_stream_name")
    stream_id: Annotated[
        str, Meta(description="The same as `id`. For compatibility with Relay.")
    ] = msgspec.field(name="_stream_id")
    processing_started_at: Annotated[
        float | UnsetType,
        Meta(description="The same as `dequeued_at`; absent if the message was never dequeued."),
    ] = UNSET
    progress: Annotated[
        float | UnsetType,
        Meta(
            description="How far its handler is, 0 to 1. In lists of messages in flight whose handler "
            "reports it."
        ),
    ] = UNSET
    progress_note: Annotated[
        str | UnsetType, Meta(description="What its handler is doing. Given with `progress`.")
    ] = UNSET
