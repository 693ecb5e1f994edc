"""What a person can set about activity."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivitySettings:
    """Whether activity is recorded, how long it is kept, and from where on it is remarkable.

    large_payload: bytes. near_dlq: attempts left. zombie_factor: overdue by so many times the lock.
    burst_count messages taken by one consumer in burst_within. bulk_operation: messages at once.
    look: how often to look for those who watch while things happen, and record: for the detectors;
    patience: how long to wait to be told of something before looking anyway. look_events bounds one
    look, so that detectors lag under load rather than add to it; kept_per_minute, what is kept of one type of
    anomaly and queue; buffer and buffer_bytes, the updates, and the messages in them, that one slow client may leave unread.
    """

    enabled: bool = True
    retention: timedelta = timedelta(hours=24)
    flash_message: timedelta = timedelta(milliseconds=500)
    large_payload: int = 5000
    long_processing: timedelta = timedelta(seconds=10)
    near_dlq: int = 1
    zombie_factor: float = 2.0
    burst_count: int = 50
    burst_within: timedelta = timedelta(seconds=5)
    bulk_operation: int = 10
    look: timedelta = timedelta(milliseconds=250)
    record: timedelta = timedelta(milliseconds=500)
    patience: timedelta = timedelta(seconds=1)
    look_events: int = 1000
    kept_per_minute: int = 200
    buffer: int = 256
    buffer_bytes: int = 1024 * 1024
    ping: timedelta = timedelta(seconds=15)
