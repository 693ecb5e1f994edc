"""One side of a comparison: a program that runs the benchmark of the tree in its working directory, turn by turn.

`scenario.py` starts it with that tree's interpreter, for one row. The tree may be of another revision, so this program
imports nothing of its own tree. It calls `run_SCENARIO` of the tree's benchmarks, and replaces the loop over rounds
there: each turn begins with a line on standard input and ends with a line of JSON on standard output. Before it starts
wrk or pgbench, it prints the pids of its servers and waits for another line. It ends when standard input ends.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

_ENDLESS = 10**9  # rounds


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """What to run. `template` is a name for databases that no other side uses on this server.

    seconds: how long wrk or pgbench runs. calls, single_calls: in a slice of the engine's rows, of batches and of
    single messages.
    """

    scenario: str
    row: str
    dsn: str
    template: str
    seconds: float
    calls: int
    single_calls: int


class Finished(Exception):
    """The other side of standard input needs no more turns."""


def main() -> None:
    task = Task(**json.loads(sys.argv[1]))
    _replace_loops(task)
    module = import_module(f"benchmarks.{task.scenario}.scenario")
    plan = _make(
        module.Plan,
        names=[task.row],
        scale=_choose_scale(task),
        quick=False,
        profile=False,
        dsn=task.dsn,
        path=Path(os.devnull),
    )
    silent = dict.fromkeys(("begin", "step", "say", "end"), lambda *_: None)
    with suppress(Finished):
        asyncio.run(getattr(module, f"run_{task.scenario}")(plan, SimpleNamespace(**silent)))


def _choose_scale(task: Task) -> Any:
    package = "http" if task.scenario == "sqs" else task.scenario
    turn = timedelta(seconds=task.seconds)
    full = import_module(f"benchmarks.{package}.scale").FULL
    return _make(
        type(full),
        **{field.name: getattr(full, field.name) for field in dataclasses.fields(full)}
        | {
            "rounds": _ENDLESS,
            "bench_rounds": _ENDLESS,
            "bench_time": turn,
            "turn": turn,
            "warm_up": turn,
            "calls": task.calls,
            "single_calls": task.single_calls,
        },
    )


def _make(made: Any, **values: Any) -> Any:
    """Return an instance with those values that the class has a field for."""
    names = {field.name for field in dataclasses.fields(made)}
    return made(**{name: value for name, value in values.items() if name in names})


def _replace_loops(task: Task) -> None:
    """Replace parts of the tree's benchmarks, before other modules there import them."""
    site = import_module("benchmarks.engine.site")
    _replace("benchmarks.engine.site", _TEMPLATE=task.template)
    _replace("benchmarks.engine.rounds", interleave=_run_slices)
    _replace("benchmarks.http.stage", open_site=lambda _, *rest: site.open_site(task.dsn, *rest))
    run_wrk = import_module("benchmarks.http.wrk").run_wrk
    pgbench = import_module("benchmarks.pgbench")
    run_pgbench = pgbench.run_pgbench
    servers: list[int] = []

    async def run_turns(stage: Any, turns: Mapping[str, Any], scale: Any) -> None:
        servers.append(stage.server.pid)
        while True:
            _wait()
            turn = await turns[task.row](scale.turn)
            _print(messages=turn.messages)

    async def load(*arguments: Any, **options: Any) -> Any:
        _print(servers=servers)
        _wait()
        return await run_wrk(*arguments, **options)

    async def load_database(dsn: str, statement: Any, **options: Any) -> Any:
        if "push_many" not in statement.text:
            return pgbench.Bench(1.0, 1)  # the plain insert, which is not compared here
        _wait()
        _print(servers=servers)
        _wait()
        bench = await run_pgbench(dsn, statement, **options)
        _print(messages=bench.rows)
        return bench

    _replace("benchmarks.http.wrk", run_wrk=load)
    _replace("benchmarks.pgbench", run_pgbench=load_database)
    # The second name is that of version 0.1.
    _replace("benchmarks.http.turns", run_rounds=run_turns, take_rounds=run_turns)


def _replace(module: str, **parts: object) -> None:
    names = vars(import_module(module))
    if not names.keys() & parts.keys():
        raise LookupError(f"{module} has no {' or '.join(parts)}: its benchmarks cannot take turns")
    names.update(parts)


async def _run_slices(base: Any, ours: Any, *, swap: bool = True, **_: Any) -> None:
    while True:
        _wait()
        if not swap:
            await base()  # pushes the messages that ours claims
        cost = await ours()
        _print(nanoseconds=cost.nanoseconds, messages=cost.messages)


def _wait() -> None:
    """Wait for the next turn. Nothing else runs meanwhile, so this may block."""
    if not sys.stdin.readline():
        raise Finished


def _print(**found: object) -> None:
    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
