"""The sizes of the scenario "streams"."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from benchmarks.http.scale import Scale as HttpScale


@dataclass(frozen=True, slots=True)
class Scale(HttpScale):
    """partitions: one, some, many. rate: messages per second of `long-poll`. flow: those of `fan-out`."""

    partitions: tuple[int, int, int] = (1, 100, 10_000)
    groups: int = 10
    rate: int = 1_000
    flow: int = 2_000
    # Expected messages per second that a turn pops, until the first turn has measured it. Too high is harmless.
    guess: float = 60_000


FULL = Scale()

QUICK = Scale(
    rounds=1,
    turn=timedelta(seconds=1),
    warm_up=timedelta(seconds=1),
    delivery_turn=timedelta(seconds=3),
    partitions=(1, 10, 200),
)
