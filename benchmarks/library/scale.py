"""The sizes of the scenario "library"."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Scale:
    """jobs: prefilled, or pushed while the worker runs.

    lone: jobs pushed one at a time to an idle worker. rounds: turns of each worker.
    """

    jobs: int
    lone: int
    rounds: int


FULL = Scale(jobs=100_000, lone=1000, rounds=3)
QUICK = Scale(jobs=5000, lone=20, rounds=1)
