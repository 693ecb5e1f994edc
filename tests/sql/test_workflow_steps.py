"""Steps of workflows, as stored."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

from tests.sql.calls import create_queue

if TYPE_CHECKING:
    from tests.sql.calls import Session

STORE = "select result, remaining from laneway.store_step('run', 'me/1', $1, $2, $3)"


async def test_only_timers_have_remaining_time(session: Session) -> None:
    await create_queue(session)
    await session.execute("select laneway.start_workflow('run', 'flow', 'work', '[]')")
    await session.execute("update laneway.workflow set driver = 'me/1'")
    (step,) = await session.fetch(STORE, "step", "7", None)
    assert tuple(step) == ("7", None)
    (timer,) = await session.fetch(STORE, "timer", None, timedelta(0))
    assert tuple(timer) == (None, timedelta(0))


async def test_run_changes_only_under_the_lease_of_its_message(session: Session) -> None:
    await create_queue(session)
    await session.execute("select laneway.start_workflow('run', 'flow', 'work', '[7]')")
    drive = "select status, input from laneway.lease_workflow('run', $1)"
    [held] = await session.fetch("select id, token from laneway.pop('work', 1, '1 min')")
    for forged in (
        f"{uuid4()}/{held['id']}",
        f"/{held['id']}",
        f"{held['token']}/1-1-99",
        "",
        None,
    ):
        [row] = await session.fetch(drive, forged)
        assert tuple(row) == ("superseded", "null"), forged
    driver = f"{held['token']}/{held['id']}"
    assert tuple((await session.fetch(drive, driver))[0]) == ("running", "[7]")
    await session.execute(
        "update laneway.claim set until = clock_timestamp() - interval '1 s' where token = $1",
        held["token"],
    )
    # Out of time it begins nothing; what it began it may still keep, until another drives the run.
    assert (await session.fetch(drive, driver))[0]["status"] == "superseded"
    assert (await session.fetch(STORE.replace("me/1", driver), "step", "7", None))[0][0] == "7"


async def test_run_changes_in_a_lane_with_a_large_id(session: Session) -> None:
    await create_queue(session)
    await session.execute(
        "select setval(pg_get_serial_sequence('laneway.lane', 'lane_id'), 2000000000)"
    )
    await session.execute("select laneway.start_workflow('run', 'flow', 'work', '[7]')")
    driver = await session.fetchval("select driver from laneway.workflow")
    assert await session.fetchval("select laneway.has_live_driver($1)", driver)
    [held] = await session.fetch("select id, token from laneway.pop('work', 1, '1 min')")
    driver = f"{held['token']}/{held['id']}"
    assert await session.fetchval("select laneway.is_driver_leased('run', $1)", driver)
    assert await session.fetchval("select laneway.has_live_driver($1)", driver)
    # Not a lane's id at all, and no error either.
    for lane in ("9999999999", "99999999999"):
        forged = f"{held['token']}/1-{lane}-1"
        assert not await session.fetchval("select laneway.is_driver_leased('run', $1)", forged)
        assert not await session.fetchval("select laneway.has_live_driver($1)", forged)


async def test_run_whose_message_is_not_in_flight_cannot_change(session: Session) -> None:
    await create_queue(session)
    await session.execute("select laneway.start_workflow('run', 'flow', 'work', '[]')")
    driver = await session.fetchval("select driver from laneway.workflow")
    [stored] = await session.fetch(
        "select status, result from laneway.store_step('run', $1, 'step', '7')", driver
    )
    assert tuple(stored) == ("superseded", None)
    end = "select laneway.change_workflow_status('run', '{running}', 'completed', '7', null, $1)"
    await session.execute(end, driver)
    left = "select status, (select count(*) from laneway.workflow_step) from laneway.workflow"
    assert tuple((await session.fetch(left))[0]) == ("running", 0)


async def test_lease_of_another_message_changes_a_run_only_if_it_names_it(session: Session) -> None:
    """The run's own message is gone: one that was put back as another goes on with it."""
    await create_queue(session)
    await create_queue(session, "other")
    await session.execute("select laneway.start_workflow('run', 'flow', 'work', '[]')")
    [own] = await session.fetch("select id, token from laneway.pop('work', 1, '1 min')")
    await session.execute("select laneway.ack($1, $2)", own["id"], own["token"])
    for queue, body, status in (
        ("other", '{"run": "run"}', "superseded"),
        ("work", '{"run": "another"}', "superseded"),
        ("work", '"run"', "superseded"),
        ("work", '{"workflow": "flow", "run": "run"}', "running"),
    ):
        await session.execute("select laneway.push($1, $2)", queue, body)
        [held] = await session.fetch("select id, token from laneway.pop($1, 1, '1 min')", queue)
        driver = f"{held['token']}/{held['id']}"
        [row] = await session.fetch("select status from laneway.lease_workflow('run', $1)", driver)
        assert row["status"] == status, body
