"""The cost of pushes and pops by batch size and by the number of partitions and groups."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.engine.rounds import compare
from benchmarks.http.meter import OTHERS
from benchmarks.http.turns import find_cpu, find_latency, run_rounds
from benchmarks.results import MICROSECONDS, PER_SECOND, Bound, Figure, Row
from benchmarks.streams.queues import BenchStream
from benchmarks.streams.turns import CONNECTIONS, PopTurns, PushTurns

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.http.stage import Stage
    from benchmarks.http.turns import RunTurn, Turn
    from benchmarks.streams.scale import Scale


@dataclass(frozen=True, slots=True)
class Load:
    """A row. width: index into the scale's numbers of partitions. size: messages per push, 0 for pops.

    lone: each group has one connection. Otherwise the only group has eight.
    """

    name: str
    size: int
    width: int = 0
    lone: bool = False
    many_groups: bool = False
    beside: str | None = None


LOADS = (
    Load("push-1", 1),
    Load("push-10", 10),
    Load("push-100", 100),
    Load("push-100-some", 100, 1, beside="push-100"),
    Load("push-100-many", 100, 2, beside="push-100"),
    Load("take-100", 0),
    Load("take-100-some", 0, 1, beside="take-100"),
    Load("take-100-many", 0, 2, beside="take-100"),
    Load("take-100-group", 0, 1, lone=True),
    Load("take-100-groups", 0, 1, lone=True, many_groups=True, beside="take-100-group"),
)

# The highest ratio of costs, many partitions to one.
_DEAREST = 2.0
# The least ratio of deliveries, ten groups to one, with one consumer each.
_FEWEST = 5.0


async def measure_throughput(stage: Stage, scale: Scale, names: Sequence[str]) -> list[Row]:
    chosen = [load for load in LOADS if load.name in names]
    needed = [load for load in LOADS if load in chosen or load.name in {c.beside for c in chosen}]
    turns = {load.name: await _make_turn(stage, scale, load) for load in needed}
    found = await run_rounds(stage, turns, scale)
    return [_make_row(load, found) for load in chosen]


async def _make_turn(stage: Stage, scale: Scale, load: Load) -> RunTurn:
    stream = await BenchStream.create(
        stage,
        load.name,
        partitions=scale.partitions[load.width],
        groups=scale.groups if load.many_groups else 1,
    )
    if load.size:
        return PushTurns(stage, stream, load.size).run
    connections = stream.groups if load.lone else CONNECTIONS
    return PopTurns(stage, scale, stream, connections).run


def _make_row(load: Load, found: Mapping[str, Sequence[Turn]]) -> Row:
    ours = found[load.name]
    cpu = find_cpu(ours)
    row = Row(
        name=load.name,
        ours=Figure(median(turn.rate for turn in ours), PER_SECOND, ""),
        rounds=len(ours),
        latency=find_latency(ours),
        cpu=cpu,
        details={OTHERS: median(turn.spent.busy_cores for turn in ours)},
    )
    if load.beside is None:
        return row
    base = found[load.beside]
    if load.many_groups:
        rates = compare([(b.rate, a.rate) for a, b in zip(ours, base, strict=True)])
        beside, bound = Figure(rates.base, PER_SECOND, load.beside), Bound("at least", _FEWEST)
    else:
        rates = compare([(_cost(b), _cost(a)) for a, b in zip(ours, base, strict=True)])
        beside, bound = Figure(rates.base, MICROSECONDS, load.beside), Bound("at most", _DEAREST)
    return Row(
        name=row.name,
        ours=row.ours if load.many_groups else Figure(rates.ours, MICROSECONDS, "CPU a message"),
        beside=beside,
        ratio=rates.ratio,
        low=rates.low,
        high=rates.high,
        rounds=rates.rounds,
        target=bound,
        latency=row.latency,
        cpu=cpu,
        details={**row.details, "messages a second": row.ours.value},
    )


def _cost(turn: Turn) -> float:
    return turn.cpu.server + turn.cpu.postgres
