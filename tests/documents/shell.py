"""Run blocks of shell as printed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from laneway.embedded.binaries import find_bundled

PRELUDE = Path(__file__).with_name("prelude.bash")
PROGRAMS = Path(sys.executable).parent
PATH = f"{PROGRAMS}:{find_bundled(None).folder}"


def run_shell(
    folder: Path, text: str, *, path: str = PATH, answers: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run statements in a directory; every one has to succeed.

    path: where programs are, before those of the system; answers: the standard input.
    Programs that run until they are stopped, as servers do, go on until the last statement is done.
    """
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"source {PRELUDE}\n{text}"],
        cwd=folder,
        env={
            "LANEWAY_PORT": "0",
            "TERM": "dumb",
            "PATH": f"{path}:/usr/local/bin:/usr/bin:/bin",
            **environment,
        },
        input=answers,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, f"{text}\n{done.stdout}\n{done.stderr}"
    return done
