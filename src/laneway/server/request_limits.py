"""How many requests of a kind may be under way, so that one kind leaves room for the others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.server.errors import ServerBusy

if TYPE_CHECKING:
    from laneway.server.settings import Limits


class Room:
    """Requests of one kind. what: their name in errors. setting: what sets the limit, if anything."""

    __slots__ = ("limit", "setting", "used", "what")

    def __init__(self, limit: int, what: str, setting: str | None = None) -> None:
        self.limit = limit
        self.used = 0
        self.what = what
        self.setting = setting

    def enter(self) -> None:
        """Count one more, or raise ServerBusy."""
        if self.used >= self.limit:
            advice = "" if self.setting is None else f", or raise {self.setting}"
            raise ServerBusy(
                f"too many {self.what} ({self.limit} at most in one process): retry later{advice}"
            )
        self.used += 1

    def leave(self) -> None:
        self.used -= 1


class Rooms:
    """One per process. Health has no limit: it has to answer when all rooms are full.

    requests: those that only work. waits: long polls. documents: what is read without a key.
    events: streams of those who have a key, or need none; hints: of those who have none.
    """

    def __init__(self, limits: Limits) -> None:
        self.requests = Room(limits.requests, "requests under way")
        self.waits = Room(limits.long_polls, "long polls", "MAX_LONG_POLLS")
        self.documents = Room(limits.documents, "requests for documents under way")
        self.events = Room(limits.event_streams, "event streams", "MAX_EVENT_STREAMS")
        self.hints = Room(
            limits.anonymous_event_streams,
            "event streams without a key",
            "MAX_ANONYMOUS_EVENT_STREAMS",
        )
