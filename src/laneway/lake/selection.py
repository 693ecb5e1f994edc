"""The queues, partitions and priorities that a read selects."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

_WILD = ("*", "?", "[")


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """A selection; None means all. queues, partitions: names and patterns. priorities: inclusive ranges."""

    queues: tuple[str, ...] | None = None
    partitions: tuple[str, ...] | None = None
    priorities: tuple[tuple[int, int], ...] | None = None

    def covers_queue(self, name: str) -> bool:
        return self.queues is None or _matches(name, self.queues)

    def covers_lane(self, partition: str, priority: int) -> bool:
        """Return whether a lane of the selected queues is selected."""
        return (self.partitions is None or _matches(partition, self.partitions)) and (
            self.priorities is None or any(low <= priority <= high for low, high in self.priorities)
        )

    def list_missing(self, names: Sequence[str]) -> list[str]:
        """Return the queues that are named without a pattern and do not exist."""
        return [
            queue
            for queue in self.queues or ()
            if queue not in names and not any(sign in queue for sign in _WILD)
        ]


EVERYTHING = Choice()


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(name == pattern or fnmatchcase(name, pattern) for pattern in patterns)
