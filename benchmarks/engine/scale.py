"""The sizes of the scenario "engine"."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Scale:
    """The defaults are the sizes that the targets apply to; QUICK only checks that everything works."""

    rounds: int = 40
    calls: int = 25  # per slice and round
    single_calls: int = 100  # the same, where a call carries one message
    bench_rounds: int = 7  # of pgbench, which needs seconds to start
    bench_time: timedelta = timedelta(seconds=5)
    pin_time: timedelta = timedelta(minutes=3)
    pin_beside_time: timedelta = timedelta(minutes=1)
    short_backlog: int = 10_000
    long_backlog: int = 5_000_000
    delayed: int = 1_000_000
    in_flight: int = 100_000
    few_partitions: int = 10
    many_partitions: int = 100_000


FULL = Scale()

QUICK = Scale(
    rounds=8,
    calls=10,
    single_calls=40,
    bench_rounds=3,
    bench_time=timedelta(seconds=1),
    pin_time=timedelta(seconds=20),
    pin_beside_time=timedelta(seconds=15),
    long_backlog=200_000,
    delayed=50_000,
    in_flight=5_000,
    many_partitions=5_000,
)
