"""Runs that wait for manual steps or for the end of a pause, and workers whose leases end by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.sql.calls import create_queue, start_and_block

if TYPE_CHECKING:
    from tests.postgres import Connect
    from tests.sql.calls import Session

AWAIT = "select laneway.await_steps('run', $1, '{approval}')"
COMPLETE = "select status, stored from laneway.complete_step('run', 'approval', '7')"
QUEUED = "select count(*) from laneway.messages where status = 'queued'"


async def start(session: Session) -> str:
    """Start a run and return its driver, which has the lease of its message."""
    await create_queue(session)
    await session.execute("select laneway.start_workflow('run', 'flow', 'work', '[]')")
    return await drive(session)


async def drive(session: Session) -> str:
    [held] = await session.fetch("select id, token from laneway.pop('work', 1, '1 min')")
    driver = f"{held['token']}/{held['id']}"
    await session.fetch("select * from laneway.lease_workflow('run', $1)", driver)
    return driver


async def test_completed_step_drives_a_run_that_waits_for_it(session: Session) -> None:
    driver = await start(session)
    assert await session.fetchval(AWAIT, driver) == "waiting"
    assert await session.fetchval(AWAIT, driver) == "superseded"
    assert await session.fetchval(QUEUED) == 0
    assert tuple((await session.fetch(COMPLETE))[0]) == ("running", True)
    assert tuple((await session.fetch(COMPLETE))[0]) == ("running", False)
    assert await session.fetchval(QUEUED) == 1
    assert await session.fetchval(AWAIT, await drive(session)) == "running"


async def test_step_completed_under_a_driver_pushes_nothing(session: Session) -> None:
    driver = await start(session)
    assert tuple((await session.fetch(COMPLETE))[0]) == ("running", True)
    assert await session.fetchval(QUEUED) == 0
    assert await session.fetchval(AWAIT, driver) == "running"


async def test_completion_waits_for_a_driver_that_gives_up(
    session: Session, connect: Connect
) -> None:
    driver = await start(session)
    other, transaction = await connect(), session.transaction()
    await transaction.start()
    assert await session.fetchval(AWAIT, driver) == "waiting"
    completing = await start_and_block(await connect(), other, other.fetch(COMPLETE))
    await transaction.commit()
    assert tuple((await completing)[0]) == ("running", True)
    assert await session.fetchval(QUEUED) == 1


async def test_driver_that_gives_up_waits_for_a_completion(
    session: Session, connect: Connect
) -> None:
    driver = await start(session)
    other, transaction = await connect(), session.transaction()
    await transaction.start()
    await session.fetch(COMPLETE)
    waiting = await start_and_block(await connect(), other, other.fetchval(AWAIT, driver))
    await transaction.commit()
    assert await waiting == "running"
    assert await session.fetchval(QUEUED) == 0


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
async def test_step_of_an_ended_run_is_not_completed(session: Session, status: str) -> None:
    driver = await start(session)
    await session.execute(
        "select laneway.change_workflow_status('run', '{running}', $1, null, null, $2)",
        status,
        driver,
    )
    assert tuple((await session.fetch(COMPLETE))[0]) == (status, False)


async def test_paused_run_resumes_when_its_time_has_come(session: Session) -> None:
    await start(session)
    await session.execute(
        "select laneway.change_workflow_status('run', '{running}', 'paused', p_resume_after => '1 h')"
    )
    assert await session.fetch("select id from laneway.pop('work', 1, '1 min')") == []
    await session.execute("select laneway.push('work', '{\"run\": \"run\"}')")
    [held] = await session.fetch("select id, token from laneway.pop('work', 1, '1 min')")
    lease = "select status from laneway.lease_workflow('run', $1)"
    driver = f"{held['token']}/{held['id']}"
    # The first message may still be driving it, so this one may not; it resumes all the same.
    assert await session.fetchval(lease, driver) == "superseded"
    assert await session.fetchval("select status from laneway.workflow") == "paused"
    await session.execute("update laneway.workflow set resume_at = clock_timestamp()")
    assert await session.fetchval(lease, driver) == "superseded"
    assert await session.fetchval("select status from laneway.workflow") == "running"


async def test_heartbeat_tells_once_that_leases_ended_by_hand(session: Session) -> None:
    await create_queue(session)
    await session.execute(
        "select laneway.register_worker('worker', 'w', 'here', 1, '{work}', interval '1 hour')"
    )
    await session.execute("select laneway.push('work', '1')")
    beat = "select leases_ended from laneway.record_heartbeat('worker', 0, 0)"
    [held] = await session.fetch(
        "select * from laneway.claim_many((select group_id from laneway.consumer_group),"
        " array[1], p_consumers => array['worker'])"
    )
    assert await session.fetchval(beat) is False
    await session.execute(
        "select laneway.move_messages((select group_id from laneway.consumer_group),"
        " array[$1::int], array[$2::int], array[$3::bigint], 'processing', 'dead', 'cancelled')",
        held["segment"],
        held["lane_id"],
        held["seq"],
    )
    assert await session.fetchval(beat) is True
    assert await session.fetchval(beat) is False
