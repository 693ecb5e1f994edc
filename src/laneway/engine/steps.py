"""Runs work on many rows in steps, each in its own transaction."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.call import START
from laneway.engine.pumps.conflicts import retry_conflicts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from laneway.engine.pool import Pool
    from laneway.engine.procedures.call import Connection, Step


async def take_steps(pool: Pool, step: Callable[[Connection, Step], Awaitable[Step]]) -> int:
    """Repeat the step until the work is done; return the total."""
    done = await _take(pool, step, START)
    while done.after is not None:
        done = await _take(pool, step, done)
    return done.total


async def _take(
    pool: Pool, step: Callable[[Connection, Step], Awaitable[Step]], done: Step
) -> Step:
    async with pool.lend() as connection:
        return await retry_conflicts(lambda: step(connection, done))
