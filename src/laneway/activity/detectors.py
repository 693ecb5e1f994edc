"""What a detector is, and which there are."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from laneway.domain.errors import InvalidSetting

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from laneway.activity.settings import ActivitySettings
    from laneway.domain.activity import Event, Severity
    from laneway.domain.queues import Counts


class Occasion(StrEnum):
    """When a detector is asked: at an event, for all that one call did together, or each minute."""

    ENQUEUE = "enqueue"
    DEQUEUE = "dequeue"
    ACK = "ack"
    NACK = "nack"
    BULK_OPERATION = "bulk_operation"
    TIMEOUT = "timeout"
    PERIODIC = "periodic"


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a detector may look at.

    event: None for a periodic look, which has `counts` instead. messages: how many the event, or
    the whole operation, was about. taken: how many its consumer took lately, this event included.
    """

    occasion: Occasion
    settings: ActivitySettings
    event: Event | None = None
    messages: int = 0
    taken: int = 0
    counts: Sequence[Counts] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """Something remarkable. seqs: the messages it is about; None: all that the event is about.

    queue: for a periodic look, the queue it is about.
    """

    severity: Severity
    description: str
    threshold: float | None = None
    actual: float | None = None
    seqs: Sequence[int] | None = None
    queue: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Detector:
    """Looks at what happened, after the fact; its findings are anomalies of the type `name`.

    detect answers one finding, several where messages differ, or None.
    """

    name: str
    description: str
    events: frozenset[Occasion]
    detect: Callable[[Context], Finding | Sequence[Finding] | None]
    enabled_by_default: bool = True


class Registry:
    """The detectors that there are, and which of them are asked."""

    def __init__(self, detectors: Iterable[Detector] = ()) -> None:
        self._detectors: dict[str, Detector] = {}
        self._enabled: set[str] = set()
        self._asked: dict[Occasion, tuple[Detector, ...]] = {}
        for detector in detectors:
            self.register(detector)

    def register(self, detector: Detector) -> None:
        if detector.name in self._detectors:
            raise InvalidSetting(f'there is a detector "{detector.name}" already')
        self._detectors[detector.name] = detector
        if detector.enabled_by_default:
            self._enabled.add(detector.name)
        self._asked.clear()

    def set_enabled(self, name: str, enabled: bool) -> None:  # noqa: FBT001 - as the name says
        if name not in self._detectors:
            known = ", ".join(self._detectors)
            raise InvalidSetting(f'there is no detector "{name}": choose one of {known}')
        if enabled:
            self._enabled.add(name)
        else:
            self._enabled.discard(name)
        self._asked.clear()

    def get_detectors(self) -> list[Detector]:
        return list(self._detectors.values())

    def is_enabled(self, name: str) -> bool:
        return name in self._enabled

    def find(self, occasion: Occasion) -> tuple[Detector, ...]:
        """Return those to ask at an occasion."""
        asked = self._asked.get(occasion)
        if asked is None:
            asked = self._asked[occasion] = tuple(
                detector
                for name, detector in self._detectors.items()
                if name in self._enabled and occasion in detector.events
            )
        return asked
