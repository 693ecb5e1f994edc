"""Operations on keys as clients send them, alone or in a transaction, and their results."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from laneway.domain.errors import MessageTooLarge
from laneway.domain.kv import LOCKS, KvOperation, KvRow
from laneway.server.queen.wire import LONGEST, refuse, show_moment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from laneway.domain.errors import PreconditionFailed

# Bytes of a key and of a value.
LONGEST_KEY = 512
LARGEST_VALUE = 65_536
# Keys that one call may read and write together, counting the limit of each getPrefix.
MOST_KEYS = 4096
DEFAULT_PAGE = 100
LARGEST_PAGE = 1000
NULL = Raw(b"null")

Namespace = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9][a-z0-9._-]{0,63}$(?!\n)",
        description="Namespace of the key: 1 to 64 of `a-z`, `0-9`, `.`, `_` and `-`.",
    ),
]
Key = Annotated[
    str, Meta(min_length=1, max_length=LONGEST_KEY, description="The key, up to 512 bytes.")
]
# What a double can hold exactly.
Number = Annotated[float, Meta(ge=-(2**53), le=2**53)]


class _Operation(msgspec.Struct, kw_only=True, forbid_unknown_fields=True, tag_field="op"):
    ns: Namespace


class Get(_Operation, kw_only=True, tag="get"):
    """Read a key."""

    key: Key


class GetMany(_Operation, kw_only=True, tag="getMany"):
    """Read several keys."""

    keys: Annotated[
        list[Key], Meta(min_length=1, max_length=MOST_KEYS, description="The keys, 1 to 4096.")
    ]


class GetPrefix(_Operation, kw_only=True, tag="getPrefix"):
    """Read the keys that begin with a prefix, in byte order. Not allowed in a transaction."""

    prefix: Annotated[
        str, Meta(min_length=1, max_length=LONGEST_KEY, description="What the keys begin with.")
    ]
    after: Annotated[
        Key | None, Meta(description="Only keys after this one: `nextAfter` of the page before.")
    ] = None
    limit: Annotated[
        int, Meta(description="Keys per page, 1 to 1000; other numbers count as the nearest.")
    ] = DEFAULT_PAGE
    keys_only: Annotated[bool, Meta(description="Whether to leave out the values.")] = (
        msgspec.field(name="keysOnly", default=False)
    )


class _Required(_Operation, kw_only=True):
    required: Annotated[
        bool,
        Meta(
            description="Whether nothing of the request is done unless this operation applies. "
            "Default: false."
        ),
    ] = False


class _Expiring(_Required, kw_only=True):
    ttl_seconds: Annotated[
        Annotated[int, Meta(ge=1, le=LONGEST)] | UnsetType,
        Meta(
            description="Seconds until the key expires, up to ten years. Either this or `forever` is "
            "required."
        ),
    ] = msgspec.field(name="ttlSeconds", default=UNSET)
    forever: Annotated[
        bool | UnsetType, Meta(description="True: the key never expires. `ttlSeconds` is left out.")
    ] = UNSET

    @property
    def ttl(self) -> timedelta | None:
        given = not isinstance(self.ttl_seconds, UnsetType)
        if given == (self.forever is True) or (self.forever is False and not given):
            raise refuse("ttlSeconds", "give either ttlSeconds or forever: true")
        return timedelta(seconds=self.ttl_seconds) if given else None  # type: ignore[arg-type]


Expected = Annotated[
    Annotated[int, Meta(ge=0)] | UnsetType,
    Meta(
        description="Version that the key must have; 0: it must not exist. Without it any will do."
    ),
]


class Put(_Expiring, kw_only=True, tag="put"):
    """Write a key, or, with `expect`, write it if it has that version."""

    key: Key
    value: Annotated[Raw, Meta(description="Any JSON, up to 65,536 bytes.")]
    expect: Expected = UNSET


class PutIfAbsent(_Expiring, kw_only=True, tag="putIfAbsent"):
    """Write a key if it does not exist."""

    key: Key
    value: Annotated[Raw, Meta(description="Any JSON, up to 65,536 bytes.")]


class Delete(_Required, kw_only=True, tag="delete"):
    """Delete a key, or, with `expect`, delete it if it has that version."""

    key: Key
    expect: Expected = UNSET


class Check(_Required, kw_only=True, tag="check"):
    """Find out whether a key has a version. With `required`, a condition for the whole request."""

    key: Key
    expect: Annotated[
        int, Meta(ge=0, description="Version that the key must have; 0: it must not exist.")
    ]


class Incr(_Expiring, kw_only=True, tag="incr"):
    """Add to a number. A key that exists keeps its expiry; one that does not counts as 0."""

    key: Key
    delta: Annotated[Number, Meta(description="What to add, between -2^53 and 2^53.")]
    least: Annotated[
        Number | None, Meta(description="The sum must not be less, or nothing is added.")
    ] = msgspec.field(name="min", default=None)
    most: Annotated[
        Number | None, Meta(description="The sum must not be more, or nothing is added.")
    ] = msgspec.field(name="max", default=None)


KvRequest: TypeAlias = Get | GetMany | GetPrefix | Put | PutIfAbsent | Delete | Check | Incr


class KvFound(msgspec.Struct, kw_only=True):
    """A key that was found."""

    key: Annotated[str, Meta(description="The key.")]
    value: Annotated[Raw | UnsetType, Meta(description="Its value. Absent with `keysOnly`.")] = (
        UNSET
    )
    version: Annotated[int, Meta(description="Its version. It rises with every write.")]
    expires_at: Annotated[str | None, Meta(description="When it expires; null: never.")] = (
        msgspec.field(name="expiresAt")
    )
    updated_at: Annotated[str, Meta(description="When it was written.")] = msgspec.field(
        name="updatedAt"
    )


class KvResult(msgspec.Struct, kw_only=True):
    """What became of an operation."""

    index: Annotated[int, Meta(description="Position of the operation in the request, from 0.")]
    op: Annotated[str, Meta(description="The operation's `op`.")]
    key: Annotated[str | UnsetType, Meta(description="The key. Absent for reads of several.")] = (
        UNSET
    )
    applied: Annotated[
        bool | UnsetType, Meta(description="Of writes and checks: whether it applied.")
    ] = UNSET
    reason: Annotated[
        str | UnsetType,
        Meta(
            description="Why it did not apply: `exists`, `absent`, `version`, `limit` (of `incr`) or "
            "`type` (the value is no number). Absent if it did."
        ),
    ] = UNSET
    found: Annotated[bool | UnsetType, Meta(description="Of `get`: whether the key exists.")] = (
        UNSET
    )
    value: Annotated[
        Raw | UnsetType,
        Meta(
            description="The key's value: after a write that applied, before a delete; null if it does "
            "not exist."
        ),
    ] = UNSET
    version: Annotated[
        int | UnsetType, Meta(description="The version of that value; 0 if the key does not exist.")
    ] = UNSET
    expires_at: Annotated[
        str | UnsetType | None,
        Meta(description="When the key expires; null: never, or it does not exist."),
    ] = msgspec.field(name="expiresAt", default=UNSET)
    updated_at: Annotated[
        str | UnsetType | None, Meta(description="Of `get`: when the key was written.")
    ] = msgspec.field(name="updatedAt", default=UNSET)
    rows: Annotated[
        list[KvFound] | UnsetType, Meta(description="Of reads of several keys: those that exist.")
    ] = UNSET
    missing: Annotated[
        list[str] | UnsetType, Meta(description="Of `getMany`: the keys that do not exist.")
    ] = UNSET
    truncated: Annotated[
        bool | UnsetType,
        Meta(
            description="Of reads of several keys: whether some were left out. A request returns up to "
            "4 MiB of values for all of these reads."
        ),
    ] = UNSET
    next_after: Annotated[
        str | UnsetType | None,
        Meta(description="Of `getPrefix`: `after` of the next page; null on the last."),
    ] = msgspec.field(name="nextAfter", default=UNSET)


class KvBatch:
    """The operations of one request, and the engine's operations that they stand for."""

    def __init__(self, requests: Sequence[KvRequest], *, most_keys: int = MOST_KEYS) -> None:
        self._requests = requests
        self.operations: list[KvOperation] = []
        # Of each of the engine's operations, the position of its request.
        self._places: list[int] = []
        for place, request in enumerate(requests):
            for operation in _read(request):
                self.operations.append(operation)
                self._places.append(place)
        keys = sum(operation.limit or 1 for operation in self.operations)
        if keys > most_keys:
            raise refuse("operations", f"they name {keys} keys, {most_keys} are allowed")

    def find_request(self, error: PreconditionFailed) -> int:
        """Return the position of the request that did not apply."""
        return self._places[error.index]

    def show(self, rows: Sequence[KvRow]) -> list[KvResult]:
        by_place: list[list[KvRow]] = [[] for _ in self._requests]
        for row in rows:
            by_place[self._places[row.idx]].append(row)
        return [
            _show(place, request, found)
            for place, (request, found) in enumerate(zip(self._requests, by_place, strict=True))
        ]


