"""Processor time during a load: of the server, of PostgreSQL, and of other programs."""

from __future__ import annotations

import resource
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from benchmarks.cpu import MachineClock
from benchmarks.results import Cpu

if TYPE_CHECKING:
    from collections.abc import Collection

    from benchmarks.http.server import RunningServer
    from benchmarks.http.stage import Stage

# The note that shows whether other programs disturbed the measurement.
OTHERS = "cores busy with other programs"


@dataclass(frozen=True, slots=True)
class Spent:
    """Nanoseconds. `others` is the time of all but the server, PostgreSQL and the load generator."""

    server: int
    postgres: int
    others: int
    elapsed: int

    def share(self, messages: int) -> Cpu:
        return Cpu(self.server / messages / 1000, self.postgres / messages / 1000)

    @property
    def busy_cores(self) -> float:
        """The number of cores that other programs used."""
        return max(0, self.others) / self.elapsed


@dataclass(frozen=True, slots=True)
class Meter:
    stage: Stage
    servers: Collection[RunningServer]
    start: tuple[int, int, int, int, int]

    @classmethod
    def begin(cls, stage: Stage, servers: Collection[RunningServer] = ()) -> Self:
        chosen = set(servers) or {stage.server}
        return cls(stage, chosen, _read(stage, chosen))

    def end(self) -> Spent:
        now = _read(self.stage, self.servers)
        server, postgres, machine, ours, elapsed = (
            after - before for before, after in zip(self.start, now, strict=True)
        )
        return Spent(server, postgres, machine - server - postgres - ours, elapsed)


def _read(stage: Stage, servers: Collection[RunningServer]) -> tuple[int, int, int, int, int]:
    return (
        sum(server.clock.read() for server in servers),
        stage.database_clock.read(),
        MachineClock().read(),
        _read_ours(),
        time.monotonic_ns(),
    )


def _read_ours() -> int:
    """Return the time of this process and of its child processes that ended (load generators)."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return int(sum(one.ru_utime + one.ru_stime for one in used) * 1_000_000_000)
