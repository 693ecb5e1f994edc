"""Activity of a broker: detectors that report anomalies, and live updates."""

from __future__ import annotations

from laneway.activity.detectors import Context, Detector, Finding, Occasion, Registry
from laneway.activity.monitor import Monitor
from laneway.activity.settings import ActivitySettings
from laneway.domain.activity import Event, Severity

__all__ = [
    "ActivitySettings",
    "Context",
    "Detector",
    "Event",
    "Finding",
    "Monitor",
    "Occasion",
    "Registry",
    "Severity",
]
