"""The rows of the scenario "sqs", and a run of them: every round runs each load once."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from benchmarks.engine.rounds import compare
from benchmarks.http.meter import OTHERS
from benchmarks.http.profile import profile
from benchmarks.http.stage import open_stage
from benchmarks.http.turns import HttpTurns, find_cpu, find_latency, run_rounds
from benchmarks.http.wrk import find_wrk
from benchmarks.results import (
    PER_SECOND,
    Bound,
    Cpu,
    Figure,
    Machine,
    Row,
    Run,
    record,
    save,
)
from benchmarks.sqs.moto import MotoTurns, run_moto
from benchmarks.sqs.queues import SqsQueue

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.http.scale import Scale
    from benchmarks.http.stage import Stage
    from benchmarks.http.turns import RunTurn, Turn
    from benchmarks.progress import Progress

HERE = Path(__file__).parent
CONNECTIONS = 64
BATCH = 10

# A run that takes longer is stopped.
_LONGEST = timedelta(minutes=30)


@dataclass(frozen=True, slots=True)
class Load:
    """A row: the load to measure, the one that it is compared with, and the least ratio to reach."""

    name: str
    load: str
    beside: str
    target: float | None


REST, MOTO = "REST single enqueue", "moto_server SendMessage"

LOADS = (
    Load("send-message", "send-message", REST, 0.6),
    Load("send-batch", "send-batch", "send-message", 3),
    Load("receive-delete", "receive-delete", "send-message", None),
    Load("receive-delete-batch", "receive-delete-batch", "send-batch", None),
    Load("fifo-send-message", "fifo-send-message", "send-message", 0.7),
    Load("fifo-send-batch", "fifo-send-batch", "send-batch", 0.7),
    Load("fifo-receive-delete", "fifo-receive-delete", "receive-delete", 0.7),
    Load("fifo-receive-delete-batch", "fifo-receive-delete-batch", "receive-delete-batch", 0.7),
    Load("beside-moto", "send-message", MOTO, 50),
)

# Computed from the rows above: a message is sent, then received, then deleted.
WHOLE_WAY = "fifo-whole-way"
_STEPS = ("send-batch", "receive-delete-batch")
_FIFO_STEPS = tuple(f"fifo-{name}" for name in _STEPS)

ROWS = (*(load.name for load in LOADS), WHOLE_WAY)


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows to run, their sizes, and the results file."""

    names: Sequence[str]
    scale: Scale
    quick: bool
    profile: bool
    path: Path


async def run_sqs(plan: Plan, progress: Progress) -> Run:
    await find_wrk()
    started = datetime.now(UTC)
    async with open_stage(plan.scale, progress) as stage, AsyncExitStack() as stack:
        progress.begin(", ".join(plan.names))
        start = time.monotonic()
        async with asyncio.timeout(_LONGEST.total_seconds()):
            rows = await _measure(stage, stack, plan.names)
        spent = time.monotonic() - start
        progress.end(f"{spent:.0f} s")
        run = Run(
            scenario="sqs",
            started_at=started,
            quick=plan.quick,
            machine=Machine.describe(stage.postgres),
        )
        run = record(run, rows, seconds=spent, path=plan.path)
        if plan.profile:
            progress.begin("profile")
            queue = await SqsQueue.create(stage.server, stage.connection, "profiled")
            hot = await profile(stage, str(HERE / "send_one.lua"), queue.name)
            run = msgspec.structs.replace(run, profile=hot)
            save(run, plan.path)
    return run


async def _measure(stage: Stage, stack: AsyncExitStack, names: Sequence[str]) -> list[Row]:
    loads = [load for load in LOADS if load.name in names]
    needed = dict.fromkeys(name for load in loads for name in (load.beside, load.load))
    if WHOLE_WAY in names:
        needed |= dict.fromkeys((*_STEPS, *_FIFO_STEPS))
    turns = {name: await _make_turn(stage, stack, name) for name in needed}
    found = await run_rounds(stage, turns, stage.scale)
    rows = [_make_row(load, found) for load in loads]
    if WHOLE_WAY in names:
        rows.append(_make_whole_way_row(found))
    return rows


async def _make_turn(stage: Stage, stack: AsyncExitStack, name: str) -> RunTurn:
    if name == REST:
        queue = await stage.make_queue("rest")
        return HttpTurns(stage, queue, "push_one.lua", size=1, connections=CONNECTIONS).run
    send = str(HERE / "send_one.lua")
    if name == MOTO:
        moto = await stack.enter_async_context(run_moto())
        return MotoTurns(stage, moto, send, connections=CONNECTIONS).run
    suffix = ".fifo" if name.startswith("fifo") else ""
    queue = await SqsQueue.create(stage.server, stage.connection, name + suffix)
    drains = "receive" in name
    batch = name.endswith("batch")
    verb = "receive" if drains else "send"
    script = str(HERE / f"{verb}_{'batch' if batch else 'one'}.lua")
    size = BATCH if batch else 1
    return HttpTurns(stage, queue, script, size=size, connections=CONNECTIONS, drains=drains).run


def _make_row(load: Load, found: Mapping[str, Sequence[Turn]]) -> Row:
    ours, beside = found[load.load], found[load.beside]
    rates = compare([(b.rate, a.rate) for a, b in zip(ours, beside, strict=True)])
    return Row(
        name=load.name,
        ours=Figure(rates.ours, PER_SECOND, ""),
        beside=Figure(rates.base, PER_SECOND, load.beside),
        ratio=rates.ratio,
        low=rates.low,
        high=rates.high,
        rounds=rates.rounds,
        target=None if load.target is None else Bound("at least", load.target),
        latency=find_latency(ours),
        cpu=find_cpu(ours),
        details={
            "server's µs a message on the other side": median(turn.cpu.server for turn in beside),
            OTHERS: median(turn.spent.busy_cores for turn in (*ours, *beside)),
        },
    )


def _make_whole_way_row(found: Mapping[str, Sequence[Turn]]) -> Row:
    ours, beside = (
        list(zip(*(found[name] for name in way), strict=True)) for way in (_FIFO_STEPS, _STEPS)
    )
    rates = compare([(_find_rate(b), _find_rate(a)) for a, b in zip(ours, beside, strict=True)])
    return Row(
        name=WHOLE_WAY,
        ours=Figure(rates.ours, PER_SECOND, "sent, received and deleted"),
        beside=Figure(rates.base, PER_SECOND, "of a standard queue"),
        ratio=rates.ratio,
        low=rates.low,
        high=rates.high,
        rounds=rates.rounds,
        cpu=Cpu(
            median(sum(turn.cpu.server for turn in way) for way in ours),
            median(sum(turn.cpu.postgres for turn in way) for way in ours),
        ),
    )


def _find_rate(way: Sequence[Turn]) -> float:
    """Return the messages per second that pass all steps, if the steps run one after the other."""
    return 1 / sum(1 / turn.rate for turn in way)
