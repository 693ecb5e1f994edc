"""Periodic jobs as the broker stores them."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple


class ScheduleInfo(NamedTuple):
    """A periodic job, known by its name and its queue.

    fired_for: the newest of its times that was fired; fired_at: when it was. None before the first.
    paused_at: None unless it is paused.
    """

    name: str
    queue: str
    expression: str
    fired_for: datetime | None
    fired_at: datetime | None
    paused_at: datetime | None
