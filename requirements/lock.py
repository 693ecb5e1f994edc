"""Writes the locks beside this file from pyproject.toml, and tells offline whether they are current.

`lock.py` compiles them with uv; `lock.py --check` compares the digest in each lock's first line
with pyproject.toml and needs neither uv nor a network.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
PROJECT = HERE.parent / "pyproject.toml"
MARK = "# inputs sha256:"


@dataclass(frozen=True, slots=True)
class Lock:
    """One lock file: the project's own dependencies, if any, some extras and dependency groups."""

    name: str
    project: bool
    extras: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    constraint: str | None = None

    @property
    def path(self) -> Path:
        return HERE / self.name


LOCKS = (
    Lock("runtime.txt", project=True),
    Lock("run.txt", project=True, groups=("build",), constraint="runtime.txt"),
    Lock(
        "dev.txt",
        project=True,
        extras=("ethereum", "spark"),
        groups=("dev",),
        constraint="runtime.txt",
    ),
    Lock("clients.txt", project=False, groups=("clients",)),
    Lock("tools.txt", project=False, groups=("tools",)),
)


def main(arguments: list[str]) -> int:
    if arguments not in ([], ["--check"]):
        print("usage: lock.py [--check]", file=sys.stderr)
        return 2
    if not arguments:
        for lock in LOCKS:
            compile_lock(lock)
    problems = [problem for lock in LOCKS for problem in find_problems(lock)]
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def compile_lock(lock: Lock) -> None:
    command = ["uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"]
    command += ["--generate-hashes", "--no-emit-index-url", "--no-emit-find-links", "--no-header"]
    command += ["--output-file", str(lock.path)]
    if lock.constraint is not None:
        command += ["--constraint", str(HERE / lock.constraint)]
    for extra in lock.extras:
        command += ["--extra", extra]
    for group in lock.groups:
        command += ["--group", f"{PROJECT}:{group}"]
    if lock.project:
        command.append(str(PROJECT))
    subprocess.run(command, check=True)
    text = lock.path.read_text()
    lock.path.write_text(f"{MARK}{digest(lock)}, compiled by `make lock`\n{text}")


def find_problems(lock: Lock) -> list[str]:
    if not lock.path.exists():
        return [f"{lock.path.name} is missing: run `make lock`"]
    text = lock.path.read_text()
    problems = []
    if not text.startswith(f"{MARK}{digest(lock)},"):
        problems.append(f"{lock.path.name} is older than pyproject.toml: run `make lock`")
    if "://" in text:
        problems.append(f"{lock.path.name} names a host; a lock names packages and hashes only")
    return problems


def digest(lock: Lock) -> str:
    """Covers what the resolver reads and nothing else, so a linter's setting leaves it alone."""
    document = tomllib.loads(PROJECT.read_text())
    project = document["project"]
    inputs = {
        "python": project["requires-python"],
        "dependencies": project["dependencies"] if lock.project else [],
        "extras": [project["optional-dependencies"][extra] for extra in lock.extras],
        "groups": dict.fromkeys(lock.groups, document["dependency-groups"]),
    }
    return hashlib.sha256(json.dumps(inputs, sort_keys=True).encode()).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
