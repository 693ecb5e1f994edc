"""Messages in flight at a worker, from claim to settlement. The guard's thread reads them too."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laneway.library.messages import Message

# A handler does not start on a lease with more than this share of its duration gone: it might expire.
_SAFE = 0.75


class LeaseGroup:
    """Messages claimed together, whose leases have the same duration, in seconds.

    since: when the leases were claimed or last extended. stale: when half the lease is over, and
    messages that no handler has started on are released.
    """

    __slots__ = ("lease", "since", "stale")

    def __init__(self, since: float, lease: float) -> None:
        self.set_start(since, lease)

    def set_start(self, since: float, lease: float) -> None:
        self.since = since
        self.lease = lease
        self.stale = since + lease / 2

    def is_safe(self, now: float) -> bool:
        """Return whether the leases last long enough for a handler to start."""
        return now <= self.since + self.lease * _SAFE


class InFlight:
    """The messages in flight, each with its lease group: waiting, being handled, or being settled."""

    def __init__(self) -> None:
        self._lots: dict[Message, LeaseGroup] = {}

    def add(self, taken: Iterable[tuple[Message, LeaseGroup]]) -> None:
        self._lots.update(taken)

    def drop(self, messages: Iterable[Message]) -> None:
        """Remove messages that were settled or lost; their leases are no longer extended."""
        for message in messages:
            self._lots.pop(message, None)

    def group(self) -> dict[LeaseGroup, list[Message]]:
        """Return the messages by lease group. Thread-safe."""
        groups: dict[LeaseGroup, list[Message]] = {}
        for message, lease_group in self._lots.copy().items():
            groups.setdefault(lease_group, []).append(message)
        return groups
