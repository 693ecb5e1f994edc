"""Examination of events: run the detectors, and count messages by consumer."""

from __future__ import annotations

import logging
from collections import deque
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from laneway.activity.detectors import Context, Finding, Occasion
from laneway.domain.activity import Anomaly, ConsumerCount, Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from datetime import timedelta

    from laneway.activity.detectors import Registry
    from laneway.activity.settings import ActivitySettings
    from laneway.domain.activity import Event
    from laneway.domain.queues import Counts

logger = logging.getLogger(__name__)

_OCCASIONS: dict[str, Occasion] = {
    Kind.PUSHED: Occasion.ENQUEUE,
    Kind.CLAIMED: Occasion.DEQUEUE,
    Kind.ACKED: Occasion.ACK,
    Kind.ACK_REFUSED: Occasion.ACK,
    Kind.NACKED: Occasion.NACK,
    Kind.DEAD: Occasion.NACK,
    Kind.EXPIRED: Occasion.TIMEOUT,
    Kind.TIMED_OUT: Occasion.TIMEOUT,
}
_BULK: dict[str, Kind] = {
    Kind.PUSHED: Kind.PUSHED,
    Kind.MOVED: Kind.MOVED,
    Kind.DELETED: Kind.DELETED,
    Kind.DELETED_MANY: Kind.DELETED,
    Kind.PURGED: Kind.PURGED,
    Kind.CLEARED: Kind.PURGED,
}
# How many consumers to remember; beyond that, the ones inactive for longest are dropped.
_MOST_CONSUMERS = 10_000
_MINUTE = 60.0


class _PurgeDetail(msgspec.Struct):
    count: int = 0


class _PushDetail(msgspec.Struct):
    """Detail of a push. largest: messages of the largest request, if it batched several."""

    largest: int | None = None


class Examined(NamedTuple):
    """Result of an examination. contexts: what detectors were asked about, in order."""

    anomalies: list[Anomaly]
    consumers: list[ConsumerCount]
    contexts: list[Context]


