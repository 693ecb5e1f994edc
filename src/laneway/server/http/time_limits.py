"""Ends connections whose clients exceed a time limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

from laneway.server.http.connection import Phase

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laneway.server.http.connection import Connection
    from laneway.server.settings import Limits


class TimeLimits:
    """Checks all connections at once, so that no request pays for a timer."""

    def __init__(self, limits: Limits) -> None:
        self._phases = {
            Phase.HEADERS: limits.headers_within.total_seconds(),
            Phase.BODY: limits.body_within.total_seconds(),
            Phase.SERVING: float("inf"),
            Phase.IDLE: limits.keep_alive.total_seconds(),
            Phase.LEAVING: limits.linger.total_seconds(),
        }
        self._unread = limits.write_stall.total_seconds()
        self._silent = limits.linger_silent.total_seconds()

    def enforce(self, connections: Iterable[Connection], now: float) -> None:
        """End each connection that is beyond a limit at this time of the event loop."""
        for connection in connections:
            phase = connection.phase
            late = now - connection.since > self._phases[phase]
            unread = connection.unread_since
            if unread is not None and now - unread > self._unread:
                connection.transport.abort()
            elif phase is Phase.LEAVING:
                if late or now - connection.heard_at > self._silent:
                    connection.transport.abort()
            elif late and phase is Phase.IDLE:
                connection.transport.close()
            elif late:
                connection.time_out()
