"""How much of everything a run over streams does."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from benchmarks.http.scale import Scale as HttpScale


@dataclass(frozen=True, slots=True)
class Scale(HttpScale):
    """partitions: few, some, many; rate: messages a second of which deliveries are timed; flow: those that groups share."""

    partitions: tuple[int, int, int] = (1, 100, 10_000)
    groups: int = 10
    rate: int = 1_000
    flow: int = 2_000
    # What a turn may take before the first one has shown it: too many waiting do no harm.
    guess: float = 60_000


FULL = Scale()

QUICK = Scale(
    rounds=1,
    turn=timedelta(seconds=1),
    warm_up=timedelta(seconds=1),
    delivery_turn=timedelta(seconds=3),
    partitions=(1, 10, 200),
)
