"""The sizes of the scenario "spark"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """messages: in the log, of 200 bytes. written: rows for the sink. history: events, fewest first."""

    messages: int = 2_000_000
    rounds: int = 3
    written: int = 2_000_000
    history: tuple[int, ...] = (1_000_000, 4_000_000)
    reading_seconds: float = 15.0


FULL = Scale()
QUICK = Scale(
    messages=100_000, rounds=1, written=20_000, history=(15_000, 60_000), reading_seconds=3.0
)
