"""Two costs measured in turns, so that a slower machine slows down both."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import comb
from statistics import median, quantiles
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from benchmarks.cpu import BackendClock
    from benchmarks.progress import Progress


@dataclass(frozen=True, slots=True)
class Cost:
    nanoseconds: int
    messages: int

    @property
    def microseconds(self) -> float:
        """Per message."""
        return self.nanoseconds / self.messages / 1000


# A slice prepares what it needs, then measures some calls.
Slice: TypeAlias = Callable[[], Awaitable[Cost]]


@dataclass(frozen=True, slots=True)
class Comparison:
    """Medians of the rounds. Each round's ratio is our cost divided by the base.

    low, high: the quartiles of the ratios. interval: the 95 % confidence interval of their median,
    None for fewer than six rounds.
    """

    base: float
    ours: float
    ratio: float
    low: float
    high: float
    rounds: int
    interval: tuple[float, float] | None = None


async def measure(
    clock: BackendClock, call: Callable[[], Awaitable[object]], *, calls: int, messages: int
) -> Cost:
    """Return the cost of `calls` calls with `messages` messages each."""
    await clock.settle()
    start = clock.read()
    for _ in range(calls):
        await call()
    await clock.settle()
    return Cost(clock.read() - start, calls * messages)


async def interleave(
    base: Slice, ours: Slice, *, rounds: int, progress: Progress, swap: bool = True
) -> Comparison:
    """Measure base and ours in turns, after one turn each that does not count.

    With `swap`, every other round begins with ours, so that neither has an advantage. Without it,
    ours can claim the messages that the base has just pushed.
    """
    pairs = []
    for number in range(rounds + 1):
        progress.step("round", number, rounds)
        if swap and number % 2:
            ours_cost = await ours()
            base_cost = await base()
        else:
            base_cost = await base()
            ours_cost = await ours()
        pairs.append((base_cost.microseconds, ours_cost.microseconds))
    return compare(pairs[1:])


def compare(pairs: list[tuple[float, float]]) -> Comparison:
    ratios = [ours / base for base, ours in pairs]
    low, _, high = quantiles(ratios, n=4) if len(ratios) > 1 else (ratios[0],) * 3
    return Comparison(
        base=median(base for base, _ in pairs),
        ours=median(ours for _, ours in pairs),
        ratio=median(ratios),
        low=low,
        high=high,
        rounds=len(pairs),
        interval=_find_interval(ratios),
    )


def _find_interval(ratios: list[float]) -> tuple[float, float] | None:
    """Return the confidence interval by order statistics, which assume no distribution."""
    count, outside, chances = len(ratios), 0, 1
    while chances <= 0.025 * 2**count:
        outside += 1
        chances += comb(count, outside)
    ordered = sorted(ratios)
    return (ordered[outside - 1], ordered[-outside]) if outside else None
