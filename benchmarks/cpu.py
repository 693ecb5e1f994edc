"""Processor time of processes, from /proc (Linux only)."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import psutil

if TYPE_CHECKING:
    from collections.abc import Sequence

_PROC = Path("/proc")
_TICK = 1_000_000_000 // os.sysconf("SC_CLK_TCK")

# Fields of /proc/<pid>/stat after the command's name, counted from the state.
_STATE, _PARENT, _REAPED_USER, _REAPED_SYSTEM = 0, 1, 13, 14


class NotMeasurable(Exception):
    """The processes are not on this machine, or not on Linux."""


class Clock(Protocol):
    """Counts nanoseconds of processor time, user and system."""

    def read(self) -> int: ...


class BackendClock:
    """The time of some PostgreSQL backends, exact to the nanosecond once they are idle."""

    def __init__(self, pids: Sequence[int]) -> None:
        self._pids = tuple(pids)

    def read(self) -> int:
        return sum(_read_runtime(pid) for pid in self._pids)

    async def settle(self) -> None:
        """Wait until the backends sleep. They send their response shortly before they are idle."""
        for pid in self._pids:
            for _ in range(50):
                if _read_stat(pid)[_STATE] == "S":
                    break
                await asyncio.sleep(0.0002)


class ServerClock:
    """The time of a whole PostgreSQL server: all its processes, including those that ended."""

    def __init__(self, postmaster: int) -> None:
        self._postmaster = postmaster

    def read(self) -> int:
        stat = _read_stat(self._postmaster)
        total = (int(stat[_REAPED_USER]) + int(stat[_REAPED_SYSTEM])) * _TICK
        total += _read_runtime(self._postmaster)
        for child in psutil.Process(self._postmaster).children():
            try:
                total += _read_runtime(child.pid)
            except NotMeasurable:
                continue  # it ended just now; the postmaster's next reading includes it
        return total


class ProcessClock:
    """The time of all threads of one process."""

    def __init__(self, pid: int) -> None:
        self._pid = pid

    def read(self) -> int:
        total = 0
        for thread in (_PROC / str(self._pid) / "task").iterdir():
            with suppress(NotMeasurable):  # it ended just now
                total += _read_runtime(int(thread.name))
        return total


class MachineClock:
    """The time of all processes on all cores, and the time stolen by the hypervisor."""

    def read(self) -> int:
        times = psutil.cpu_times()
        busy = times.user + times.nice + times.system + times.irq + times.softirq + times.steal
        return int(busy * 1_000_000_000)


def find_postmaster(backend: int) -> int:
    return int(_read_stat(backend)[_PARENT])


def _read_runtime(pid: int) -> int:
    return int(_read(pid, "schedstat").split()[0])


def _read_stat(pid: int) -> list[str]:
    return _read(pid, "stat").rpartition(")")[2].split()


def _read(pid: int, name: str) -> str:
    try:
        return (_PROC / str(pid) / name).read_text()
    except (FileNotFoundError, ProcessLookupError):
        raise NotMeasurable(
            f"process {pid} not found in /proc: run the benchmarks on the PostgreSQL server's own machine, on Linux"
        ) from None
