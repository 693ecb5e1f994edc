"""The rows of the scenario "gateway", and a run of them."""

from __future__ import annotations

import asyncio
import dataclasses
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from statistics import median
from typing import TYPE_CHECKING

import msgspec

from benchmarks.engine.rounds import compare
from benchmarks.gateway.delivery import SCRIPT, TARGET, DeliveryTurns
from benchmarks.gateway.statuses import CACHED, STORED, TRANSACTIONS, measure_statuses
from benchmarks.gateway.target import run_target
from benchmarks.http.connection import open_connection
from benchmarks.http.idle import compare_idle
from benchmarks.http.meter import OTHERS
from benchmarks.http.profile import profile
from benchmarks.http.queues import BenchQueue
from benchmarks.http.server import run_server
from benchmarks.http.stage import open_stage
from benchmarks.http.turns import HttpTurns, find_cpu, find_latency, run_rounds
from benchmarks.http.wrk import find_wrk
from benchmarks.results import PER_SECOND, Bound, Figure, Machine, Row, Run, record, save
from laneway.domain.transactions import TRANSACTIONS as QUEUE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from benchmarks.http.scale import Scale
    from benchmarks.http.stage import Stage
    from benchmarks.http.turns import RunTurn, Turn
    from benchmarks.progress import Progress

CONNECTIONS = 64
# The longest that a client may wait, in seconds.
_WAIT = 60

SETTINGS = """
[gateway]
private_networks = ["127.0.0.0/8"]

[gateway.targets.bench]
url = "{url}"
redelivery = "at-least-once"
"""

ENQUEUE, ACCEPT, DELIVER = "single-enqueue", "accept", "deliver"
CACHE, STORE, WAIT = "status-cache", "status-store", "idle-waits"
ROWS = (ACCEPT, DELIVER, CACHE, STORE, WAIT)

# A run that takes longer is stopped.
_LONGEST = timedelta(minutes=20)


@dataclass(frozen=True, slots=True)
class Plan:
    """The rows to run, their sizes, and the results file."""

    names: Sequence[str]
    scale: Scale
    quick: bool
    profile: bool
    path: Path


class Refused(Exception):
    """The gateway did not accept a request."""


async def run_gateway(plan: Plan, progress: Progress) -> Run:
    await find_wrk()
    started = datetime.now(UTC)
    async with open_stage(plan.scale, progress) as opened, run_target() as url:
        settings = SETTINGS.format(url=url)
        async with run_server(opened.dsn, settings=settings) as server:
            stage = dataclasses.replace(opened, server=server)
            run = Run(
                scenario="gateway",
                started_at=started,
                quick=plan.quick,
                machine=Machine.describe(stage.postgres),
            )
            progress.begin(", ".join(plan.names))
            start = time.monotonic()
            async with asyncio.timeout(_LONGEST.total_seconds()):
                rows = await _measure(stage, settings, plan.names)
            spent = time.monotonic() - start
            progress.end(f"{spent:.0f} s")
            run = record(run, rows, seconds=spent, path=plan.path)
            if plan.profile:
                progress.begin("profile")
                run = msgspec.structs.replace(run, profile=await profile(stage, SCRIPT, TARGET))
                save(run, plan.path)
    return run


async def _measure(stage: Stage, settings: str, names: Sequence[str]) -> list[Row]:
    """Run the loads of every round, which the other rows need for their transactions."""
    await _accept_one(stage)
    queue = await BenchQueue.find(stage.connection, QUEUE)
    enqueued = await stage.make_queue(ENQUEUE)
    turns: Mapping[str, RunTurn] = {
        ENQUEUE: HttpTurns(stage, enqueued, "push_one.lua", size=1, connections=CONNECTIONS).run,
        ACCEPT: HttpTurns(
            stage, queue, SCRIPT, size=1, connections=CONNECTIONS, argument=TARGET
        ).run,
        DELIVER: DeliveryTurns(stage, queue, settings).run,
    }
    found = await run_rounds(stage, turns, stage.scale)
    rows = {
        ACCEPT: _make_row(ACCEPT, found[ACCEPT], ENQUEUE, found[ENQUEUE], goal=0.7),
        DELIVER: _make_row(DELIVER, found[DELIVER], ACCEPT, found[ACCEPT], goal=None),
    }
    for name, final, limit in ((CACHE, True, CACHED), (STORE, False, STORED)):
        if name in names:
            ids = await _list_ids(stage, final=final)
            rows[name] = await measure_statuses(stage, name, ids, limit)
    if WAIT in names:
        request = (
            f"POST /api/v1/relay/{TARGET} HTTP/1.1\r\nHost: localhost\r\n"
            f"Prefer: wait={_WAIT}\r\nContent-Length: 2\r\n\r\n{{}}"
        )
        rows[WAIT] = await compare_idle(stage, WAIT, "waiting clients", request)
    return [rows[name] for name in names]


def _make_row(
    name: str, ours: Sequence[Turn], other: str, beside: Sequence[Turn], *, goal: float | None
) -> Row:
    rates = compare([(b.rate, a.rate) for a, b in zip(ours, beside, strict=True)])
    return Row(
        name=name,
        ours=Figure(rates.ours, PER_SECOND, ""),
        beside=Figure(rates.base, PER_SECOND, other),
        ratio=rates.ratio,
        low=rates.low,
        high=rates.high,
        rounds=rates.rounds,
        target=Bound("at least", 0.5),
        goal=None if goal is None else Bound("at least", goal),
        latency=find_latency(ours) if ours[0].latency else None,
        cpu=find_cpu(ours),
        details={
            "server's µs a message on the other side": median(turn.cpu.server for turn in beside),
            "PostgreSQL's": median(turn.cpu.postgres for turn in beside),
            OTHERS: median(turn.spent.busy_cores for turn in (*ours, *beside)),
        },
    )


async def _accept_one(stage: Stage) -> None:
    """Have the gateway create its queues."""
    async with open_connection(stage.server) as client:
        answer = await client.post(f"/api/v1/relay/{TARGET}", "{}")
    if answer.status != 202:
        raise Refused(answer.body.decode())


async def _list_ids(stage: Stage, *, final: bool) -> list[str]:
    rows = await stage.connection.fetch(
        "select transaction_id from laneway.gateway_transaction where final = $1"
        " order by created_at desc limit $2",
        final,
        TRANSACTIONS,
    )
    return [str(row["transaction_id"]) for row in rows]
