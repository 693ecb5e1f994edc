"""Benchmarks run and write their results; speed is not tested."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = [
    pytest.mark.bundled,
    pytest.mark.skipif(sys.platform != "linux", reason="reads /proc"),
]


def benchmarks(*arguments: str, timeout: int = 100) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def test_quick_run_writes_a_table_and_a_file(tmp_path: Path) -> None:
    results, document = tmp_path / "found.json", tmp_path / "document.md"
    names = ["push-100", "claim-ack-32x1"]
    done = benchmarks(
        *("engine", "--quick", "--rounds", "2", "--only", ",".join(names)),
        *("--json", str(results)),
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(results.read_text())["rows"]
    assert [row["name"] for row in rows] == names
    assert all(row["ours"]["value"] > 0 and row["verdict"] in {"met", "short"} for row in rows)
    assert all(name in done.stdout for name in names)

    document.write_text(
        "before\n<!-- http: begin -->\nkept\n<!-- http: end -->\n"
        "<!-- engine: begin -->\nold\n<!-- engine: end -->\nafter\n"
    )
    done = benchmarks("report", str(results), "--into", str(document))
    assert done.returncode == 0, done.stderr
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert "\nkept\n" in text
    assert all(f"| {name} |" in text for name in names)


@pytest.mark.skipif(shutil.which("wrk") is None, reason="the load comes from wrk")
@pytest.mark.parametrize(
    ("scenario", "names"),
    [
        ("http", ["single-enqueue", "claim-ack-single"]),
        ("streams", ["push-10", "take-100"]),
        ("gateway", ["accept"]),
    ],
)
def test_quick_run_over_http_counts_messages_in_the_database(
    tmp_path: Path, scenario: str, names: list[str]
) -> None:
    results = tmp_path / "found.json"
    done = benchmarks(
        *(scenario, "--quick", "--rounds", "1", "--only", ",".join(names)),
        *("--json", str(results)),
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(results.read_text())["rows"]
    assert [row["name"] for row in rows] == names
    for row in rows:
        assert row["ours"]["value"] > 0
        assert row["latency"]["p99"] >= row["latency"]["p50"] > 0
        assert row["cpu"]["server"] > 0
        assert row["cpu"]["postgres"] > 0
        assert row["verdict"] in {"met", "short", "-"}
    assert "p99, ms" in done.stdout


def test_quick_run_compares_workers_with_other_job_queues(tmp_path: Path) -> None:
    results = tmp_path / "found.json"
    done = benchmarks("library", "--quick", "--only", "lone-job", "--json", str(results))
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(results.read_text())["rows"]
    assert row["latency"]["p99"] >= row["latency"]["p50"] > 0
    assert {"laneway, p50 ms", "procrastinate, p50 ms", "pgqueuer, p50 ms"} <= set(row["details"])


@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="the base comes from git")
@pytest.mark.parametrize(
    ("scenario", "name"),
    [
        ("engine", "push-100"),
        pytest.param(
            *("http", "single-enqueue"),
            marks=pytest.mark.skipif(not shutil.which("wrk"), reason="the load comes from wrk"),
        ),
    ],
)
def test_compare_measures_a_revision_and_this_checkout(
    tmp_path: Path, scenario: str, name: str
) -> None:
    results = tmp_path / "found.json"
    done = benchmarks(
        *("compare", "HEAD", "--scenario", scenario, "--quick", "--only", name),
        *("--json", str(results)),
        timeout=600,  # it also installs the revision
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(results.read_text())
    (row,) = found["rows"]
    assert (found["compared"], row["name"]) == (scenario, name)
    assert row["ours"]["value"] > 0
    assert row["beside"]["value"] > 0
    assert row["verdict"] in {"within 3 %", "not worse", "better", "worse", "unresolved"}
    assert name in done.stdout


def test_compare_refuses_a_revision_that_is_not_in_the_clone() -> None:
    done = benchmarks("compare", "no-such-revision")
    assert done.returncode == 1
    assert "revision 'no-such-revision' not found" in done.stderr
    assert "Traceback" not in done.stderr


def test_unknown_row_is_refused_by_name() -> None:
    done = benchmarks("engine", "--only", "push-101")
    assert done.returncode == 2
    assert "unknown row: push-101" in done.stderr


@pytest.mark.parametrize(
    ("scenario", "rows"),
    [("engine", 11), ("http", 6), ("sqs", 10), ("streams", 12), ("library", 3)],
)
def test_every_row_is_documented(scenario: str, rows: int) -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    listed = benchmarks(scenario, "--help").stdout
    names = "".join(listed.split("some of:")[1].split("--rounds")[0].split()).split(",")
    assert len(names) == rows
    assert [name for name in names if f"`{name}`" not in text] == []
