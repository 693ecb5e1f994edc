"""What one ordered group has in hand here, so that only what is worth asking for is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

# Beyond this many partitions or lanes the knowledge is dropped: then everything may have changed.
LIMIT = 100_000


@dataclass(slots=True, eq=False)
class Hold:
    """A lane in hand. left: messages that are not settled, 0 where that is not sure.

    more: others may lie behind them. since: how often the group had been stirred when the claim was sent.
    """

    resume: Callable[[Hold], None]
    partition: str
    left: int
    more: bool
    since: int


class Holds:
    """The lanes in hand by partition, and which partitions were stirred since they were taken.

    A memory only: whatever is not sure counts as stirred.
    """

    def __init__(self) -> None:
        self._in_hand: dict[str, Hold] = {}
        self._stirred: dict[str, int] = {}
        self._all_stirred = 0
        self.stirs = 0

    def take(self, hold: Hold) -> None:
        if len(self._in_hand) >= LIMIT:
            self._in_hand.clear()
        self._in_hand[hold.partition] = hold

    def finish(self, hold: Hold) -> bool:
        """Forget a lane of which all is settled; return whether something may be left in it."""
        if self._in_hand.get(hold.partition) is hold:
            del self._in_hand[hold.partition]
        return (
            hold.more
            or self._all_stirred > hold.since
            or self._stirred.get(hold.partition, 0) > hold.since
        )

    def stir(self, partitions: Collection[str]) -> list[str]:
        """Note that messages came; return the partitions that are not in hand."""
        self.stirs += 1
        if len(self._stirred) + len(partitions) > LIMIT:
            self._stirred.clear()
            self._all_stirred = self.stirs
        self._stirred.update(dict.fromkeys(partitions, self.stirs))
        return [partition for partition in partitions if partition not in self._in_hand]

    def loosen(self, partitions: Collection[str]) -> None:
        """Note that lanes may have come free."""
        self.stir(partitions)
        for partition in partitions:
            hold = self._in_hand.pop(partition, None)
            if hold is not None:
                hold.left = 0

    def loosen_all(self) -> None:
        """Note that anything may have changed."""
        self.stirs += 1
        self._all_stirred = self.stirs
        self._stirred.clear()
        for hold in self._in_hand.values():
            hold.left = 0
        self._in_hand.clear()
