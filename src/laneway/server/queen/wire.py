"""The wire types and names that several routes of the streams protocol share."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any
from uuid import UUID

import msgspec
from msgspec import Meta, Raw

from laneway.domain.errors import InvalidId
from laneway.domain.ids import MessageId
from laneway.domain.queues import DEFAULT_GROUP
from laneway.server.access import named
from laneway.server.errors import InvalidInput, Issue
from laneway.server.operations import Response
from laneway.server.responses import encode

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from laneway.domain.settings import Start
    from laneway.server.calls import Call

# The name by which clients call the queue's own group.
QUEUE_MODE = "__QUEUE_MODE__"
_EXCHANGED = {QUEUE_MODE: DEFAULT_GROUP, DEFAULT_GROUP: QUEUE_MODE}
DEFAULT_PARTITION = "Default"

# Characters that JSON does not escape.
_PLAIN = re.compile(r"[ !#-\[\]-~]*")

# Matches names with slashes, at the end of a path.
SLASHED = ".+"

# Ten years in seconds; the database can add it to any date it stores.
LONGEST = 315_360_000

QueueName = Annotated[str, Meta(min_length=1, max_length=255)]
PartitionName = Annotated[str, Meta(min_length=1, max_length=255)]
GroupName = Annotated[str, Meta(min_length=1, max_length=255)]
KeyText = Annotated[str, Meta(min_length=1, max_length=512)]
LaneText = Annotated[str, Meta(min_length=1, max_length=64)]
LeaseText = Annotated[str, Meta(max_length=255)]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Offset = Annotated[int, Meta(ge=0, le=1_000_000_000)]
MomentText = Annotated[str, Meta(min_length=1, max_length=64)]

# The names of a message in requests, and what several answers show of it.
PartitionId = Annotated[
    LaneText, Meta(description="Id of the message's partition, as pop and push return it.")
]
_TRANSACTION_ID = Meta(
    description="Transaction id of the message, or its id if it was pushed without one."
)
TransactionId = Annotated[KeyText, _TRANSACTION_ID]
ShownTransactionId = Annotated[str, _TRANSACTION_ID]
TraceId = Annotated[str | None, Meta(description="Trace id that the message was pushed with.")]
ProducerSub = Annotated[
    str | None,
    Meta(
        description="Subject of the signed token that the message was pushed with; null without one."
    ),
]
Payload = Annotated[Raw, Meta(description="Payload of the message.")]
IsSealed = Annotated[
    bool,
    Meta(
        description="Whether the payload is encrypted and this server does not have the key. Then "
        "`data` is null."
    ),
]

# How clients spell where a new group starts; anything else is a time.
_STARTS: Mapping[str | None, Start] = {
    None: "all",
    "all": "all",
    "from_beginning": "all",
    "new": "new",
    "new-only": "new",
    "new_only": "new",
}
START_MODES = (
    "`all` (the default) and `from_beginning`: at the earliest kept message. `new`, `new-only` and "
    "`new_only`: with messages pushed from now on. A time (ISO 8601): with messages pushed then "
    "or later."
)


class Failure(msgspec.Struct, kw_only=True):
    """What went wrong."""

    error: Annotated[str, Meta(description="What went wrong, and what to do, in words for people.")]
    code: Annotated[
        str, Meta(description="A code for programs, such as `queue_not_found` or `lease_lost`.")
    ]


class MessageName(msgspec.Struct, kw_only=True):
    """A message, in a path."""

    partition_id: PartitionId = msgspec.field(name="partitionId")
    transaction_id: TransactionId = msgspec.field(name="transactionId")


QUEUE_NOT_FOUND = Response(
    Failure,
    "The queue does not exist. Push to it or configure it to create it, or correct the name.",
)
MESSAGE_NOT_FOUND = Response(
    Failure,
    "No message of the partition has this transaction id in a state that the operation takes.",
)


class ByQueue(msgspec.Struct, kw_only=True):
    queue: Annotated[
        QueueName, Meta(description="Name of the queue. Percent-encode slashes as `%2F`.")
    ]


def read_group(name: str | None) -> str:
    """Return the broker's name of a group.

    The broker calls the queue's own group `default`. Clients may use that name for another group,
    which the broker calls `__QUEUE_MODE__`.
    """
    if name is None:
        return DEFAULT_GROUP
    return _EXCHANGED.get(name, name)


def show_group(name: str) -> str:
    return _EXCHANGED.get(name, name)


def read_lane(text: str) -> int | None:
    """Return the lane of a partitionId, None if the text is not one."""
    if not (text.isascii() and text.isdigit()) or len(text) > 10:  # noqa: PLR2004 - digits of an int
        return None
    lane = int(text)
    return lane if lane < 2**31 else None


async def find_lane(call: Call[Any, Any], text: str) -> int | None:
    """Return the lane of a partitionId, None if it is malformed or the key may not use it."""
    lane = read_lane(text)
    return None if await find_hidden(call, [text]) else lane


async def find_hidden(call: Call[Any, Any], texts: Sequence[str]) -> set[str]:
    """Return the partitionIds of queues that a limited key may not use."""
    if call.identity.pattern is None:
        return set()
    lanes = {text: read_lane(text) for text in texts}
    places = await call.broker.messages.name_lanes(
        [lane for lane in lanes.values() if lane is not None]
    )
    usable = {lane for lane, (queue, _) in places.items() if call.identity.may_use(queue)}
    return {text for text, lane in lanes.items() if lane not in usable}


def read_lease(text: str | None) -> UUID | None:
    """Return the lease id; a malformed one becomes an id that no lease has."""
    if text is None:
        return None
    try:
        return UUID(text)
    except ValueError:
        return UUID(int=0)


def read_address(key: str, lane: int) -> MessageId | None:
    """Return the address of a message that is named by its id, not by a transaction id."""
    if len(key) != 36:  # noqa: PLR2004 - a UUID's text
        return None
    try:
        address = MessageId.from_uuid(UUID(key))
    except (ValueError, InvalidId):
        return None
    return address if address.lane == lane else None


def show_address(segment: int, lane: int, seq: int) -> str:
    digits = f"{seq:016x}"
    return f"{show_lane_address(segment, lane)}{digits[:4]}-{digits[4:]}"


def show_lane_address(segment: int, lane: int) -> str:
    """Return the common prefix of the addresses of a lane's messages."""
    return f"{segment:08x}-{lane >> 16:04x}-{lane & 0xFFFF:04x}-"


