"""The benchmarks run and write down what they find; how quick it is does not matter here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_quick_run_leaves_a_table_and_a_file(tmp_path: Path) -> None:
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

    document.write_text("before\n<!-- results: begin -->\nold\n<!-- results: end -->\nafter\n")
    done = benchmarks("report", str(results), "--into", str(document))
    assert done.returncode == 0, done.stderr
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert all(f"| {name} |" in text for name in names)


def test_unknown_row_is_refused_by_name() -> None:
    done = benchmarks("engine", "--only", "push-101")
    assert done.returncode == 2
    assert "no row is called push-101" in done.stderr


def test_every_row_is_documented() -> None:
    text = (ROOT / "docs" / "benchmarks.md").read_text()
    listed = benchmarks("engine", "--help").stdout
    names = "".join(listed.split("some of:")[1].split("--rounds")[0].split()).split(",")
    assert len(names) == 11
    assert [name for name in names if f"`{name}`" not in text] == []