def name_spaces(requests: Sequence[KvRequest]) -> set[str] | None:
    """Return what an API key limited to some queues needs to be allowed; None: everything.

    A namespace counts as the queue of its name, and a permit of a lock as the lock.
    """
    names = set()
    for request in requests:
        if request.ns != LOCKS:
            names.add(request.ns)
            continue
        match request:
            case GetMany():
                keys = request.keys
            case GetPrefix() if "#" not in request.prefix:
                return None
            case GetPrefix():
                keys = [request.prefix]
            case _:
                keys = [request.key]
        names |= {key.partition("#")[0] for key in keys}
    return names


def writes(requests: Sequence[KvRequest]) -> bool:
    return any(isinstance(each, Put | PutIfAbsent | Delete | Incr) for each in requests)


def _read(request: KvRequest) -> Iterator[KvOperation]:
    match request:
        case Get():
            yield KvOperation("get", request.ns, _check_key(request.key))
        case GetMany():
            for key in request.keys:
                yield KvOperation("many", request.ns, _check_key(key))
        case GetPrefix():
            yield KvOperation(
                "keys" if request.keys_only else "prefix",
                request.ns,
                _check_key(request.prefix),
                after=request.after,
                limit=min(max(request.limit, 1), LARGEST_PAGE),
            )
        case Put() | PutIfAbsent():
            expect = 0 if isinstance(request, PutIfAbsent) else request.expect
            yield KvOperation(
                "put",
                request.ns,
                _check_key(request.key),
                _check_value(request.key, request.value),
                request.ttl,
                None if isinstance(expect, UnsetType) else expect,
                request.required,
            )
        case Delete() | Check():
            yield KvOperation(
                "delete" if isinstance(request, Delete) else "check",
                request.ns,
                _check_key(request.key),
                expect=None if isinstance(request.expect, UnsetType) else request.expect,
                required=request.required,
            )
        case Incr():
            yield KvOperation(
                "incr",
                request.ns,
                _check_key(request.key),
                ttl=request.ttl,
                required=request.required,
                delta=Decimal(str(request.delta)),
                least=None if request.least is None else Decimal(str(request.least)),
                most=None if request.most is None else Decimal(str(request.most)),
            )


