"""Steps of workflows, as they are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from tests.sql.calls import create_queue

if TYPE_CHECKING:
    from tests.sql.calls import Session

STORE = "select result, remaining from laneway.store_step('run', 'me/1', $1, $2, $3)"


async def test_only_timers_have_time_to_go(session: Session) -> None:
    await create_queue(session)
    await session.execute("select laneway.start_workflow('run', 'flow', 'work', '[]')")
    await session.execute("update laneway.workflow set driver = 'me/1'")
    (step,) = await session.fetch(STORE, "step", "7", None)
    assert tuple(step) == ("7", None)
    (timer,) = await session.fetch(STORE, "timer", None, timedelta(0))
    assert tuple(timer) == (None, timedelta(0))
