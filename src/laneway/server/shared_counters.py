"""Numbers that the worker processes of one server share, each in a place of its own."""

from __future__ import annotations

import mmap
import tempfile
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from typing import IO

# Numbers per worker, far more than there are; the last ones are the gateway's.
WIDTH = 16_384
_GATEWAY = WIDTH - 4_096
_BYTES = 8


class Sheet:
    """A row of numbers per worker, in memory that all of them map.

    A worker writes its own row only, so nothing needs a lock; one that is started again goes on
    with the row of the one before, so that counters never fall.
    """

    def __init__(self, file: IO[bytes], *, workers: int) -> None:
        self.file = file
        self.workers = workers
        self._map = mmap.mmap(file.fileno(), workers * WIDTH * _BYTES)
        self._cells = memoryview(self._map).cast("d")

    @classmethod
    def make(cls, *, workers: int) -> Self:
        file = tempfile.TemporaryFile(prefix="laneway-")  # noqa: SIM115 - lives as long as the sheet
        file.truncate(workers * WIDTH * _BYTES)
        return cls(file, workers=workers)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    def row(self, worker: int) -> memoryview[float]:
        return self._find(worker)[:_GATEWAY]

    def rows(self) -> list[memoryview[float]]:
        return [self.row(worker) for worker in range(self.workers)]

    def gateway_row(self, worker: int) -> memoryview[float]:
        return self._find(worker)[_GATEWAY:]

    def gateway_rows(self) -> list[memoryview[float]]:
        return [self.gateway_row(worker) for worker in range(self.workers)]

    def _find(self, worker: int) -> memoryview[float]:
        return self._cells[worker * WIDTH : (worker + 1) * WIDTH]
