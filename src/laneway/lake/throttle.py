"""Slow long reads down while the broker's own sessions need the processors.

A log is read without a claim or a lock, so a reader slows workers only by the processors it takes. On
Linux the lowest priority does not give them back in time: a worker that wakes for a fraction of a
millisecond waits for the end of a reader's slice of several. So readers rest, all at the same time.
"""

from __future__ import annotations

from pathlib import Path
from time import sleep, time
from typing import TYPE_CHECKING

from laneway.lake.database import NAME

if TYPE_CHECKING:
    from laneway.lake.database import Database

# Share of a reader's run time spent waiting for a processor, above which processors are short.
_CROWDED = 0.1
# All readers read at the same time, for this share of every cycle of _CYCLE seconds, and pause for the rest.
_SHARE = 0.25
_CYCLE = 2.0
_MANY = 20_000
_SCHEDSTAT = Path("/proc/self/schedstat")
# Those at work just now, without those that read as we do.
_OTHERS = f"""
select exists (
  select from pg_catalog.pg_stat_activity a
   where a.datname = pg_catalog.current_database() and a.backend_type = 'client backend' and a.application_name <> '{NAME}'
     and (a.state = 'active' or a.state_change > pg_catalog.clock_timestamp() - interval '20 ms')) as busy
"""


class Pace:
    """Pauses before a batch while other sessions are busy and processors are short."""

    def __init__(self, database: Database, rows: int) -> None:
        """rows: at least this many will be read. Short reads are not slowed down."""
        self._busy = rows >= _MANY and bool(database.fetch(_OTHERS)[0]["busy"])
        self._ran, self._waited = 0, 0

    def rest(self) -> None:
        if not self._busy:
            return
        ran, waited = _read_times()
        short = waited - self._waited > _CROWDED * (ran + waited - self._ran - self._waited)
        self._ran, self._waited = ran, waited
        past = time() % _CYCLE
        if short and past > _SHARE * _CYCLE:
            sleep(_CYCLE - past)


def _read_times() -> tuple[int, int]:
    """Return how long this thread has run, and how long it was runnable but waiting; 0 if unknown."""
    try:
        ran, waited, _ = _SCHEDSTAT.read_text().split()
    except OSError:
        return 0, 0
    return int(ran), int(waited)
