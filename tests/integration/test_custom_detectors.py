"""Custom detectors of `laneway serve`: they report anomalies, and harm nothing when they fail."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from textwrap import dedent
from typing import TYPE_CHECKING, Any

import pytest

from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from tests.protocol.servers import RunningServer

ROOT = Path(__file__).parents[2]
LANEWAY = Path(sys.executable).with_name("laneway")

HEAD = """
import os, re
from laneway.activity import Context, Detector, Finding, Occasion, Severity

def make(name, detect, *events):
    return Detector(name=name, description=name, events=frozenset(events or [Occasion.ENQUEUE]), detect=detect)
"""

HIGH = """
def find_high(context: Context) -> Finding | None:
    print("looks at", context.event.partition)
    if (context.event.priority or 0) < 5:
        return None
    return Finding(severity=Severity.WARNING, description="High priority", actual=context.event.priority)

high = make("high_priority", find_high)
"""

# Each ends in its own way, and `last` shows that the others after it still run.
FAULTS = """
def fail(context):
    raise ValueError("broken")

def mumble(context):
    raise ValueError("a\\0b\\ud800")

def hide(context):
    class Hidden(Exception):
        def __str__(self):
            raise RuntimeError
    raise Hidden

def leave(context):
    raise SystemExit

def spin(context):
    while True:
        pass

def backtrack(context):
    re.match("(a+)+$", "a" * 60 + "b")  # native code that never lets another thread run

def crash(context):
    os._exit(7)

def misread(context):
    return 3

def measure(context):
    return Finding(severity=Severity.INFO, description="x", actual=float("nan"))

def misplace(context):
    return Finding(severity=Severity.INFO, description="x", seqs=[2**70])

def find_all(context):
    return [Finding(severity="info", description="seen\\0")]

faults = [make(each.__name__, each) for each in
          (fail, mumble, hide, leave, spin, backtrack, crash, misread, measure, misplace)] + [make("last", find_all)]
