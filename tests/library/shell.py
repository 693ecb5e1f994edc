"""The `laneway` command, called by a script or in a terminal."""

from __future__ import annotations

import json
import subprocess
from typing import IO, TYPE_CHECKING, Any

from tests.library.terminal import LANEWAY, Terminal

if TYPE_CHECKING:
    from pathlib import Path


class Shell:
    """Calls the command with where it works in its environment."""

    def __init__(self, address: str, folder: Path) -> None:
        name = "SERVER_URL" if address.startswith("http") else "DATABASE_URL"
        self.variables = {name: address}
        self.folder = folder

    def run(
        self,
        *arguments: str,
        given: str | bytes | None = None,
        output: IO[Any] | int = subprocess.PIPE,
    ) -> subprocess.CompletedProcess[str]:
        """Run to the end. given: its standard input; output: where its results go."""
        done = subprocess.run(
            [LANEWAY, *arguments],
            cwd=self.folder,
            env={"PATH": "/usr/bin:/bin", **self.variables},
            input=given.encode() if isinstance(given, str) else given,
            stdout=output,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, (done.stdout or b"").decode(), done.stderr.decode()
        )

    def json(self, *arguments: str, given: str | None = None) -> Any:
        done = self.run(*arguments, "--format", "json", given=given)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def terminal(self, *arguments: str) -> Terminal:
        return Terminal(*arguments, cwd=self.folder, variables=self.variables)
