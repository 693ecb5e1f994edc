"""Runs one turn of a load: through the server with wrk, or by plain SQL with pgbench."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, TypeAlias

from benchmarks.engine.bodies import make_bodies
from benchmarks.engine.plain import TABLE
from benchmarks.http.meter import Meter
from benchmarks.http.wrk import run_wrk
from benchmarks.pgbench import Statement, run_pgbench
from benchmarks.results import Cpu, Latency

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import timedelta

    from benchmarks.http.meter import Spent
    from benchmarks.http.queues import BenchQueue
    from benchmarks.http.scale import Scale
    from benchmarks.http.stage import Stage
    from benchmarks.http.wrk import Load

BATCH = 100

# Expected messages per second by request size, until the first turn has measured it. Too high is harmless.
_GUESS = {1: 20_000.0, 10: 60_000.0, BATCH: 150_000.0}
_MARGIN = 2.5


class WrongCount(Exception):
    """The database's count of messages does not match the responses."""


class QueueEmpty(Exception):
    """A queue became empty before the end of the turn."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The result of a turn. `messages` is counted in the database."""

    rate: float  # messages a second
    spent: Spent
    messages: int
    latency: Latency | None = None

    @property
    def cpu(self) -> Cpu:
        return self.spent.share(max(self.messages, 1))


RunTurn: TypeAlias = Callable[["timedelta"], Awaitable[Turn]]


async def run_rounds(
    stage: Stage, turns: Mapping[str, RunTurn], scale: Scale
) -> dict[str, list[Turn]]:
    """Run each load once in every round, after a warm-up that does not count."""
    for name, run in turns.items():
        stage.progress.step(f"{name}, warming up", 1, 1)
        await run(scale.warm_up)
    found: dict[str, list[Turn]] = {name: [] for name in turns}
    for number in range(scale.rounds):
        # Every other round runs in reverse, so that no load has an advantage.
        for name in list(turns)[:: -1 if number % 2 else 1]:
            stage.progress.step(f"{name}, round", number + 1, scale.rounds)
            found[name].append(await turns[name](scale.turn))
    return found


def find_latency(turns: Sequence[Turn]) -> Latency:
    latencies = [turn.latency for turn in turns if turn.latency is not None]
    return Latency(median(each.p50 for each in latencies), median(each.p99 for each in latencies))


def find_cpu(turns: Sequence[Turn]) -> Cpu:
    return Cpu(
        median(turn.cpu.server for turn in turns), median(turn.cpu.postgres for turn in turns)
    )


@dataclass(frozen=True, slots=True)
class PlainTurns:
    """Turns that insert rows into a table with one index."""

    stage: Stage
    statement: Statement
    clients: int

    @classmethod
    async def create(cls, stage: Stage, name: str, *, rows: int, clients: int) -> PlainTurns:
        await stage.connection.execute(TABLE.replace("plain", name))
        bodies = make_bodies(rows)
        if rows == 1:
            text = f"insert into {name} (body) values (:body);"
            return cls(stage, Statement(text, bodies[0], 1), clients)
        text = f"insert into {name} (body) select e from json_array_elements(:body) e;"
        return cls(stage, Statement(text, f"[{','.join(bodies)}]", rows), clients)

    async def run(self, time: timedelta) -> Turn:
        await self.stage.settle()
        meter = Meter.begin(self.stage)
        found = await run_pgbench(self.stage.dsn, self.statement, clients=self.clients, time=time)
        return Turn(found.per_second, meter.end(), found.rows)


@dataclass(frozen=True, slots=True)
class HttpTurns:
    """Turns that send messages through the server, `size` of them in each request.

    argument: of the script, if it is not the queue.
    """

    stage: Stage
    queue: BenchQueue
    script: str
    size: int
    connections: int
    drains: bool = False
    argument: str | None = None
    rates: list[float] = field(default_factory=list)

    async def run(self, time: timedelta) -> Turn:
        if self.drains:
            expected = max(self.rates, default=_GUESS[self.size])
            await self.queue.fill(int(expected * time.total_seconds() * _MARGIN))
        await self.stage.settle()
        before = await self.queue.count()
        meter = Meter.begin(self.stage)
        load = await run_wrk(
            self.stage.server.url,
            self.script,
            self.argument or self.queue.name,
            connections=self.connections,
            time=time,
        )
        await asyncio.sleep(
            0.2
        )  # requests in progress when wrk stopped are counted, so their time is too
        spent = meter.end()
        messages = self._check(load, before, await self.queue.count())
        self.rates.append(messages / load.seconds)
        latency = Latency(load.p50 / 1000, load.p99 / 1000)
        return Turn(self.rates[-1], spent, messages, latency)

    def _check(self, load: Load, before: int, after: int) -> int:
        """Return how many messages were pushed or acked, as counted in the database."""
        messages = before - after if self.drains else after - before
        answered = load.settled if self.drains else load.requests * self.size
        if load.empty:
            raise QueueEmpty(
                f"{load.empty} claims of {self.queue.name} found nothing; {before} messages were "
                f"unsettled before, {after} after"
            )
        # When wrk stops, up to one request is in progress on each connection.
        if not 0 < answered <= messages <= answered + self.connections * self.size:
            raise WrongCount(
                f"the responses confirm {answered} messages of {self.queue.name}, the database has {messages}"
            )
        return messages
