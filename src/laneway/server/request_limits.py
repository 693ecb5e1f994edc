"""Limits on concurrent requests of each kind, so that one kind leaves capacity for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.server.errors import ServerBusy

if TYPE_CHECKING:
    from laneway.server.settings import Limits


class Room:
    """The concurrent requests of one kind.

    what: their name in errors. setting: the setting that raises the limit, if there is one.
    """

    __slots__ = ("limit", "setting", "used", "what")

    def __init__(self, limit: int, what: str, setting: str | None = None) -> None:
        self.limit = limit
        self.used = 0
        self.what = what
        self.setting = setting

    def enter(self) -> None:
        """Count one more request, or raise ServerBusy."""
        if self.used >= self.limit:
            advice = "" if self.setting is None else f", or raise {self.setting}"
            raise ServerBusy(
                f"too many {self.what} ({self.limit} at most in one process): retry later{advice}"
            )
        self.used += 1

    def leave(self) -> None:
        self.used -= 1


class Rooms:
    """The limits of one process. Health checks have none: they answer while all limits are reached.

    requests: those that do not wait. waits: long polls. documents: what is served without a key.
    events: event streams of callers with a key, or where none is required. hints: event streams
    without a key.
    """

    def __init__(self, limits: Limits) -> None:
        self.requests = Room(limits.requests, "concurrent requests")
        self.waits = Room(limits.long_polls, "long polls", "LANEWAY_MAX_LONG_POLLS")
        self.documents = Room(limits.documents, "concurrent requests for documents")
        self.events = Room(limits.event_streams, "event streams", "LANEWAY_MAX_EVENT_STREAMS")
        self.hints = Room(
            limits.anonymous_event_streams,
            "event streams without a key",
            "LANEWAY_MAX_ANONYMOUS_EVENT_STREAMS",
        )
