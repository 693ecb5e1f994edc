"""Standard output and error: a failure to write ends the command with one line or silently."""

from __future__ import annotations

import errno
import io
import os
import select
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from laneway.domain.escapes import escape

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

# The exit code by which shells report that SIGPIPE ended a program.
_NO_READER = 141
_FAILED = 1

# The file descriptor of standard error.
_LAST = 2


class OutputLost(OSError):
    """The output could not be written. code: the command's exit code."""

    def __init__(self, reason: OSError) -> None:
        super().__init__(f"cannot write the output: {reason.strerror}")
        self.code = _NO_READER if reason.errno == errno.EPIPE else _FAILED


def guard_output() -> None:
    """Make a failure to write to standard output raise OutputLost, once."""
    _fill_gaps()
    found = sys.stdout
    # None if the program was started with standard output closed.
    sink = _Sink(None if found is None else io.FileIO(found.fileno(), "w", closefd=False))
    straight = getattr(found, "write_through", False)
    sys.stdout = io.TextIOWrapper(
        sink if straight else io.BufferedWriter(sink),
        encoding=getattr(found, "encoding", "utf-8"),
        errors="backslashreplace",
        line_buffering=getattr(found, "line_buffering", False),
        write_through=straight,
    )


def tell(text: str) -> None:
    """Print a line to standard error; if that fails, continue."""
    with suppress(OSError):
        if sys.stderr is not None:
            sys.stderr.write(f"{escape(text, lines=True)}\n")
            sys.stderr.flush()


def _fill_gaps() -> None:
    """Open closed standard streams, so that no connection gets their file descriptors."""
    while (number := os.open(os.devnull, os.O_RDWR)) <= _LAST:
        pass
    os.close(number)


class _Sink(io.RawIOBase):
    """Writes everything, in several writes if needed; after a failure, discards it."""

    def __init__(self, file: io.FileIO | None) -> None:
        self._file = file
        self._lost = False

    def writable(self) -> bool:
        return True

    def isatty(self) -> bool:
        return self._file is not None and self._file.isatty()

    def fileno(self) -> int:
        return super().fileno() if self._file is None else self._file.fileno()

    def write(self, data: ReadableBuffer, /) -> int:
        rest = memoryview(data)
        size = len(rest)
        try:
            while rest and not self._lost:
                rest = rest[self._put(rest) :]
        except OSError as error:
            self._lost = True
            raise OutputLost(error) from error
        return size

    def _put(self, data: memoryview) -> int:
        if self._file is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        written = self._file.write(data)
        if written is None:
            # Another process that shares the descriptor made it non-blocking.
            select.select([], [self._file], [])
        return written or 0
