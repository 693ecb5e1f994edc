"""The route of locks."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, UnsetType

from laneway.domain.kv import LOCKS, LockOperation, LockReason, LockResult
from laneway.server.access import named, require_role
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.wire import LONGEST, refuse, show_moment
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.server.calls import Call

# Bytes of a lock's name and of an owner.
LONGEST_NAME = 256
MOST_PERMITS = 1024
# Permits that one request may concern together.
MOST_SLOTS = 4096

Name = Annotated[
    str,
    Meta(
        max_length=LONGEST_NAME,
        pattern=r"^[^\x00-\x1f\x7f-\x9f#]+$(?!\n)",
        description="Name of the lock: 1 to 256 bytes without control characters and `#`.",
    ),
]
Owner = Annotated[
    Annotated[str, Meta(max_length=LONGEST_NAME, pattern=r"^[^\x00-\x1f\x7f-\x9f]+$(?!\n)")] | None,
    Meta(
        description="Owner of the permit: 1 to 256 bytes without control characters, different for each "
        "client. With it, a repeated request finds the permit that the first one acquired."
    ),
]
Lifetime = Annotated[
    int, Meta(ge=1, le=LONGEST, description="Seconds until the permit expires, up to ten years.")
]
Slot = Annotated[
    int, Meta(ge=0, lt=MOST_PERMITS, description="Slot of the permit. Default: 0, that of a lock.")
]
Token = Annotated[
    int,
    Meta(ge=1, le=2**63 - 1, description="Token of the permit, from the last acquire or renew."),
]


class _Operation(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, tag_field="op"):
    name: Name


class Acquire(_Operation, kw_only=True, tag="acquire"):
    """Acquire a permit."""

    ttl_seconds: Lifetime = msgspec.field(name="ttlSeconds")
    owner: Owner = None
    limit: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_PERMITS)] | None,
        Meta(
            description="How many permits there are, 1 to 1024. More than one make it a semaphore. All "
            "callers give the same number. Default: 1."
        ),
    ] = None


class Renew(_Operation, kw_only=True, tag="renew"):
    """Extend a permit. It gets another token."""

    token: Token
    ttl_seconds: Lifetime = msgspec.field(name="ttlSeconds")
    slot: Slot = 0
    owner: Owner = None


class Release(_Operation, kw_only=True, tag="release"):
    """Release a permit."""

    token: Token
    slot: Slot = 0


class Show(_Operation, kw_only=True, tag="get"):
    """Show the owners of a lock's permits."""


LockRequest: TypeAlias = Acquire | Renew | Release | Show


class LockRequests(msgspec.Struct, kw_only=True):
    """Operations on locks. None depends on another."""

    operations: Annotated[
        list[LockRequest],
        Meta(max_length=64, description="Up to 64 operations, each on another lock."),
    ]


class Guard(msgspec.Struct, kw_only=True):
    """An operation for `kv` of a transaction, which commits only while the permit is valid."""

    op: Annotated[str, Meta(description="Always `check`.")] = "check"
    ns: Annotated[str, Meta(description="Always `queen-locks`.")] = LOCKS
    key: Annotated[str, Meta(description="The permit's key.")]
    expect: Annotated[int, Meta(description="The permit's token.")]
    required: Annotated[bool, Meta(description="Always true.")] = True


class Holder(msgspec.Struct, kw_only=True):
    """A permit that is not free. Other operations than `get` show slot and owner only."""

    slot: Annotated[int, Meta(description="Slot of the permit.")]
    owner: Annotated[str | None, Meta(description="Its owner; null if none was given.")]
    token: Annotated[int | UnsetType, Meta(description="Its token.")] = UNSET
    since: Annotated[str | UnsetType, Meta(description="When it was acquired.")] = UNSET
    expires_at: Annotated[
        str | UnsetType | None,
        Meta(description="When it expires; null: never, if it was not written as a lock."),
    ] = msgspec.field(name="expiresAt", default=UNSET)
    renewed_at: Annotated[str | UnsetType, Meta(description="When it was acquired or renewed.")] = (
        msgspec.field(name="renewedAt", default=UNSET)
    )


class LockShown(msgspec.Struct, kw_only=True):
    """What became of an operation."""

    index: Annotated[int, Meta(description="Position of the operation in the request, from 0.")]
    op: Annotated[str, Meta(description="The operation's `op`.")]
    name: Annotated[str, Meta(description="Name of the lock.")]
    acquired: Annotated[
        bool | UnsetType, Meta(description="Of `acquire`: whether the permit is the caller's.")
    ] = UNSET
    renewed: Annotated[
        bool | UnsetType, Meta(description="Of `renew`: whether the permit was extended.")
    ] = UNSET
    released: Annotated[
        bool | UnsetType, Meta(description="Of `release`: whether the permit was released.")
    ] = UNSET
    held: Annotated[
        bool | UnsetType, Meta(description="Of `get`: whether a permit is not free.")
    ] = UNSET
    reason: Annotated[
        LockReason | UnsetType,
        Meta(
            description="Why it did not apply: no permit is free; the permit changed otherwise "
            "meanwhile, so try again (`contended`); or the token is no longer the permit's (`lost`). "
            "Absent if it did."
        ),
    ] = UNSET
    slot: Annotated[int | UnsetType, Meta(description="Slot of the permit.")] = UNSET
    token: Annotated[
        int | UnsetType,
        Meta(
            description="Fencing token of the permit. It is higher than any that the lock had before, "
            "so a resource can refuse earlier owners."
        ),
    ] = UNSET
    owner: Annotated[
        str | UnsetType | None, Meta(description="Of `acquire`: the owner of the permit.")
    ] = UNSET
    already: Annotated[
        bool | UnsetType, Meta(description="True if the owner had the permit before.")
    ] = UNSET
    guard: Annotated[
        Guard | UnsetType, Meta(description="What makes a transaction depend on the permit.")
    ] = UNSET
    holders: Annotated[
        list[Holder] | UnsetType,
        Meta(description="Of `get`, and of what did not apply: the permits that are not free."),
    ] = UNSET


