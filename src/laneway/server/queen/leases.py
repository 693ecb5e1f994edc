"""The unsettled messages that this process returned: which message each transaction id means.

A cache, so that acks of messages popped from this process need no look-up. Other acks ask the
database.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.messages import Token

# Above this many messages, or characters of their ids, the oldest leases are dropped.
LIMIT = 200_000
LIMIT_CHARACTERS = 16 * 1024 * 1024


class LeasedMessages(NamedTuple):
    """A lease's messages of one lane: the sequence number of each transaction id."""

    token: Token
    seqs: dict[str, int]


# For a lane whose messages only the database can identify.
_UNCLEAR = LeasedMessages("", {})


class Lease(NamedTuple):
    """The messages of one pop; a lane may have several spans, with one token or several.

    committing: an ack of one message also acks those before it; see laneway.settle_stream.
    """

    queue: str
    group: str
    spans: dict[str, LeasedMessages]
    partitions: dict[str, str]
    committing: bool = False

    def add(self, lane: str, token: Token, names: Sequence[str], first: int) -> None:
        """Add the messages from sequence number `first` on.

        If two messages of the lane have the same transaction id, or its spans have several tokens,
        acks of the lane ask the database. So they do if offsets are committed and the spans are not
        in order.
        """
        seqs = dict(zip(names, range(first, first + len(names)), strict=True))
        if len(seqs) < len(names):
            self.spans[lane] = _UNCLEAR
        elif lane not in self.spans:
            self.spans[lane] = LeasedMessages(token, seqs)
        else:
            other, known = self.spans[lane]
            behind = not known or next(reversed(known.values())) < first
            ordered = behind or not self.committing
            if other == token and ordered and known.keys().isdisjoint(seqs):
                known.update(seqs)
            else:
                self.spans[lane] = _UNCLEAR


class Leases:
    """Leases by id. A lane is named by its partitionId."""

    def __init__(self, limit: int = LIMIT, limit_characters: int = LIMIT_CHARACTERS) -> None:
        self._limit = limit
        self._limit_characters = limit_characters
        self._leases: OrderedDict[str, Lease] = OrderedDict()
        self._messages = 0
        self._characters = 0

    def __len__(self) -> int:
        return self._messages

    def remember(self, lease_id: str, lease: Lease) -> None:
        for lane in [lane for lane, span in lease.spans.items() if span is _UNCLEAR]:
            del lease.spans[lane]
        if not lease.spans:
            return
        self._leases[lease_id] = lease
        self._messages += _size(lease)
        self._characters += _count_characters(lease)
        while (
            self._messages > self._limit or self._characters > self._limit_characters
        ) and self._leases:
            _, oldest = self._leases.popitem(last=False)
            self._messages -= _size(oldest)
            self._characters -= _count_characters(oldest)

    def find(self, lease_id: str) -> Lease | None:
        return self._leases.get(lease_id)

    def settle(self, lease_id: str, lane: str, keys: list[str]) -> bool:
        """Drop settled messages; return whether the lease has none left in the lane."""
        lease = self._leases.get(lease_id)
        span = lease.spans.get(lane) if lease is not None else None
        if lease is None or span is None:
            return False
        before = len(span.seqs)
        for key in keys:
            if span.seqs.pop(key, None) is not None:
                self._characters -= len(key)
        self._messages -= before - len(span.seqs)
        if span.seqs:
            return False
        del lease.spans[lane]
        if not lease.spans:
            del self._leases[lease_id]
        return True

    def forget(self, lease_id: str) -> None:
        """Drop a lease that was settled in part: from now on, its acks ask the database."""
        lease = self._leases.pop(lease_id, None)
        if lease is not None:
            self._messages -= _size(lease)
            self._characters -= _count_characters(lease)


def _size(lease: Lease) -> int:
    return sum(len(span.seqs) for span in lease.spans.values())


def _count_characters(lease: Lease) -> int:
    return sum(sum(map(len, span.seqs)) for span in lease.spans.values())
