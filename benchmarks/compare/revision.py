"""Checks out a revision of this repository, with its own environment, in a temporary directory."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]


class RevisionUnusable(Exception):
    """The revision is not in this clone, or its environment cannot be installed."""


def find_commit(revision: str) -> str:
    """Return the commit's full hash."""
    if not (ROOT / ".git").exists():
        raise RevisionUnusable(f"revision {revision!r} not found: {ROOT} is not a git checkout")
    found = _run("git", "rev-parse", "--verify", "--quiet", f"{revision}^{{commit}}")
    if found.returncode != 0:
        raise RevisionUnusable(
            f"revision {revision!r} not found in this clone. Fetch it with: git fetch origin "
            "(in a shallow clone: git fetch --unshallow)"
        )
    return found.stdout.strip()


def describe_checkout() -> str:
    """Return the name of this checkout's commit, with `-dirty` if files differ from it."""
    return _run("git", "describe", "--always", "--dirty").stdout.strip()


@contextmanager
def check_out(commit: str) -> Iterator[Path]:
    """Return the directory of the commit's files, with `.venv` as its own Makefile installs it."""
    with tempfile.TemporaryDirectory(prefix="laneway-compare-") as folder:
        tree = Path(folder) / "base"
        try:
            _require(_run("git", "worktree", "add", "--detach", str(tree), commit))
            _require(_run("make", "-C", str(tree), "setup", f"PYTHON={sys.executable}"))
            yield tree
        finally:
            _run("git", "worktree", "remove", "--force", str(tree))


def _require(done: subprocess.CompletedProcess[str]) -> None:
    if done.returncode != 0:
        raise RevisionUnusable(f"{' '.join(done.args)} failed:\n{done.stdout}{done.stderr}")


def _run(*command: str) -> subprocess.CompletedProcess[str]:
    # The base's Makefile finds uv in this checkout's tools. It is no part of a make that runs this program.
    environment = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    environment["PATH"] = f"{ROOT / '.venv-tools' / 'bin'}:{os.environ['PATH']}"
    return subprocess.run(  # noqa: S603 - git and make, with arguments of ours
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
