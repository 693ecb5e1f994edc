"""Work on much at once goes in steps, each a transaction of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.engine.procedures.call import START

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from laneway.engine.pool import Pool
    from laneway.engine.procedures.call import Connection, Step


async def take_steps(pool: Pool, step: Callable[[Connection, Step], Awaitable[Step]]) -> int:
    """Repeat the step until it comes to its end; return the total."""
    done = START
    while True:
        async with pool.lend() as connection:
            done = await step(connection, done)
        if done.after is None:
            return done.total