def _check_key(key: str) -> str:
    if len(key.encode()) > LONGEST_KEY:
        raise MessageTooLarge(f"key of {len(key.encode())} bytes: up to {LONGEST_KEY} are allowed")
    return key


def _check_value(key: str, value: Raw) -> str:
    size = len(bytes(value))
    if size > LARGEST_VALUE:
        raise MessageTooLarge(
            f'value of key "{key}" has {size} bytes: up to {LARGEST_VALUE} are allowed. '
            "Store it in a message, or elsewhere"
        )
    return bytes(value).decode()


def _show(place: int, request: KvRequest, rows: list[KvRow]) -> KvResult:
    name: str = request.__struct_config__.tag  # type: ignore[assignment]
    result = KvResult(index=place, op=name)
    match request:
        case Get():
            row = rows[0] if rows else None
            result.key = request.key
            result.found = row is not None
            result.value = _raw(row and row.value)
            result.version = row.version or 0 if row else 0
            result.expires_at = _when(row and row.expires_at)
            result.updated_at = _when(row and row.updated_at)
        case GetMany() | GetPrefix():
            live = [row for row in rows if not row.more]
            result.rows = [_show_row(row) for row in live]
            result.truncated = len(live) < len(rows)
            if isinstance(request, GetMany):
                named = {row.key for row in rows}
                result.missing = [key for key in request.keys if key not in named]
            else:
                result.next_after = live[-1].key if result.truncated and live else None
        case _:
            [row] = rows
            result.key = request.key
            result.applied = row.applied is True
            if row.reason is not None:
                result.reason = row.reason
            wrote = result.applied and isinstance(request, Put | PutIfAbsent)
            result.value = request.value if wrote else _raw(row.value)  # type: ignore[union-attr]
            result.version = row.version or 0
            result.expires_at = _when(row.expires_at)
    return result


def _show_row(row: KvRow) -> KvFound:
    return KvFound(
        key=row.key or "",
        value=UNSET if row.value is None else _raw(row.value),
        version=row.version or 0,
        expires_at=_when(row.expires_at),
        updated_at=_when(row.updated_at) or "",
    )


def _raw(text: str | None) -> Raw:
    return NULL if text is None else Raw(text.encode())


def _when(moment: datetime | None) -> str | None:
    return None if moment is None else show_moment(moment)


def show_lost(error: PreconditionFailed, index: int) -> dict[str, Any]:
    """Return what answers say about a required operation that did not apply."""
    return {
        "ok": False,
        "reason": "kv_precondition",
        "failedIndex": index,
        "kvReason": error.reason,
        "version": error.version,
        "value": Raw(error.value.encode()),
    }
