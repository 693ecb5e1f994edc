"""Tells claim pumps, here and in other processes, that a queue may have something for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


class Sleeper(Protocol):
    """Somebody who waits for messages of a queue."""

    def wake(
        self,
        *,
        partitions: Collection[str] | None = None,
        delayed: bool = False,
        plain: bool = False,
    ) -> None:
        """Look again: in these partitions only, if they are given.

        delayed: what came may not be due yet, so that the next due time has changed.
        plain: messages of priority 0 were pushed to these partitions, and that is all.
        """


class Wakeups:
    """Wakes sleepers in memory at once and has `notify` tell other processes."""

    def __init__(self, notify: Callable[[int, bool], None]) -> None:
        self._notify = notify
        self._sleepers: dict[int, list[Sleeper]] = {}
        self._watchers: list[Callable[[], None]] = []

    def watch(self, stir: Callable[[], None]) -> Callable[[], None]:
        """Have `stir` called at every wake-up of any queue; return what ends that."""
        self._watchers.append(stir)
        return lambda: self._watchers.remove(stir)

    def subscribe(self, queue_id: int, sleeper: Sleeper) -> None:
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
    ) -> None:
        for sleeper in self._sleepers.get(queue_id, ()):
            sleeper.wake(partitions=partitions, delayed=delayed, plain=plain)
        self.tell(queue_id, delayed=delayed)

    def tell(self, queue_id: int, *, delayed: bool = False) -> None:
        """Tell everybody but this process's sleepers of the queue."""
        for stir in self._watchers:
            stir()
        self._notify(queue_id, delayed)

    def hear(self, queue_id: int, *, delayed: bool) -> None:
        """Wake for what another process did."""
        for sleeper in self._sleepers.get(queue_id, ()):
            sleeper.wake(delayed=delayed)
        for stir in self._watchers:
            stir()

    def wake_all(self) -> None:
        """Wake everybody: anything may have been missed."""
        for sleepers in self._sleepers.values():
            for sleeper in sleepers:
                sleeper.wake(delayed=True)
        for stir in self._watchers:
            stir()
