"""The leases of one ordered group in this process, so that claims ask only for free partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

# Above this many partitions or lanes, the cache is cleared: then any of them may have changed.
LIMIT = 100_000


@dataclass(slots=True, eq=False)
class LaneLease:
    """A lease on a lane. left: messages that are not settled, 0 if that is not certain.

    more: there may be messages behind them. since: the group's count of changes when the claim was
    sent.
    """

    resume: Callable[[LaneLease], None]
    partition: str
    left: int
    more: bool
    since: int


class LaneLeases:
    """The leases by partition, and the partitions that may have changed since they were claimed.

    A cache: whatever is not certain counts as changed.
    """

    def __init__(self) -> None:
        self._leased: dict[str, LaneLease] = {}
        self._changed: dict[str, int] = {}
        self._all_changed = 0
        self.changes = 0

    def add(self, lease: LaneLease) -> None:
        if len(self._leased) >= LIMIT:
            self._leased.clear()
        self._leased[lease.partition] = lease

    def finish(self, lease: LaneLease) -> bool:
        """Drop a settled lease; return whether its lane may have more messages."""
        if self._leased.get(lease.partition) is lease:
            del self._leased[lease.partition]
        return (
            lease.more
            or self._all_changed > lease.since
            or self._changed.get(lease.partition, 0) > lease.since
        )

    def note_pushed(self, partitions: Collection[str]) -> list[str]:
        """Record new messages; return the partitions that are not leased."""
        self.changes += 1
        if len(self._changed) + len(partitions) > LIMIT:
            self._changed.clear()
            self._all_changed = self.changes
        self._changed.update(dict.fromkeys(partitions, self.changes))
        return [partition for partition in partitions if partition not in self._leased]

    def note_freed(self, partitions: Collection[str]) -> None:
        """Record that lanes may be free."""
        self.note_pushed(partitions)
        for partition in partitions:
            lease = self._leased.pop(partition, None)
            if lease is not None:
                lease.left = 0

    def note_all_freed(self) -> None:
        """Record that any lane may have changed."""
        self.changes += 1
        self._all_changed = self.changes
        self._changed.clear()
        for lease in self._leased.values():
            lease.left = 0
        self._leased.clear()
