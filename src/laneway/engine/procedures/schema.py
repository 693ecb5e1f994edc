"""The calls about the schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.call import fetch

if TYPE_CHECKING:
    from laneway.engine.procedures.call import Connection


async def orphans(connection: Connection) -> list[tuple[str, int]]:
    """Return tables with rows that refer to nothing, and how many rows."""
    return [
        (row[0], row[1]) for row in await fetch(connection, "select * from laneway.find_orphans()")
    ]
