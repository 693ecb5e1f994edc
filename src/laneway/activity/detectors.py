"""Detectors of anomalies, their input and output, and the registry of those in use."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from laneway.domain.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from laneway.activity.settings import ActivitySettings, DetectorSettings
    from laneway.domain.activity import Event, Severity
    from laneway.domain.queues import Counts


class Occasion(StrEnum):
    """When a detector runs: at an event, for the events of one bulk call, or once a minute."""

    ENQUEUE = "enqueue"
    DEQUEUE = "dequeue"
    ACK = "ack"
    NACK = "nack"
    BULK_OPERATION = "bulk_operation"
    TIMEOUT = "timeout"
    PERIODIC = "periodic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The input of a detector.

    event: None for a periodic check, which has `counts` instead. messages: number of messages that
    the event, or the whole operation, concerns. claimed: number of messages that its consumer claimed
    recently, including this event.
    """

    occasion: Occasion
    settings: ActivitySettings
    event: Event | None = None
    messages: int = 0
    claimed: int = 0
    counts: Sequence[Counts] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """An anomaly found. seqs: the messages it concerns; None: all messages of the event.

    queue: for a periodic check, the queue that it concerns.
    """

    severity: Severity
    description: str
    threshold: float | None = None
    actual: float | None = None
    seqs: Sequence[int] | None = None
    queue: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detector:
    """Checks recorded events; its findings are anomalies of the type `name`.

    events: the occasions at which it runs. detect: returns one finding, several, or None.
    """

    name: str
    description: str
    events: frozenset[Occasion]
    detect: Callable[[Context], Finding | Sequence[Finding] | None]
    enabled_by_default: bool = True


class Registry:
    """The registered detectors, and which of them are enabled."""

    def __init__(self, detectors: Iterable[Detector] = ()) -> None:
        self._detectors: dict[str, Detector] = {}
        self._enabled: set[str] = set()
        self._asked: dict[Occasion, tuple[Detector, ...]] = {}
        for detector in detectors:
            self.register(detector)

    def register(self, detector: Detector) -> None:
        if detector.name in self._detectors:
            raise InvalidSetting(f'detector "{detector.name}" already exists: use another name')
        self._detectors[detector.name] = detector
        if detector.enabled_by_default:
            self._enabled.add(detector.name)
        self._asked.clear()

    def set_enabled(self, name: str, enabled: bool) -> None:  # noqa: FBT001 - as the name says
        if name not in self._detectors:
            known = ", ".join(self._detectors)
            raise InvalidSetting(f'detector "{name}" not found: use one of {known}')
        if enabled:
            self._enabled.add(name)
        else:
            self._enabled.discard(name)
        self._asked.clear()

    def get_detectors(self) -> list[Detector]:
        return list(self._detectors.values())

    def is_enabled(self, name: str) -> bool:
        return name in self._enabled

    def apply(self, settings: DetectorSettings) -> None:
        """Enable and disable the detectors that the settings name and that are registered."""
        for names, enabled in ((settings.enable, True), (settings.disable, False)):
            for name in self._detectors.keys() & set(names):
                self.set_enabled(name, enabled)

    def find(self, occasion: Occasion) -> tuple[Detector, ...]:
        """Return the enabled detectors for an occasion."""
        asked = self._asked.get(occasion)
        if asked is None:
            asked = self._asked[occasion] = tuple(
                detector
                for name, detector in self._detectors.items()
                if name in self._enabled and occasion in detector.events
            )
        return asked
