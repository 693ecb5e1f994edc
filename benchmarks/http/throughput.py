"""Messages per second of each load, measured in turns with what it is compared with."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.engine.rounds import compare
from benchmarks.http.meter import OTHERS
from benchmarks.http.turns import BATCH, HttpTurns, PlainTurns, find_cpu, find_latency, run_rounds
from benchmarks.results import PER_SECOND, Bound, Figure, Row

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.http.stage import Stage
    from benchmarks.http.turns import RunTurn, Turn


@dataclass(frozen=True, slots=True)
class Load:
    """A row: a load, and the one that it is compared with."""

    name: str
    beside: str
    target: float
    goal: float


SINGLE_INSERT = "single-row insert at 32 clients"
BATCH_INSERT = "insert of 100 rows at 4 clients"

LOADS = (
    Load("single-enqueue", SINGLE_INSERT, 0.5, 0.8),
    Load("batch-enqueue", BATCH_INSERT, 0.25, 0.4),
    Load("claim-ack-batch", "batch-enqueue", 0.7, 1.2),
    Load("claim-ack-single", "single-enqueue", 0.35, 0.5),
)


async def measure_throughput(stage: Stage, names: Sequence[str]) -> list[Row]:
    loads = [load for load in LOADS if load.name in names]
    turns = await _make_turns(stage, _list_needed(loads))
    found = await run_rounds(stage, turns, stage.scale)
    return [_make_row(load, found) for load in loads]


def _list_needed(loads: Sequence[Load]) -> list[str]:
    """Return the names of the loads and of what they are compared with, without duplicates."""
    return list(dict.fromkeys(name for load in loads for name in (load.beside, load.name)))


async def _make_turns(stage: Stage, names: Sequence[str]) -> Mapping[str, RunTurn]:
    return {name: (await _make_turn(stage, name)).run for name in names}


async def _make_turn(stage: Stage, name: str) -> PlainTurns | HttpTurns:
    if name == SINGLE_INSERT:
        return await PlainTurns.create(stage, "plain_single", rows=1, clients=32)
    if name == BATCH_INSERT:
        return await PlainTurns.create(stage, "plain_batch", rows=BATCH, clients=4)
    queue = await stage.make_queue(name)
    match name:
        case "single-enqueue":
            return HttpTurns(stage, queue, "push_one.lua", size=1, connections=64)
        case "batch-enqueue":
            return HttpTurns(stage, queue, "push_batch.lua", size=BATCH, connections=4)
        case "claim-ack-batch":
            return HttpTurns(
                stage, queue, "claim_batch.lua", size=BATCH, connections=4, drains=True
            )
        case _:
            return HttpTurns(stage, queue, "claim_one.lua", size=1, connections=64, drains=True)


def _make_row(load: Load, found: Mapping[str, Sequence[Turn]]) -> Row:
    ours, beside = found[load.name], found[load.beside]
    rates = compare([(b.rate, a.rate) for a, b in zip(ours, beside, strict=True)])
    return Row(
        name=load.name,
        ours=Figure(rates.ours, PER_SECOND, ""),
        beside=Figure(rates.base, PER_SECOND, load.beside),
        ratio=rates.ratio,
        low=rates.low,
        high=rates.high,
        rounds=rates.rounds,
        target=Bound("at least", load.target),
        goal=Bound("at least", load.goal),
        latency=find_latency(ours),
        cpu=find_cpu(ours),
        details={
            "PostgreSQL's µs a message on the other side": median(
                turn.cpu.postgres for turn in beside
            ),
            OTHERS: median(turn.spent.busy_cores for turn in (*ours, *beside)),
        },
    )
