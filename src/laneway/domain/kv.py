"""Values of the key-value store and of the locks that are kept in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta
    from decimal import Decimal

KvKind: TypeAlias = Literal["get", "many", "prefix", "keys", "put", "delete", "check", "incr"]
LockAction: TypeAlias = Literal["acquire", "renew", "release", "get"]
LockReason: TypeAlias = Literal["held", "contended", "lost"]

# The namespace whose keys are the permits of locks.
LOCKS = "queen-locks"


class KvOperation(NamedTuple):
    """An operation on one key, or a read of keys by prefix; see laneway.apply_kv.

    value: JSON text. ttl None: the key never expires. expect: the version that the key must have, 0 if
    it must not exist. required: nothing of the call happens unless it applies.
    """

    kind: KvKind
    namespace: str
    key: str
    value: str | None = None
    ttl: timedelta | None = None
    expect: int | None = None
    required: bool = False
    delta: Decimal | None = None
    least: Decimal | None = None
    most: Decimal | None = None
    after: str | None = None
    limit: int | None = None


class KvRow(NamedTuple):
    """A key, or what became of a write; idx: of which operation. A row of laneway.apply_kv."""

    idx: int
    applied: bool | None
    reason: str | None
    key: str | None
    value: str | None
    version: int | None
    expires_at: datetime | None
    updated_at: datetime | None
    more: bool


class LockOperation(NamedTuple):
    """An operation on a lock; see laneway.apply_locks. limit: how many permits the lock has."""

    action: LockAction
    name: str
    owner: str | None = None
    ttl: timedelta | None = None
    limit: int = 1
    slot: int = 0
    token: int | None = None


class Permit(NamedTuple):
    """One owner's right to a lock. since: as text, because it may have been written by a client."""

    slot: int
    token: int
    owner: str | None
    since: str
    expires_at: datetime | None
    renewed_at: datetime


class LockResult(NamedTuple):
    """What became of an operation on a lock.

    reason: why it did not apply. permits: for `get`, and for what did not apply, those that are not free.
    """

    applied: bool
    already: bool
    reason: LockReason | None
    slot: int | None
    token: int | None
    permits: Sequence[Permit]
