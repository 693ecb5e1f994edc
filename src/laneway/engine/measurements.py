"""Metrics of a broker: what waits in it now, and counters of what it has done."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from laneway.domain.messages import Outcome
from laneway.domain.streams import Fate

if TYPE_CHECKING:
    from collections.abc import Collection

    from laneway.domain.streams import Verdict


class Traffic:
    """Counters of messages, by what happened to them.

    refused: acks and nacks whose lease had ended.
    """

    __slots__ = ("acked", "dead", "delivered", "pushed", "refused", "requeued")

    def __init__(self) -> None:
        self.pushed = 0
        self.delivered = 0
        self.acked = 0
        self.refused = 0
        self.requeued = 0
        self.dead = 0

    def count_acks(self, messages: int, *, refused: int = 0) -> None:
        self.acked += messages - refused
        self.refused += refused

    def count_nacks(self, outcomes: Collection[Outcome]) -> None:
        for outcome in outcomes:
            match outcome:
                case Outcome.REQUEUED:
                    self.requeued += 1
                case Outcome.DEAD:
                    self.dead += 1
                case Outcome.LOST:
                    self.refused += 1

    def count_verdicts(self, verdicts: Collection[Verdict]) -> None:
        for verdict in verdicts:
            self.acked += verdict.implied
            match verdict.fate:
                case Fate.COMPLETED:
                    self.acked += 1
                case Fate.REQUEUED:
                    self.requeued += 1
                case Fate.DEAD:
                    self.dead += 1
                case Fate.LEASE:
                    self.refused += 1
                case _:
                    pass  # it changed nothing, or was settled before


class Measurements(NamedTuple):
    """Connections of the pool and calls that wait for one; what waits in the pumps.

    Then counters: messages by what happened to them (`Traffic`), and calls of the database by pump.
    """

    connections: int
    idle_connections: int
    connection_waiters: int
    push_messages: int
    push_bytes: int
    claim_waiters: int
    settle_messages: int
    pushed: int
    delivered: int
    acked: int
    refused: int
    requeued: int
    dead: int
    push_calls: int
    claim_calls: int
    settle_calls: int
