"""Takes turns between the two sides of a comparison, each a process of `side.py`."""

from __future__ import annotations

import asyncio
import json
import os
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self, TypeVar

import msgspec
import psutil

from benchmarks.compare import side
from benchmarks.cpu import ProcessClock
from benchmarks.engine.rounds import Cost

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence
    from pathlib import Path

    from benchmarks.cpu import Clock

# Seconds for which a load runs before the other side's runs, and for which none runs in between.
_SLICE = 0.2
_PAUSE = 0.02
_GENERATORS = {"wrk", "pgbench"}


class SideFailed(Exception):
    """The benchmark of one side ended with an error, which it printed."""


class Ready(msgspec.Struct, frozen=True):
    """The first line of a turn of a load: the side waits before it starts the load generator."""

    servers: list[int]


class Result(msgspec.Struct, frozen=True):
    """The last line of a turn. Only slices of calls know their `nanoseconds`."""

    messages: int
    nanoseconds: int = 0


Line = TypeVar("Line", Ready, Result)


@dataclass(frozen=True, slots=True)
class Side:
    name: str
    process: asyncio.subprocess.Process

    async def run_slice(self) -> Cost:
        self.proceed()
        result = await self.read(Result)
        return Cost(result.nanoseconds, result.messages)

    def proceed(self) -> None:
        if self.process.stdin is not None:
            self.process.stdin.write(b"\n")

    async def read(self, line: type[Line]) -> Line:
        text = b"" if self.process.stdout is None else await self.process.stdout.readline()
        if not text:
            raise SideFailed(f"the benchmark of {self.name} failed; it printed the error above")
        return msgspec.json.decode(text, type=line)


@asynccontextmanager
async def start_side(name: str, tree: Path, python: Path, task: side.Task) -> AsyncIterator[Side]:
    # -P: the directory of side.py is not among those that modules are imported from.
    process = await asyncio.create_subprocess_exec(
        *(python, "-P", side.__file__, json.dumps(msgspec.to_builtins(task))),
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree)},
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,  # on Ctrl-C it ends because its standard input does
    )
    try:
        yield Side(name, process)
    finally:
        with suppress(psutil.NoSuchProcess):
            for child in psutil.Process(process.pid).children():
                child.resume()  # a load that an error left suspended
        if process.stdin is not None:
            process.stdin.close()
        await process.wait()


@dataclass(slots=True)
class Load:
    """A turn of wrk or pgbench on one side. `server` and `postgres` are the nanoseconds that it cost."""

    result: asyncio.Future[Result]
    servers: Sequence[Clock]
    database: Clock
    generator: psutil.Process | None = None
    server: int = 0
    postgres: int = 0
    active: int = 0  # nanoseconds by the clock

    @classmethod
    async def start(cls, of: Side, ready: Ready, database: Clock) -> Self:
        servers = [ProcessClock(pid) for pid in ready.servers]
        load = cls(asyncio.ensure_future(of.read(Result)), servers, database)
        async with load._measure():
            of.proceed()
            load.generator = await _find_generator(of, load.result)
        return load

    @property
    def cost(self) -> float:
        """Microseconds per message."""
        return (self.server + self.postgres) / self.messages / 1000

    @property
    def server_cost(self) -> float:
        return self.server / self.messages / 1000

    @property
    def rate(self) -> float:
        return self.messages / self.active * 1_000_000_000

    @property
    def messages(self) -> int:
        return self.result.result().messages

    async def run_slice(self) -> None:
        async with self._measure():
            if self.generator is not None:
                with suppress(psutil.NoSuchProcess):
                    self.generator.resume()
            await asyncio.wait([self.result], timeout=_SLICE)

    @asynccontextmanager
    async def _measure(self) -> AsyncIterator[None]:
        """Count what the load costs, and suspend it in the end."""
        server, postgres, start = self._read()
        try:
            yield
        finally:
            if self.generator is not None:
                with suppress(psutil.NoSuchProcess):
                    self.generator.suspend()
        self.active += time.monotonic_ns() - start
        await asyncio.sleep(_PAUSE)  # the server completes the requests in progress
        now = self._read()
        self.server += now[0] - server
        self.postgres += now[1] - postgres

    def _read(self) -> tuple[int, int, int]:
        server = sum(clock.read() for clock in self.servers)
        return server, self.database.read(), time.monotonic_ns()


async def run_loads(sides: Sequence[Side], database: Clock) -> list[Load]:
    """Run a turn of each side's load. They run alternately, a slice each, until both end."""
    for each in sides:
        each.proceed()
    ready = [await each.read(Ready) for each in sides]
    loads = [await Load.start(each, its, database) for each, its in zip(sides, ready, strict=True)]
    while running := [load for load in loads if not load.result.done()]:
        for load in running:
            await load.run_slice()
    for load in loads:
        await load.result
    return loads


async def _find_generator(of: Side, result: asyncio.Future[Result]) -> psutil.Process:
    while not result.done():
        for process in psutil.Process(of.process.pid).children():
            with suppress(psutil.NoSuchProcess):
                if process.name() in _GENERATORS:
                    return process
        await asyncio.sleep(0.002)
    await result
    raise SideFailed(f"the load generator of {of.name} ended before it could be found")
