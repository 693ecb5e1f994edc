"""The programs in examples/ run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import laneway
from tests.library.conftest import QUIET
from tests.library.workers import until

if TYPE_CHECKING:
    from laneway import Connection
    from tests.library.conftest import Place

EXAMPLES = Path(__file__).parents[2] / "examples" / "library"


def run(name: str, address: str) -> str:
    return subprocess.run(
        [sys.executable, EXAMPLES / name, address],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout


async def test_example_processes_its_orders(place: Place) -> None:
    assert "pushed" in run("produce.py", place.url)
    assert "exist" in run("transaction.py", place.dsn)
    with subprocess.Popen([sys.executable, EXAMPLES / "worker.py", place.dsn]) as worker:
        try:
            async with laneway.connect(place.dsn, settings=QUIET) as lane:
                await until(lambda: done(lane))
        finally:
            worker.terminate()
    assert worker.returncode == 0


async def done(lane: Connection) -> bool:
    """Tell whether every order has its receipt."""
    runs = {item.run_id: item for item in await lane.admin.list_runs(limit=1000)}
    orders = [f"order-{number}" for number in (0, 1, 2, 3, 4, 99)]
    return all(name in runs and runs[name].result is not None for name in orders)
