"""The command in a pseudo-terminal."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping

LANEWAY = Path(sys.executable).with_name("laneway")
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]|\x1b[()][A-Z0-9]|\r")


class Terminal:
    """Runs `laneway` with the terminal as all of its three streams."""

    def __init__(self, *arguments: str, cwd: Path, variables: Mapping[str, str]) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
        self.process = subprocess.Popen(
            [LANEWAY, *arguments],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env={"PATH": "/usr/bin:/bin", "TERM": "xterm-256color", **variables},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - makes it the controlling one
        )
        os.close(slave)
        self._raw = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """All it has shown so far, without the control sequences."""
        return _CONTROL.sub("", self._raw)

    @property
    def raw(self) -> str:
        return self._raw

    def expect(self, wanted: str, *, within: float = 30) -> None:
        """Read until the text is shown."""
        end = time.monotonic() + within
        while wanted not in self.text:
            left = end - time.monotonic()
            if left <= 0 or not self._read(left):
                raise AssertionError(f"{wanted!r} was not shown: {self.text!r}")

    def send(self, text: str) -> None:
        os.write(self._master, text.encode())

    def wait(self, *, within: float = 30) -> int:
        """Return the exit code, once all is shown."""
        while self._read(within):
            pass
        return self.process.wait(within)

    def _read(self, within: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], within)
        if not ready:
            return False
        try:
            data = os.read(self._master, 65536)
        except OSError:
            # The other end is closed.
            return False
        self._raw += data.decode(errors="replace")
        return bool(data)
