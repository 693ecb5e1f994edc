"""The broker's calls of the key-value store and of locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.kv import KvRow, LockResult, Permit
from laneway.engine.procedures import kv as procedures
from laneway.engine.pumps.conflicts import retry_conflicts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.kv import KvOperation, LockOperation
    from laneway.engine.core import Core


class KeyValues:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def apply(self, operations: Sequence[KvOperation]) -> list[KvRow]:
        """Read and write keys in this order, all or nothing.

        Reads return a row per live key. PreconditionFailed if a required operation does not apply.
        """
        if not operations:
            return []
        async with self._core.pool.lend() as connection:
            rows = await retry_conflicts(lambda: procedures.apply_kv(connection, operations))
        return [KvRow._make(row) for row in rows]


class Locks:
    """Locks and semaphores: leases with a fencing token that rises with every owner."""

    def __init__(self, core: Core) -> None:
        self._core = core

    async def apply(self, operations: Sequence[LockOperation]) -> list[LockResult]:
        """Do operations on different locks; each applies or not by itself."""
        if not operations:
            return []
        async with self._core.pool.lend() as connection:
            rows = await retry_conflicts(lambda: procedures.apply_locks(connection, operations))
        permits: dict[int, list[Permit]] = {}
        for row in rows:
            if row["applied"] is None:
                permit = Permit(
                    row["slot"],
                    row["token"],
                    row["owner"],
                    row["since"],
                    row["expires_at"],
                    row["renewed_at"],
                )
                permits.setdefault(row["idx"], []).append(permit)
        return [
            LockResult(
                row["applied"],
                row["already"],
                row["reason"],
                row["slot"],
                row["token"],
                permits.get(row["idx"], ()),
            )
            for row in rows
            if row["applied"] is not None
        ]
