"""The calls of the key-value store and of locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from laneway.domain.errors import PreconditionFailed
from laneway.domain.kv import KvOperation, LockOperation
from laneway.engine.procedures.call import fetch, fetch_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    import asyncpg

    from laneway.engine.procedures.call import Connection
    from laneway.engine.sqlstates import Meanings

_NO_KV: tuple[tuple[()], ...] = ((),) * len(KvOperation._fields)
_NO_LOCKS: tuple[tuple[()], ...] = ((),) * len(LockOperation._fields)


class _Failure(msgspec.Struct):
    index: int
    reason: str
    version: int
    value: msgspec.Raw


def _read_failure(error: asyncpg.PostgresError) -> PreconditionFailed:
    found = msgspec.json.decode(getattr(error, "detail", None) or "", type=_Failure)
    return PreconditionFailed(
        index=found.index,
        reason=found.reason,
        version=found.version,
        value=bytes(found.value).decode(),
    )


# What LW428 means to every call that writes keys.
PRECONDITION: Meanings = {"LW428": _read_failure}


def turn_kv(operations: Sequence[KvOperation]) -> Sequence[Sequence[object]]:
    """Return operations as the columns of apply_kv."""
    return list(zip(*operations, strict=True)) if operations else _NO_KV


async def apply_kv(
    connection: Connection, operations: Sequence[KvOperation]
) -> list[asyncpg.Record]:
    return await fetch(
        connection,
        "select * from laneway.apply_kv($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        *turn_kv(operations),
        means=PRECONDITION,
    )


async def apply_locks(
    connection: Connection, operations: Sequence[LockOperation]
) -> list[asyncpg.Record]:
    return await fetch(
        connection,
        "select * from laneway.apply_locks($1, $2, $3, $4, $5, $6, $7)",
        *(zip(*operations, strict=True) if operations else _NO_LOCKS),
    )


async def sweep_kv(connection: Connection, *, limit: int) -> int:
    swept: int = await fetch_value(connection, "select laneway.sweep_kv($1)", limit)
    return swept
