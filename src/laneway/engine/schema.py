"""The broker's calls about the schema: install it, and compare it with the shipped one."""

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
        """Bring the schema to the version of this Laneway; return that version."""
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
        """Return differences from the shipped schema, and rows that refer to nothing."""
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
                # A table that it reads is missing, as reported above.
                orphans = []
        problems += [
            f"table {table} has {rows} rows that refer to nothing" for table, rows in orphans
        ]
        return problems
