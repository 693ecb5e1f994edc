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


class Messenger(Protocol):
    """Who tells other processes of a queue; delayed: what came may not be due yet."""

    def await_wakes(self) -> None:
        """Hear from now on what other processes tell; what was missed before is looked for."""

    def tell_wake(self, queue_id: int, delayed: bool) -> None:  # noqa: FBT001 - called per push
        """Tell them soon, together with what else there is to tell."""

    def write_notice(self, queue_id: int, delayed: bool) -> str | None:  # noqa: FBT001 - as above
        """Return what a push may carry along to tell them, or nothing where it better does not."""

    def note_told(self) -> None:
        """Take note that a push has told them."""


class Wakeups:
    """Wakes sleepers in memory at once and has the messenger tell other processes."""

    def __init__(self, messenger: Messenger) -> None:
        self._messenger = messenger
        self._sleepers: dict[int, list[Sleeper]] = {}
        self._watchers: list[Callable[[], None]] = []

    def watch(self, stir: Callable[[], None]) -> Callable[[], None]:
        """Have `stir` called at every wake-up of any queue; return what ends that."""
        self._messenger.await_wakes()
        self._watchers.append(stir)
        return lambda: self._watchers.remove(stir)

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
        told: bool = False,
    ) -> None:
        """Wake who waits; told: other processes were told by the push itself."""
        for sleeper in self._sleepers.get(queue_id, ()):
            sleeper.wake(partitions=partitions, delayed=delayed, plain=plain)
        self.tell(queue_id, delayed=delayed, told=told)

    def tell(self, queue_id: int, *, delayed: bool = False, told: bool = False) -> None:
        """Tell everybody but this process's sleepers of the queue."""
        for stir in self._watchers:
            stir()
        if told:
            self._messenger.note_told()
        else:
            self._messenger.tell_wake(queue_id, delayed)

    def write_notice(self, queue_id: int, *, delayed: bool) -> str | None:
        """Return what a push to the queue may carry along, so that it need not be told apart."""
        return self._messenger.write_notice(queue_id, delayed)

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
