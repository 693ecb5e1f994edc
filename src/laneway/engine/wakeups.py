"""Wakes claim pumps, here and in other processes, when a queue may have messages for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class Sleeper(Protocol):
    """A pump that waits for messages of a queue."""

    def wake(
        self,
        *,
        partitions: Collection[str] | None = None,
        delayed: bool = False,
        plain: bool = False,
    ) -> None:
        """Check for messages: in these partitions only, if they are given.

        delayed: messages may not be due yet, so the next due time has changed. plain: only messages
        of priority 0 were pushed to these partitions.
        """


class Messenger(Protocol):
    """Announces wake-ups to other processes; delayed: messages may not be due yet."""

    def await_wakes(self) -> None:
        """Receive other processes' wake-ups from now on; missed ones are checked for."""

    def tell_wake(self, queue_id: int, delayed: bool) -> None:  # noqa: FBT001 - called per push
        """Announce soon, together with other announcements."""

    def write_notice(self, queue_id: int, delayed: bool) -> str | None:  # noqa: FBT001 - as above
        """Return a notification for a push to carry, or nothing if it should not."""

    def note_notified(self) -> None:
        """Record that a push has notified the other processes."""


class Wakeups:
    """Wakes sleepers of this process at once, and has the messenger notify other processes."""

    def __init__(self, messenger: Messenger) -> None:
        self._messenger = messenger
        self._sleepers: dict[int, list[Sleeper]] = {}
        self._watchers: list[Callable[[], None]] = []

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` at every wake-up of any queue; return a function that ends this."""
        self._messenger.await_wakes()
        self._watchers.append(callback)
        return lambda: self._watchers.remove(callback)

    def subscribe(self, queue_id: int, sleeper: Sleeper) -> None:
        self._messenger.await_wakes()
        self._sleepers.setdefault(queue_id, []).append(sleeper)

    def unsubscribe(self, queue_id: int, sleeper: Sleeper) -> None:
        sleepers = self._sleepers.get(queue_id, [])
        if sleeper in sleepers:
            sleepers.remove(sleeper)
        if not sleepers:
            self._sleepers.pop(queue_id, None)

    def wake(
        self,
        queue_id: int,
        *,
        partitions: Collection[str] | None = None,
        delayed: bool = False,
        plain: bool = False,
        notified: bool = False,
    ) -> None:
        """Wake the sleepers of a queue; notified: the push itself has notified other processes."""
        for sleeper in self._sleepers.get(queue_id, ()):
            sleeper.wake(partitions=partitions, delayed=delayed, plain=plain)
        self.notify_others(queue_id, delayed=delayed, notified=notified)

    def notify_others(
        self, queue_id: int, *, delayed: bool = False, notified: bool = False
    ) -> None:
        """Notify all processes but this one."""
        for callback in self._watchers:
            callback()
        if notified:
            self._messenger.note_notified()
        else:
            self._messenger.tell_wake(queue_id, delayed)

    def write_notice(self, queue_id: int, *, delayed: bool) -> str | None:
        """Return a notification that a push to the queue may carry, to save a separate one."""
        return self._messenger.write_notice(queue_id, delayed)

    def hear(self, queue_id: int, *, delayed: bool) -> None:
        """Wake sleepers because of another process's notification."""
        for sleeper in self._sleepers.get(queue_id, ()):
            sleeper.wake(delayed=delayed)
        for callback in self._watchers:
            callback()

    def wake_all(self) -> None:
        """Wake every sleeper: any notification may have been missed."""
        for sleepers in self._sleepers.values():
            for sleeper in sleepers:
                sleeper.wake(delayed=True)
        for callback in self._watchers:
            callback()