class Examiner:
    """Runs detectors on events; remembers recent claims by consumer, and recent anomalies."""

    def __init__(
        self,
        registry: Registry,
        settings: ActivitySettings,
        *,
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._registry = registry
        self._settings = settings
        self._bursts = _Bursts(settings.burst_within)
        self._allowance = _Allowance(settings.kept_per_minute, clock)

    def examine(self, events: Sequence[Event]) -> Examined:
        """Run the registered detectors on events. Pass events in order."""
        contexts: list[Context] = []
        consumers: dict[tuple[int, str], ConsumerCount] = {}
        for event in events:
            occasion = _OCCASIONS.get(event.kind)
            if occasion is None:
                continue
            claimed = 0
            if event.kind == Kind.CLAIMED and event.consumer is not None:
                claimed = self._bursts.add(event.consumer, event.at, event.messages)
                _add_claims(consumers, event, event.consumer)
            contexts.append(
                Context(
                    occasion=occasion,
                    settings=self._settings,
                    event=event,
                    messages=event.messages,
                    claimed=claimed,
                )
            )
        contexts += [
            Context(
                occasion=Occasion.BULK_OPERATION,
                settings=self._settings,
                event=event,
                messages=messages,
            )
            for event, messages in _gather(events)
        ]
        anomalies = [each for context in contexts for each in self._ask(context)]
        return Examined(anomalies, list(consumers.values()), contexts)

    @property
    def looks_periodically(self) -> bool:
        return bool(self._registry.find(Occasion.PERIODIC))

    def look(self, counts: Sequence[Counts], now: datetime) -> Examined:
        """Run the registered periodic detectors on the queues' counts."""
        context = Context(occasion=Occasion.PERIODIC, settings=self._settings, counts=counts)
        return Examined([*self._ask(context, now)], [], [context])

    def is_spent(self, detector: str, context: Context) -> bool:
        """Return whether no more anomalies of this detector are stored for now."""
        event = context.event
        return event is not None and self._allowance.is_spent((detector, event.queue_id))

    def admit(
        self,
        detector: str,
        context: Context,
        findings: Iterable[Finding],
        now: datetime | None = None,
    ) -> Iterable[Anomaly]:
        """Yield the anomalies of the findings, as many as may be stored. now: without an event."""
        event = context.event
        for finding in findings:
            subject = finding.queue if event is None else event.queue_id
            if not self._allowance.take((detector, subject)):
                continue
            facts: dict[str, Any] = {
                "type": detector,
                "severity": finding.severity,
                "description": finding.description,
                "threshold": finding.threshold,
                "actual": finding.actual,
            }
            if event is None:
                ids = {each.queue: each.queue_id for each in context.counts}
                yield Anomaly(
                    **facts,
                    at=now or datetime.now(UTC),
                    kind=context.occasion,
                    queue=finding.queue,
                    queue_id=ids.get(finding.queue or ""),
                )
                continue
            bulk = context.occasion is Occasion.BULK_OPERATION
            yield Anomaly(
                **facts,
                at=event.at,
                kind=event.kind,
                xid=event.xid,
                event_id=event.event_id,
                queue_id=event.queue_id,
                queue=event.queue,
                segment=event.segment,
                lane=event.lane,
                seqs=None if bulk else _choose_seqs(event, finding),
                consumer=event.consumer,
            )

    def _ask(self, context: Context, now: datetime | None = None) -> Iterable[Anomaly]:
        for detector in self._registry.find(context.occasion):
            if self.is_spent(detector.name, context):
                continue
            try:
                found = detector.detect(context)
            except Exception:
                logger.exception("detector %s failed, ignoring it for this event", detector.name)
                continue
            if found is not None:
                findings = [found] if isinstance(found, Finding) else found
                yield from self.admit(detector.name, context, findings, now)


class _Bursts:
    """How many messages each consumer claimed recently, by the database's clock."""

    def __init__(self, within: timedelta) -> None:
        self._within = within
        self._claims: dict[str, deque[tuple[datetime, int]]] = {}

    def add(self, consumer: str, at: datetime, messages: int) -> int:
        claims = self._claims.pop(consumer, None) or deque()
        # Reinserted, so that the consumer active last is at the end.
        self._claims[consumer] = claims
        if len(self._claims) > _MOST_CONSUMERS:
            del self._claims[next(iter(self._claims))]
        claims.append((at, messages))
        while claims[0][0] < at - self._within:
            claims.popleft()
        return sum(count for _, count in claims)


class _Allowance:
    """Limits the anomalies of one type and queue per minute: a permanent condition is no anomaly."""

    def __init__(self, per_minute: int, clock: Callable[[], float]) -> None:
        self._most = per_minute
        self._clock = clock
        self._used: dict[object, int] = {}
        self._until = float("-inf")

    def is_spent(self, sort: object) -> bool:
        return self._used.get(sort, 0) >= self._most and self._clock() < self._until

    def take(self, sort: object) -> bool:
        now = self._clock()
        if now >= self._until:
            self._used.clear()
            self._until = now + _MINUTE
        used = self._used.get(sort, 0)
        if used >= self._most:
            return False
        self._used[sort] = used + 1
        return True


def _add_claims(
    consumers: dict[tuple[int, str], ConsumerCount], event: Event, consumer: str
) -> None:
    key = (event.queue_id, consumer)
    known = consumers.get(key)
    if known is None:
        consumers[key] = ConsumerCount(event.queue_id, consumer, event.messages, event.at)
    else:
        last_at = max(known.last_at, event.at)
        consumers[key] = known._replace(claimed=known.claimed + event.messages, last_at=last_at)


def _gather(events: Sequence[Event]) -> Iterable[tuple[Event, int]]:
    """Combine the events of one call on one queue: the first event, and the number of messages."""
    found: dict[tuple[int, Kind, int], tuple[Event, int]] = {}
    for event in events:
        kind = _BULK.get(event.kind)
        if kind is None:
            continue
        messages = event.messages
        if kind is Kind.PURGED and event.detail is not None:
            messages = msgspec.json.decode(event.detail, type=_PurgeDetail).count
        key = (event.xid, kind, event.queue_id)
        first, before = found.get(key, (event, 0))
        messages += before
        if kind is Kind.PUSHED and event.detail is not None:
            largest = msgspec.json.decode(event.detail, type=_PushDetail).largest
            messages = messages if largest is None else min(messages, largest)
        found[key] = (first, messages)
    return found.values()


def _choose_seqs(event: Event, finding: Finding) -> list[tuple[int, int]] | None:
    if finding.seqs is not None:
        return [(seq, seq) for seq in finding.seqs]
    if event.first_seq is None or event.last_seq is None:
        return None
    return [(event.first_seq, event.last_seq)]
