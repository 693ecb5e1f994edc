"""Signals that stop workers. They belong to the process and reach all workers in it."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ENDS = (signal.SIGTERM, signal.SIGINT)

# The functions that the signals call. A loop has one handler per signal, so its workers share it.
_stops: list[Callable[[], object]] = []


@contextmanager
def stopped_by_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call `stop` at every SIGTERM and Ctrl-C. Only on the main thread's running event loop."""
    loop = asyncio.get_running_loop()
    if not _stops:
        for number in _ENDS:
            loop.add_signal_handler(number, _stop_all)
    _stops.append(stop)
    try:
        yield
    finally:
        _stops.remove(stop)
        if not _stops:
            for number in _ENDS:
                loop.remove_signal_handler(number)


def _stop_all() -> None:
    for stop in _stops:
        stop()
