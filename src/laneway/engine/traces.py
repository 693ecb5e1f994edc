"""The broker's calls about traces that consumers record about messages."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.domain.streams import Trace, TraceName
from laneway.engine.procedures import traces as procedures

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from laneway.engine.core import Core


class Traces:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def record(
        self,
        lane: int,
        key: str,
        *,
        group: str,
        event_type: str,
        names: Sequence[str],
        data: str,
    ) -> tuple[int, datetime]:
        """Record a trace of a message; return its id and time."""
        async with self._core.pool.lend() as connection:
            trace_id, at = await procedures.record_trace(
                connection,
                lane=lane,
                key=key,
                group=group,
                event_type=event_type,
                names=names,
                data=data,
            )
        return trace_id, at

    async def list_by_message(
        self, lane: int, key: str, *, limit: int = 1000, offset: int = 0
    ) -> list[Trace]:
        async with self._core.pool.lend() as connection:
            rows = await procedures.list_traces(
                connection, lane=lane, key=key, limit=limit, offset=offset
            )
        return [Trace._make(row) for row in rows]

    async def list_by_name(
        self,
        name: str,
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[Trace]:
        async with self._core.pool.lend() as connection:
            rows = await procedures.list_traces(
                connection, name=name, since=since, until=until, limit=limit, offset=offset
            )
        return [Trace._make(row) for row in rows]

    async def list_names(self, *, limit: int = 100, offset: int = 0) -> list[TraceName]:
        async with self._core.pool.lend() as connection:
            rows = await procedures.list_trace_names(connection, limit=limit, offset=offset)
        return [TraceName._make(row) for row in rows]
