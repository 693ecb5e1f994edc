"""The load generator: wrk, with one of the scripts beside this file."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from datetime import timedelta

_SCRIPTS = Path(__file__).parent
_FOUND = re.compile(r"^found (\{.*\})$", re.MULTILINE)


class WrkMissing(Exception):
    """There is no wrk, and it cannot be installed from here."""


class LoadFailed(Exception):
    """wrk ended without a figure, or requests failed."""


class Load(msgspec.Struct, frozen=True):
    """What wrk saw; p50 and p99 are of single requests, in microseconds.

    settled: messages whose ack was answered. empty: claims that found nothing.
    """

    requests: int
    microseconds: int
    p50: float
    p99: float
    refused: int
    broken: int
    settled: int
    empty: int

    @property
    def seconds(self) -> float:
        return self.microseconds / 1_000_000


async def find_wrk() -> str:
    """Return the program, installed by apt where that is possible."""
    found = shutil.which("wrk")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        await _run("apt-get", "install", "--yes", "--no-install-recommends", "wrk")
        found = shutil.which("wrk")
    if found is None:
        raise WrkMissing("the load comes from wrk: install Debian's package (apt install wrk)")
    return found


async def run_wrk(url: str, script: str, queue: str, *, connections: int, time: timedelta) -> Load:
    """Keep the connections busy for the time, from one thread; script: one of ours, or a path."""
    output = await _run(
        await find_wrk(),
        *("--threads", "1", "--connections", str(connections)),
        *("--duration", f"{time.total_seconds():.0f}s", "--timeout", "30s"),
        *("--script", str(_SCRIPTS / script), url, "--", queue),
    )
    found = _FOUND.search(output)
    if found is None:
        raise LoadFailed(f"wrk said nothing of use: {output}")
    load = msgspec.json.decode(found[1], type=Load)
    # A claim that finds nothing is answered with 404.
    if load.broken or load.refused > load.empty:
        raise LoadFailed(f"{load.refused} requests were refused, {load.broken} broke off")
    return load


async def _run(*command: str) -> str:
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**os.environ, "LUA_PATH": f"{_SCRIPTS}/?.lua;{_SCRIPTS.parent}/sqs/?.lua;;"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    text = output.decode()
    if process.returncode != 0:
        raise LoadFailed(f"{command[0]} exited with {process.returncode}: {text.strip()}")
    return text
