"""Moving a queue's clock, so that no test waits for a lease, a delay or a window to end."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncpg

_OF_QUEUE = """in (select g.group_id from laneway.consumer_group g
                     join laneway.queue q on q.queue_id = g.queue_id where q.name = $1)"""
_SHIFTS = (
    f"update laneway.claim set until = until - $2::interval where group_id {_OF_QUEUE}",
    f"""update laneway.parked set available_at = available_at - $2::interval
         where available_at > clock_timestamp() and group_id {_OF_QUEUE}""",
    f"""update laneway.progress p set not_before = p.not_before - $2::interval
          from laneway.reader r
         where r.reader_id = p.reader_id and p.not_before > clock_timestamp() and r.group_id {_OF_QUEUE}""",
    """update laneway.message m set deliver_at = m.deliver_at - $2::interval
         from laneway.lane l join laneway.queue q on q.queue_id = l.queue_id
        where l.lane_id = m.lane_id and m.deliver_at is not null and q.name = $1""",
    """update laneway.dedup_key set expires_at = expires_at - $2::interval
        where queue_id = (select queue_id from laneway.queue where name = $1)""",
)
_OVERDUE = f"""select exists (select from laneway.claim
                where until <= clock_timestamp() and group_id {_OF_QUEUE})"""


class Clock:
    """Shifts every deadline of a queue instead of waiting for it."""

    def __init__(self, connection: asyncpg.Connection[asyncpg.Record]) -> None:
        self._connection = connection

    async def advance(self, queue: str, by: timedelta = timedelta(0)) -> None:
        """Return once the queue is as it will be after `by`, its expired leases ended."""
        async with self._connection.transaction():
            for shift in _SHIFTS:
                await self._connection.execute(shift, queue, by)
        # The server ends expired leases too, and may be about to commit.
        while await self._connection.fetchval(_OVERDUE, queue):
            await self._connection.execute("select laneway.expire_claims()")