def quote_all(texts: Sequence[str]) -> list[str]:
    """Return each text as JSON; fast if none needs escaping."""
    if _PLAIN.fullmatch("".join(texts)):
        return [f'"{text}"' for text in texts]
    return [encode(text).decode() for text in texts]


def read_moment(text: str, name: str) -> datetime:
    """Return an ISO 8601 time, UTC unless it names a zone; `name` is its parameter."""
    try:
        moment = datetime.fromisoformat(text.strip().replace(" ", "+") if "T" in text else text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        raise InvalidInput([Issue("invalid_date", (name,), f"{name} is not a date")]) from None


def read_start(mode: str | None, since: str | None) -> Start:
    """Return where a new group starts; `since` takes precedence over `mode`."""
    if since is not None:
        return "new" if since == "now" else read_moment(since, "subscriptionFrom")
    start = _STARTS.get(mode)
    if start is not None:
        return start
    try:
        return read_moment(mode or "", "subscriptionMode")
    except InvalidInput:
        raise refuse(
            "subscriptionMode",
            "must be all, from_beginning, new, new-only, new_only or an ISO 8601 time",
        ) from None


def show_moment(moment: datetime) -> str:
    """Return a time as text, always as long: clients compare such texts."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def refuse(name: str, message: str) -> InvalidInput:
    return InvalidInput([Issue("custom", (name,), message)])


@named
async def queue_in_path(call: Call[Any, Any], /) -> Sequence[str]:
    return (call.parameters.queue,)
