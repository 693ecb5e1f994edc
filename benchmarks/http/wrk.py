"""Runs the load generator, wrk, with a script."""

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
    """wrk is not installed, and this process may not install it."""


class LoadFailed(Exception):
    """wrk printed no result, or requests failed."""


class Load(msgspec.Struct, frozen=True):
    """wrk's result. p50 and p99 are of single requests, in microseconds.

    settled: messages whose ack was confirmed. empty: claims that found nothing. refused: responses
    with an error status. broken: requests without a complete response.
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
    """Return the path of wrk, after installing it with apt if needed and allowed."""
    found = shutil.which("wrk")
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        await _run("apt-get", "install", "--yes", "--no-install-recommends", "wrk")
        found = shutil.which("wrk")
    if found is None:
        raise WrkMissing("wrk not found. Install it with: apt install wrk")
    return found


async def run_wrk(url: str, script: str, queue: str, *, connections: int, time: timedelta) -> Load:
    """Load the server from one thread for `time`. `script` is a file of this directory, or a path."""
    output = await _run(
        await find_wrk(),
        *("--threads", "1", "--connections", str(connections)),
        *("--duration", f"{time.total_seconds():.0f}s", "--timeout", "30s"),
        *("--script", str(_SCRIPTS / script), url, "--", queue),
    )
    found = _FOUND.search(output)
    if found is None:
        raise LoadFailed(f"wrk printed no result: {output}")
    load = msgspec.json.decode(found[1], type=Load)
    # A claim that finds nothing is answered with 404.
    if load.broken or load.refused > load.empty:
        raise LoadFailed(f"{load.refused} requests failed, {load.broken} got no complete response")
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
