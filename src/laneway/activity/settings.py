"""Settings of activity recording, detectors and live updates."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorReference:
    """A custom detector to load. target: module:name of it. where: what names it."""

    target: str
    where: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DetectorSettings:
    """The custom detectors, and which detectors are enabled or disabled, whatever their default.

    time_limit: how long a custom detector may take for the events of one read, 100 or so. pause: how
    long one that took longer is not run.
    """

    references: tuple[DetectorReference, ...] = ()
    enable: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()
    time_limit: timedelta = timedelta(seconds=5)
    pause: timedelta = timedelta(minutes=10)


_DETECTORS = DetectorSettings()


@dataclass(frozen=True, slots=True, kw_only=True)
class ActivitySettings:
    """Whether activity is recorded, how long it is stored, and the detectors' thresholds.

    Thresholds. flash_message: time in the queue, at most. large_payload: bytes. long_processing: time
    from claim to ack. near_dlq: attempts left. zombie_factor: time since the lease expired, in lease
    durations. burst_count: messages claimed by one consumer within burst_within. bulk_operation:
    messages of one operation. kept_per_minute: limit of anomalies of one type and queue.

    Reading. look: interval for live updates under load; record: the same for detectors. patience:
    interval without wake-ups. look_events: events of one read, so that detectors lag under load
    rather than add to it.

    Live updates. buffer: unread updates per client. buffer_bytes: of the messages in them. ping:
    interval of keep-alives.
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
    detectors: DetectorSettings = _DETECTORS