class LocksShown(msgspec.Struct, kw_only=True):
    """What became of the operations."""

    results: Annotated[
        list[LockShown], Meta(description="One result per operation, in the order of the request.")
    ]


async def apply(call: Call[None, LockRequests]) -> Answer:
    requests = call.body.operations
    if not all(isinstance(request, Show) for request in requests):
        require_role(call.identity, Role.WRITE, "acquiring and releasing locks")
    if len({request.name for request in requests}) < len(requests):
        raise refuse("operations", "each lock may be named once")
    if sum(_count_slots(request) for request in requests) > MOST_SLOTS:
        raise refuse("operations", f"they concern more than {MOST_SLOTS} permits")
    results = await call.broker.locks.apply([_read(request) for request in requests])
    return answer_json(
        200,
        LocksShown(
            results=[
                _show(index, request, result)
                for index, (request, result) in enumerate(zip(requests, results, strict=True))
            ]
        ),
    )


def _read(request: LockRequest) -> LockOperation:
    name = request.name
    for what, text in (("name", name), ("owner", getattr(request, "owner", None) or "")):
        if len(text.encode()) > LONGEST_NAME:
            raise refuse(what, f"up to {LONGEST_NAME} bytes are allowed")
    match request:
        case Acquire():
            lifetime = timedelta(seconds=request.ttl_seconds)
            return LockOperation("acquire", name, request.owner, lifetime, request.limit or 1)
        case Renew():
            lifetime = timedelta(seconds=request.ttl_seconds)
            return LockOperation(
                "renew", name, request.owner, lifetime, slot=request.slot, token=request.token
            )
        case Release():
            return LockOperation("release", name, slot=request.slot, token=request.token)
        case Show():
            return LockOperation("get", name)


def _count_slots(request: LockRequest) -> int:
    match request:
        case Acquire():
            return request.limit or 1
        case Show():
            return 1000
        case _:
            return 1


def _show(index: int, request: LockRequest, result: LockResult) -> LockShown:
    name = request.name
    op: str = request.__struct_config__.tag  # type: ignore[assignment]
    shown = LockShown(index=index, op=op, name=name)
    match request:
        case Show():
            shown.held = bool(result.permits)
            shown.holders = [
                Holder(
                    slot=permit.slot,
                    owner=permit.owner,
                    token=permit.token,
                    since=permit.since,
                    expires_at=None
                    if permit.expires_at is None
                    else show_moment(permit.expires_at),
                    renewed_at=show_moment(permit.renewed_at),
                )
                for permit in result.permits
            ]
            return shown
        case Acquire():
            shown.acquired = result.applied
            if result.applied:
                shown.owner = request.owner
                if result.already:
                    shown.already = True
        case Renew():
            shown.renewed = result.applied
        case Release():
            shown.released = result.applied
    if result.applied or not isinstance(request, Acquire):
        shown.slot = result.slot or 0
    if result.applied and not isinstance(request, Release):
        token = result.token or 0
        shown.token = token
        shown.guard = Guard(key=f"{name}#{shown.slot}", expect=token)
    if not result.applied:
        shown.reason = result.reason or "lost"
        shown.holders = [Holder(slot=permit.slot, owner=permit.owner) for permit in result.permits]
    return shown


@named
async def _locks_of_operations(call: Call[Any, Any], /) -> Sequence[str]:
    return sorted({request.name for request in call.body.operations})


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        method="POST",
        path="/locks",
        handler=apply,
        summary="Acquire, renew, release and show locks",
        description=(
            "A permit of a lock belongs to one owner until it is released or expires, by the "
            "database's clock. An owner is not told that its permit has expired, so protect the work "
            "with the fencing token: use `guard` in transactions, and let other resources refuse lower "
            "tokens than they have seen. A lock that has another owner is no error: each operation "
            "applies or not by itself. All but `get` requires the role `write`; an API key that is "
            "limited to some queues may use the locks with names that match."
        ),
        body=LockRequests,
        example={
            "operations": [
                {"op": "acquire", "name": "daily-report", "owner": "worker-1", "ttlSeconds": 30}
            ]
        },
        answers={
            200: Response(
                LocksShown,
                "What became of each operation. Check what the result of its `op` says.",
            )
        },
        role=Role.READ,
        reach=_locks_of_operations,
        tag="keys",
    ),
)
