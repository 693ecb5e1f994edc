"""Recording of anomalies: the maintenance leader runs the detectors on all events."""

from __future__ import annotations

import asyncio
import logging
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from laneway.activity.custom_detectors import CustomDetectors
from laneway.activity.detector_process import FAILED
from laneway.activity.detectors import Occasion
from laneway.activity.examination import Examiner
from laneway.activity.pulse import Pulse
from laneway.domain.activity import Anomaly, Severity
from laneway.domain.errors import LanewayError, Retryable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.activity.detectors import Context, Registry
    from laneway.activity.settings import ActivitySettings
    from laneway.domain.activity import Snapshot
    from laneway.engine import Broker

logger = logging.getLogger(__name__)

_MINUTE = 60.0
_SWEPT_AT_ONCE = 10_000
# The events of one interval are read in this many parts: requests wait while a part is examined.
_PARTS = 10


class ReadResult(NamedTuple):
    """Result of one read. seen: the position after it. busy: it returned events. more: others remain."""

    seen: Snapshot
    busy: bool
    more: bool


class Recorder:
    """Examines each event once; continues at the stored position of the previous leader.

    Two processes that both consider themselves leader do no harm: storing a position that another
    has stored fails.
    """

    def __init__(self, broker: Broker, settings: ActivitySettings, registry: Registry) -> None:
        self._broker = broker
        self._settings = settings
        self._examiner = Examiner(registry, settings)
        self._custom = CustomDetectors(settings)
        self._tidy_at = float("-inf")

    async def run(self) -> None:
        settings = self._settings
        with Pulse(self._broker, soon=settings.record, patience=settings.patience) as pulse:
            while True:
                await self._broker.leads_maintenance.wait()
                try:
                    await self._follow(pulse)
                except Retryable as error:
                    logger.debug("cannot examine events, retrying: %s", error)
                except LanewayError:
                    logger.exception("cannot examine events, retrying")
                await asyncio.sleep(settings.patience.total_seconds())

    async def _follow(self, pulse: Pulse) -> None:
        await self._broker.activity.set_event_retention(self._settings.retention)
        seen = await self._broker.activity.find_place()
        async with self._custom:
            await self._examine_from(seen, pulse)

    async def _examine_from(self, seen: Snapshot, pulse: Pulse) -> None:
        while self._broker.leads_maintenance.is_set():
            seen, busy, more = await self.look(seen)
            if monotonic() >= self._tidy_at:
                self._tidy_at = monotonic() + _MINUTE
                seen = await self._tidy(seen)
            if more:
                await asyncio.sleep(self._settings.record.total_seconds() / _PARTS)
            else:
                await pulse.rest(busy=busy)

    async def look(self, seen: Snapshot) -> ReadResult:
        """Examine one part of the events since `seen`, and store the anomalies."""
        settings = self._settings
        look = await self._broker.activity.follow(
            seen, limit=max(1, settings.look_events // _PARTS), large=settings.large_payload
        )
        if not look.events:
            return ReadResult(seen, busy=False, more=False)
        examined = self._examiner.examine(look.events)
        anomalies = [*examined.anomalies, *await self._ask_custom(examined.contexts)]
        stored = await self._broker.activity.store(
            seen, look.seen, anomalies=anomalies, consumers=examined.consumers
        )
        if not stored:
            return ReadResult(await self._broker.activity.find_place(), busy=True, more=look.more)
        return ReadResult(look.seen, busy=True, more=look.more)

    async def _tidy(self, seen: Snapshot) -> Snapshot:
        """Run the periodic detectors, and delete activity past its retention."""
        if self._examiner.looks_periodically or self._custom.look_periodically:
            counts = await self._broker.statistics.counts()
            examined = self._examiner.look(counts, datetime.now(UTC))
            anomalies = [*examined.anomalies, *await self._ask_custom(examined.contexts)]
            if not await self._broker.activity.store(seen, seen, anomalies=anomalies, consumers=()):
                return await self._broker.activity.find_place()
        await self._broker.activity.sweep(limit=_SWEPT_AT_ONCE)
        return seen

    async def _ask_custom(self, contexts: Sequence[Context]) -> list[Anomaly]:
        """Run the custom detectors; return the anomalies, and one for each detector that failed."""
        asked = await self._custom.ask(contexts, self._examiner.is_spent)
        anomalies = [
            anomaly
            for each in asked.found
            for anomaly in self._examiner.admit(each.detector, each.context, each.findings)
        ]
        return anomalies + [
            Anomaly(
                type=FAILED,
                severity=Severity.WARNING,
                description=failure,
                threshold=None,
                actual=None,
                at=datetime.now(UTC),
                kind=Occasion.PERIODIC,
            )
            for failure in asked.failures
        ]
