"""What this process handed out and has not seen settled: which message a transaction id means.

A memory only, so that an acknowledgement of what was handed out here costs no look-up. What it does
not know, the database does.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.domain.messages import Token

# Beyond so many messages, or characters of their ids, the oldest leases are forgotten.
LIMIT = 200_000
LIMIT_CHARACTERS = 16 * 1024 * 1024


class Span(NamedTuple):
    """What a lease holds of one lane: the place of each message by its transaction id."""

    token: Token
    seqs: dict[str, int]


# Of a lane that only the database can tell the messages of.
_UNCLEAR = Span("", {})


class Lease(NamedTuple):
    """What one pop was answered with; a lane may come in several spans of one token or of several."""

    queue: str
    group: str
    spans: dict[str, Span]
    partitions: dict[str, str]

    def hold(self, lane: str, token: Token, names: Sequence[str], first: int) -> None:
        """Add the messages from `first` on.

        Where two in the lane are called alike, or its spans have tokens of their own, it is the
        database that tells them apart.
        """
        seqs = dict(zip(names, range(first, first + len(names)), strict=True))
        if len(seqs) < len(names):
            self.spans[lane] = _UNCLEAR
        elif lane not in self.spans:
            self.spans[lane] = Span(token, seqs)
        else:
            held, known = self.spans[lane]
            if held == token and known.keys().isdisjoint(seqs):
                known.update(seqs)
            else:
                self.spans[lane] = _UNCLEAR


class Leases:
    """Leases by their ids; a lane is what clients call its partitionId."""

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
        """Forget messages that are settled; return whether nothing is left of the lane."""
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
        """Forget a lease of which something went back: what it holds now, only the database knows."""
        lease = self._leases.pop(lease_id, None)
        if lease is not None:
            self._messages -= _size(lease)
            self._characters -= _count_characters(lease)


def _size(lease: Lease) -> int:
    return sum(len(span.seqs) for span in lease.spans.values())


def _count_characters(lease: Lease) -> int:
    return sum(sum(map(len, span.seqs)) for span in lease.spans.values())
