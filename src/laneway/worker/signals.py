"""Signals that end workers: they are the process's, and reach all that run in it."""

from __future__ import annotations

import asyncio
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_ENDS = (signal.SIGTERM, signal.SIGINT)

# What the signals call. A loop has one handler for each signal, so those who share the loop share it.
_stops: list[Callable[[], None]] = []


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Have SIGTERM and Ctrl-C call `stop`, each time they come; on the main thread's running loop."""
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
