"""PostgreSQL inlines small SQL functions into the statements that call them, so that they cost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.sql.calls import Session

# Each function, as it is called, and what its plan shows instead of the call.
CALLS = {
    "newest_progress": (
        "select p.seq from laneway.reader r cross join lateral laneway.newest_progress(r.reader_id) p",
        "on laneway.progress",
    ),
    "newest_segment": (
        "select n.segment from laneway.newest_segment(true) n",
        "on laneway.segment",
    ),
    "newest_segment of another segment's kind": (
        "select min(p.segment) <> (select n.segment"
        " from laneway.newest_segment(laneway.is_logged(min(p.segment))) n) from laneway.progress p",
        "on laneway.segment",
    ),
    "is_logged": ("select laneway.is_logged(s.segment) from laneway.segment s", "% 2"),
    "event_segment": ("select laneway.event_segment(s.segment) from laneway.segment s", "% 2"),
    "try_lock_reader": (
        "select laneway.try_lock_reader(r.reader_id) from laneway.reader r",
        "pg_try_advisory_xact_lock",
    ),
}


@pytest.mark.parametrize("name", CALLS)
async def test_function_is_inlined_into_the_calling_statement(session: Session, name: str) -> None:
    statement, shown = CALLS[name]
    plan = "\n".join(row[0] for row in await session.fetch(f"explain (verbose) {statement}"))
    assert shown in plan
    assert "Function Scan" not in plan
    assert name.split()[0] not in plan