"""

FAILURES = {
    'detector "fail" failed: ValueError: broken',
    'detector "mumble" failed: ValueError: a\ufffdb?',
    'detector "hide" failed: Hidden: (str() of the error failed)',
    'detector "leave" failed: SystemExit',
    'detector "spin" took longer than 3 s: paused for 10 minutes',
    'detector "backtrack" took longer than 3 s: paused for 10 minutes',
    'detector "crash" ended its process with exit code 7: paused for 10 minutes',
    'detector "misread" failed: TypeError: it returned 3: return a Finding, several, or None',
    'detector "measure" failed: ValueError: a finding has the number nan',
    'detector "misplace" failed: ValueError: a finding has sequence numbers outside of its event',
}


async def push(server: RunningServer, priority: int) -> None:
    async with server.client() as client:
        message = {"type": "job", "payload": 1, "priority": priority}
        response = await client.post("/queue/message", json=message)
        assert response.status_code == 201


async def list_anomalies(server: RunningServer, kind: str, count: int) -> list[dict[str, Any]]:
    """Return the anomalies of a type, once there are as many."""
    async with asyncio.timeout(60), server.client() as client:
        while True:
            response = await client.get("/queue/activity/anomalies", params={"type": kind})
            found: list[dict[str, Any]] = response.json()["anomalies"]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.05)


def write(folder: Path, table: str, *modules: str) -> str:
    """Write the settings file and the module `shop`; return the file."""
    (folder / "shop.py").write_text("".join((HEAD, *modules)))
    (folder / "laneway.toml").write_text(f"[detectors]\n{table}\n")
    return str(folder / "laneway.toml")


async def test_documented_detector_reports_anomalies(database: str, tmp_path: Path) -> None:
    document = (ROOT / "docs" / "activity.md").read_text()
    blocks = [
        dedent(each)
        for each in re.findall(r"^ *```\w+\n(.*?)^ *```", document, re.MULTILINE | re.DOTALL)
    ]
    [module] = [each for each in blocks if "find_high_priority" in each]
    [table] = [each for each in blocks if each.startswith("[detectors]")]
    (tmp_path / "shop_detectors.py").write_text(module)
    (tmp_path / "laneway.toml").write_text(table)
    flags = ("--config", str(tmp_path / "laneway.toml"))
    async with run_laneway(database, *flags, PYTHONPATH=str(tmp_path)) as server:
        await push(server, 1)
        await push(server, 7)
        [anomaly] = await list_anomalies(server, "high_priority_flood", 1)
        assert anomaly["anomaly"]["actual"] == 7
        async with server.client() as client:
            assert (await client.get("/queue/message")).status_code == 200
        await push(server, 8)
        await list_anomalies(server, "high_priority_flood", 2)
        assert await list_anomalies(server, "flash_message", 0) == []
        assert "custom detectors that run: high_priority_flood" in server.log
        assert await server.stop() == 0


async def test_installed_detectors_are_found_by_their_entry_points(
    database: str, tmp_path: Path
) -> None:
    write(tmp_path, "", HIGH)
    package = tmp_path / "shop-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(
        "[laneway.detectors]\nhigh = shop:high\nlost = shop:lost\n"
    )
    async with run_laneway(database, "--workers", "2", PYTHONPATH=str(tmp_path)) as server:
        await push(server, 9)
        await list_anomalies(server, "high_priority", 1)
        assert 'shop:lost (entry point \\"lost\\" of laneway.detectors) cannot be' in server.log


async def test_failing_and_slow_detectors_are_reported_and_harm_no_message(
    database: str, tmp_path: Path
) -> None:
    file = write(tmp_path, 'load = ["shop:faults"]\ntime_limit_seconds = 3', FAULTS)
    async with run_laneway(database, "--config", file, PYTHONPATH=str(tmp_path)) as server:
        await push(server, 1)
        failed = await list_anomalies(server, "detector_failed", len(FAILURES))
        assert {each["anomaly"]["description"] for each in failed} == FAILURES
        assert [each["anomaly"]["severity"] for each in failed] == ["warning"] * len(FAILURES)
        for failure in FAILURES:
            assert json.dumps(failure, ensure_ascii=False)[1:-1] in server.log
        await list_anomalies(server, "last", 1)
        await push(server, 2)
        await list_anomalies(server, "last", 2)
        # Those that are paused, or failed a moment ago, are not reported again.
        assert len(await list_anomalies(server, "detector_failed", 1)) == len(FAILURES)
        assert await server.stop() == 0


async def test_messages_do_not_wait_for_a_detector(database: str, tmp_path: Path) -> None:
    file = write(tmp_path, 'load = ["shop:faults"]\ntime_limit_seconds = 3600', FAULTS)
    async with run_laneway(database, "--config", file, PYTHONPATH=str(tmp_path)) as server:
        async with server.client() as client:
            # The detector `spin` begins with the first message, and does not end.
            for _ in range(20):
                await push(server, 1)
                message = (await client.get("/queue/message")).json()
                ack = {"id": message["id"], "lock_token": message["lock_token"]}
                assert (await client.post("/queue/ack", json=ack)).is_success
        assert await server.stop() == 0


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ('load = ["shop"]', 'contains "shop": use module:name'),
        (
            'load = ["shop:high", "shop:lost"]',
            "cannot be loaded: AttributeError: module 'shop' has",
        ),
        ('load = ["nowhere:high"]', "cannot be loaded: ModuleNotFoundError: No module named"),
        ('load = ["shop:make"]', "make it a laneway.activity.Detector, or a list"),
        ('load = ["shop:high", "shop:high"]', 'there already is a detector "high_priority"'),
        ('disable = ["flash_mesage"]', 'unknown detector "flash_mesage": did you mean "flash_m'),
        ('load = ["shop:high"]\nenable = ["zzz"]', 'unknown detector "zzz": use one of flash_'),
        ('enable = ["near_dlq"]\ndisable = ["near_dlq"]', "which is also in enable"),
        ("time_limit_seconds = 0", "is 0: set 0.1 to 3600"),
    ],
)
def test_wrong_table_of_detectors_ends_serve(tmp_path: Path, table: str, words: str) -> None:
    write(tmp_path, table, HIGH)
    done = subprocess.run(
        [LANEWAY, "serve", "--port", "0"],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("laneway: detectors.")
    assert "of laneway.toml" in done.stderr
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / ".laneway").exists()
