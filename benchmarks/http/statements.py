"""Counts the statements that PostgreSQL runs, from its log."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from benchmarks.engine.site import Connection

_EXECUTED = re.compile(r" ms  (?:execute|statement)[^:]*: (.*)")


@dataclass(frozen=True, slots=True)
class StatementLog:
    path: Path

    def mark(self) -> int:
        """Return the log's current position, to count from."""
        return self.path.stat().st_size

    def count(self, since: int) -> Counter[str]:
        """Return how often each statement ran since the position, by its first line."""
        with self.path.open() as file:
            file.seek(since)
            return Counter(found[1] for found in _EXECUTED.finditer(file.read()))


@asynccontextmanager
async def log_statements(connection: Connection) -> AsyncIterator[StatementLog]:
    """Make the bundled PostgreSQL log every statement inside the context."""
    directory = Path(await connection.fetchval("show data_directory"))
    await connection.execute("alter system set log_min_duration_statement = 0")
    await _reload(connection)
    try:
        yield StatementLog(directory.parent / "postgres.log")
    finally:
        await connection.execute("alter system reset log_min_duration_statement")
        await _reload(connection)


async def _reload(connection: Connection) -> None:
    await connection.execute("select pg_reload_conf()")
    await asyncio.sleep(0.5)  # sessions read the new setting before their next statement
