"""Profiles the server with py-spy while single messages are enqueued."""

from __future__ import annotations

import asyncio
import re
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.http.wrk import run_wrk
from benchmarks.results import Hot

if TYPE_CHECKING:
    from collections.abc import Iterable

    from benchmarks.http.stage import Stage

_PY_SPY = Path(sys.executable).with_name("py-spy")
_RATE = 250  # samples a second
_TOP = 30
_FRAME = re.compile(r"^(?P<function>.+) \((?P<file>[^()]+?)(?::\d+)?\)$")


class ProfileFailed(Exception):
    """py-spy could not sample the server."""


async def profile_enqueue(stage: Stage) -> tuple[Hot, ...]:
    return await profile(stage, "push_one.lua", (await stage.make_queue("profiled")).name)


async def profile(stage: Stage, script: str, queue: str) -> tuple[Hot, ...]:
    """Return the functions with the most time, excluding the functions that they call.

    C code (uvloop, asyncpg's protocol, msgspec) counts for the Python function that called it.
    """
    time = stage.scale.profile_time
    with tempfile.TemporaryDirectory(prefix="laneway-profile-") as folder:
        path = Path(folder) / "stacks"
        async with asyncio.TaskGroup() as group:
            group.create_task(run_wrk(stage.server.url, script, queue, connections=64, time=time))
            await asyncio.sleep(0.5)
            group.create_task(_record(stage.server.pid, path, int(time.total_seconds()) - 1))
        return _rank(path.read_text().splitlines())


async def _record(pid: int, path: Path, seconds: int) -> None:
    process = await asyncio.create_subprocess_exec(
        *(_PY_SPY, "record", "--pid", str(pid), "--output", path, "--format", "raw"),
        *("--rate", str(_RATE), "--duration", str(seconds), "--function"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await process.communicate()
    except BaseException:
        process.kill()
        await process.wait()
        raise
    if process.returncode != 0:
        raise ProfileFailed(f"py-spy exited with {process.returncode}: {output.decode().strip()}")


def _rank(stacks: Iterable[str]) -> tuple[Hot, ...]:
    own: Counter[tuple[str, str]] = Counter()
    for line in stacks:
        frames, _, samples = line.rpartition(" ")
        own[_name(frames.rpartition(";")[2])] += int(samples)
    total = own.total() or 1
    return tuple(
        Hot(function, place, round(samples / total * 100, 1))
        for (function, place), samples in own.most_common(_TOP)
    )


def _name(frame: str) -> tuple[str, str]:
    found = _FRAME.match(frame)
    if found is None:
        return frame, ""
    # Name files of packages from the package's directory on.
    place = re.sub(r"^.*(?:site-packages|/src|/lib/python3\.\d+)/", "", found["file"])
    return found["function"], place
