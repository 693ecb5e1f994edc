"""The commands that write and show the gateway's targets."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

from tests.protocol.servers import LANEWAY

if TYPE_CHECKING:
    from pathlib import Path

ADD = (
    *("gateway", "target", "add", "chain", "--kind", "openzeppelin"),
    *("--url", "http://relayer.example:8080", "--option", "relayer_id=main"),
)


def test_relayer_target_is_added_with_its_options(tmp_path: Path) -> None:
    done = run(tmp_path, *ADD, "--option", "api_key=env:RELAYER_KEY")
    assert done.returncode == 0, done.stderr
    assert 'api_key" = "env:RELAYER_KEY"' in (tmp_path / "laneway.toml").read_text()
    listed = run(tmp_path, "gateway", "target", "list", "--format", "json")
    (target,) = json.loads(listed.stdout)
    assert (target["name"], target["kind"]) == ("chain", "openzeppelin")
    assert "the-key" not in listed.stdout


def test_incomplete_relayer_target_is_not_added(tmp_path: Path) -> None:
    done = run(tmp_path, *ADD)
    assert done.returncode != 0
    assert "target chain has no option api_key" in done.stderr
    assert not (tmp_path / "laneway.toml").exists()


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LANEWAY, *arguments],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin", "RELAYER_KEY": "the-key"},
        capture_output=True,
        text=True,
        check=False,
    )
