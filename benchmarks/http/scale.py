"""The sizes of the scenarios "http", "sqs" and "gateway"."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Scale:
    """The defaults are the sizes that the targets apply to; QUICK only checks that everything works."""

    rounds: int = 3
    turn: timedelta = timedelta(seconds=8)
    warm_up: timedelta = timedelta(seconds=2)
    delivery_turn: timedelta = timedelta(seconds=20)
    idle_polls: int = 2_000
    idle_time: timedelta = timedelta(seconds=20)
    profile_time: timedelta = timedelta(seconds=15)


FULL = Scale()

QUICK = Scale(
    rounds=1,
    turn=timedelta(seconds=1),
    warm_up=timedelta(seconds=1),
    delivery_turn=timedelta(seconds=3),
    idle_polls=200,
    idle_time=timedelta(seconds=4),
    profile_time=timedelta(seconds=4),
)
