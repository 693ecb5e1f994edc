"""What a worker has in hand, from when it is taken until it is settled: looked at by the guard's thread too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laneway.library.messages import Message

# A lock that was not extended for this part of its time is not begun with: it might end meanwhile.
_SAFE = 0.75


class Lot:
    """Messages taken together, with locks of one length, in seconds.

    stale: when those of them that were not begun go back, half the lock being over. since: when the
    locks were taken or last extended.
    """

    __slots__ = ("lease", "since", "stale")

    def __init__(self, since: float, lease: float) -> None:
        self.date(since, lease)

    def date(self, since: float, lease: float) -> None:
        self.since = since
        self.lease = lease
        self.stale = since + lease / 2

    def is_safe(self, now: float) -> bool:
        """Whether the locks last long enough for their messages to be begun with."""
        return now <= self.since + self.lease * _SAFE


class Holdings:
    """Each message in hand, with its lot: one that waits, is handled, or is on its way back."""

    def __init__(self) -> None:
        self._lots: dict[Message, Lot] = {}

    def add(self, taken: Iterable[tuple[Message, Lot]]) -> None:
        self._lots.update(taken)

    def drop(self, messages: Iterable[Message]) -> None:
        """Forget what was settled or lost; its lock is not extended any more."""
        for message in messages:
            self._lots.pop(message, None)

    def group(self) -> dict[Lot, list[Message]]:
        """Return the messages by their lots, as they are now; may be called by any thread."""
        groups: dict[Lot, list[Message]] = {}
        for message, lot in self._lots.copy().items():
            groups.setdefault(lot, []).append(message)
        return groups
