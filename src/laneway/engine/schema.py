"""The broker's calls about the schema: install it, and compare it with the one shipped."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.errors import LanewayError, Misconfigured
from laneway.engine.procedures import schema as procedures
from laneway.engine.sqlstates import translate
from laneway.sql.migrate import install, verify

if TYPE_CHECKING:
    from laneway.engine.core import Core


class Schema:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def install(self) -> int:
        """Bring the schema to the version of this Laneway; return that."""
        async with self._core.pool.lend() as connection:
            try:
                report = await install(connection)
            except LanewayError:
                raise
            except Exception as error:
                raise translate(error) from error
        self._core.announce_change()
        return report.version

    async def verify(self) -> list[str]:
        """Return what differs from the schema as shipped, and what points to nothing."""
        async with self._core.pool.lend() as connection:
            try:
                problems = [f"{item.subject} {item.message}" for item in await verify(connection)]
            except LanewayError:
                raise
            except Exception as error:
                raise translate(error) from error
            try:
                orphans = await procedures.orphans(connection)
            except Misconfigured:
                if not problems:
                    raise
                # Something that it looks at is missing, as was told above.
                orphans = []
        problems += [
            f"table {table} has {rows} rows that point to nothing" for table, rows in orphans
        ]
        return problems
