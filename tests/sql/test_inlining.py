"""PostgreSQL inlines small SQL functions into the statements that call them, so that they cost nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.sql.calls import Session

NEWEST_OF_KIND = """
select min(p.segment) <> (select n.segment from laneway.newest_segment(laneway.is_logged(min(p.segment))) n)
  from laneway.progress p
"""

# Each function, a statement that calls it, and what the plan shows in place of the call.
CALLS = [
    (
        "newest_progress",
        "select p.seq from laneway.reader r cross join lateral laneway.newest_progress(r.reader_id) p",
        "on laneway.progress",
    ),
    (
        "newest_segment",
        "select n.segment from laneway.newest_segment(true) n",
        "on laneway.segment",
    ),
    ("newest_segment", NEWEST_OF_KIND, "on laneway.segment"),
    ("is_logged", "select laneway.is_logged(s.segment) from laneway.segment s", "% 2"),
    ("event_segment", "select laneway.event_segment(s.segment) from laneway.segment s", "% 2"),
    (
        "fits_result",
        "select from (select array_agg(body) as bodies from laneway.message) c where laneway.fits_result(bodies)",
        "pg_column_size",
    ),
    (
        "try_lock_reader",
        "select laneway.try_lock_reader(r.reader_id) from laneway.reader r",
        "pg_try_advisory_xact_lock",
    ),
    (
        "lock_reader",
        "select laneway.lock_reader(r.reader_id) from laneway.reader r",
        "pg_advisory_xact_lock",
    ),
    (
        "events_of_message",
        "select e.at from laneway.events_of_message(1, 1) e",
        "on laneway.event",
    ),
]


@pytest.mark.parametrize(("name", "statement", "shown"), CALLS)
async def test_function_is_inlined_into_the_calling_statement(
    session: Session, name: str, statement: str, shown: str
) -> None:
    plan = "\n".join(row[0] for row in await session.fetch(f"explain (verbose) {statement}"))
    assert shown in plan
    assert "Function Scan" not in plan
    assert name not in plan
