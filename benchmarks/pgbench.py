"""Runs one prepared statement on several connections with the bundled pgbench, for comparison."""

from __future__ import annotations

import asyncio
import re
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from laneway.embedded.binaries import find_bundled

if TYPE_CHECKING:
    from datetime import timedelta

_RATE = re.compile(r"^tps = ([\d.]+)", re.MULTILINE)
_DONE = re.compile(r"transactions actually processed: (\d+)")


class BenchFailed(Exception):
    """pgbench failed or printed no result."""


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement with one parameter, `:body`, sent as a bound value with every execution."""

    text: str
    body: str
    rows: int


@dataclass(frozen=True, slots=True)
class Bench:
    """Rows per second, excluding the time to connect, and the number of rows."""

    per_second: float
    rows: int


async def run_pgbench(
    dsn: str, statement: Statement, *, clients: int, time: timedelta, threads: int = 1
) -> Bench:
    binaries = await asyncio.to_thread(find_bundled, None)
    with tempfile.TemporaryDirectory(prefix="laneway-pgbench-") as folder:
        path = Path(folder) / "script.sql"
        path.write_text(statement.text)
        process = await asyncio.create_subprocess_exec(
            binaries.program("pgbench"),
            *("--no-vacuum", "--protocol=prepared", f"--file={path}", f"--jobs={threads}"),
            *(f"--client={clients}", f"--time={time.total_seconds():.0f}"),
            f"--define=body={statement.body}",
            dsn,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            output, errors = await process.communicate()
        except BaseException:
            process.kill()
            await process.wait()
            raise
    text = output.decode()
    rate, done = _RATE.search(text), _DONE.search(text)
    if process.returncode != 0 or rate is None or done is None:
        raise BenchFailed(f"pgbench exited with {process.returncode}: {errors.decode().strip()}")
    return Bench(float(rate[1]) * statement.rows, int(done[1]) * statement.rows)
