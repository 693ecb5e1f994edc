"""What a broker has under way now, and what it has done so far."""

from __future__ import annotations

from typing import NamedTuple


class Measurements(NamedTuple):
    """Connections of the pool and calls that wait for one; what waits in the pumps; their calls."""

    connections: int
    idle_connections: int
    connection_waiters: int
    push_messages: int
    push_bytes: int
    claim_waiters: int
    settle_messages: int
    push_calls: int
    claim_calls: int
    settle_calls: int
