"""Detectors, stored anomalies and live updates, without a database."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from laneway.activity import ActivitySettings, Detector, Finding, Occasion, Registry
from laneway.activity.builtin import DETECTORS, make_registry
from laneway.activity.examination import Examiner
from laneway.activity.feed import Subscription, show_all
from laneway.activity.updates import MOST_IDS, MOST_UPDATES, Change, refresh, summarize
from laneway.domain.activity import Event, Kind, Severity
from laneway.domain.errors import InvalidSetting
from laneway.domain.queues import Counts

if TYPE_CHECKING:
    from laneway.activity import Context
    from laneway.domain.activity import Anomaly

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
MS = timedelta(milliseconds=1)
SECOND = timedelta(seconds=1)
SETTINGS = ActivitySettings()


def event(kind: Kind, **changes: Any) -> Event:
    """Return an event about one message pushed long ago."""
    base = Event(
        xid=1,
        event_id=1,
        at=NOW,
        kind=kind,
        queue_id=1,
        queue="jobs",
        group=None,
        partition="job",
        priority=0,
        segment=2,
        lane=3,
        first_seq=10,
        last_seq=10,
        attempt=1,
        token=None,
        consumer="worker",
        since=None,
        reason=None,
        detail=None,
        first_created=NOW - timedelta(hours=1),
        last_created=NOW - timedelta(hours=1),
        max_attempts=3,
        lease=30 * SECOND,
        large_seqs=None,
        large_sizes=None,
    )
    return base._replace(**changes)


def until(moment: datetime) -> str:
    return f'{{"until": "{moment.isoformat()}"}}'


def examine(*events: Event, **settings: Any) -> list[Anomaly]:
    return Examiner(make_registry(), ActivitySettings(**settings)).examine(events)[0]


# Each detector with what it is about, just beyond its threshold and just not.
CASES: list[tuple[str, Severity, Event, Event | None]] = [
    (
        "flash_message",
        Severity.WARNING,
        event(Kind.CLAIMED, first_created=NOW - 499 * MS, last_created=NOW - 499 * MS),
        event(Kind.CLAIMED, first_created=NOW - 500 * MS, last_created=NOW - 500 * MS),
    ),
    (
        "large_payload",
        Severity.INFO,
        event(Kind.PUSHED, large_seqs=[10], large_sizes=[5001]),
        event(Kind.PUSHED),
    ),
    (
        "long_processing",
        Severity.WARNING,
        event(Kind.ACKED, since=NOW - 10 * SECOND - MS),
        event(Kind.ACKED, since=NOW - 10 * SECOND),
    ),
    ("lock_stolen", Severity.CRITICAL, event(Kind.ACK_REFUSED), event(Kind.ACKED, since=NOW)),
    (
        "near_dlq",
        Severity.WARNING,
        event(Kind.NACKED, attempt=2),
        event(Kind.NACKED, attempt=1),
    ),
    (
        "near_dlq",
        Severity.WARNING,
        event(Kind.EXPIRED, attempt=2),
        event(Kind.EXPIRED, max_attempts=None),
    ),
    (
        "dlq_movement",
        Severity.WARNING,
        event(Kind.DEAD, attempt=3, reason="broken"),
        event(Kind.RELEASED),
    ),
    ("dlq_movement", Severity.WARNING, event(Kind.TIMED_OUT, attempt=3), None),
    (
        "zombie_message",
        Severity.CRITICAL,
        event(Kind.EXPIRED, detail=until(NOW - 60 * SECOND - MS)),
        event(Kind.EXPIRED, detail=until(NOW - 60 * SECOND)),
    ),
    (
        "burst_dequeue",
        Severity.WARNING,
        event(Kind.CLAIMED, last_seq=59),
        event(Kind.CLAIMED, last_seq=58),
    ),
    (
        "bulk_enqueue",
        Severity.INFO,
        event(Kind.PUSHED, last_seq=19),
        event(Kind.PUSHED, last_seq=18),
    ),
    (
        "bulk_enqueue",
        Severity.INFO,
        event(Kind.PUSHED, last_seq=90, detail='{"largest": 10}'),
        event(Kind.PUSHED, last_seq=90, detail='{"largest": 9}'),
    ),
    (
        "bulk_delete",
        Severity.INFO,
        event(Kind.DELETED_MANY, last_seq=19),
        event(Kind.DELETED_MANY, last_seq=18),
    ),
    ("bulk_move", Severity.INFO, event(Kind.MOVED, last_seq=19), event(Kind.MOVED, last_seq=18)),
    (
        "queue_cleared",
        Severity.WARNING,
        event(Kind.PURGED, lane=None, first_seq=None, last_seq=None, detail='{"count": 7}'),
        event(Kind.QUEUE_DELETED),
    ),
]


@pytest.mark.parametrize(("name", "severity", "remarkable", "_"), CASES)
def test_anomalies_are_found(name: str, severity: Severity, remarkable: Event, _: object) -> None:
    [anomaly] = [each for each in examine(remarkable) if each.type == name]
    assert anomaly.severity == severity
    assert anomaly.description
    assert (anomaly.queue, anomaly.event_id, anomaly.at) == ("jobs", 1, NOW)


@pytest.mark.parametrize(
    ("name", "ordinary"), [(name, ordinary) for name, _, _, ordinary in CASES if ordinary]
)
def test_ordinary_events_are_no_anomalies(name: str, ordinary: Event) -> None:
    assert [each for each in examine(ordinary) if each.type == name] == []


def test_every_detector_has_a_case() -> None:
    assert {name for name, *_ in CASES} == {detector.name for detector in DETECTORS}
    assert len(DETECTORS) == 12


@pytest.mark.parametrize(
    ("settings", "happened"),
    [
        ({"flash_message": 2 * timedelta(hours=1)}, event(Kind.CLAIMED)),
        ({"long_processing": MS}, event(Kind.ACKED, since=NOW - SECOND)),
        ({"near_dlq": 2}, event(Kind.NACKED)),
        ({"zombie_factor": 0.5}, event(Kind.EXPIRED, detail=until(NOW - 16 * SECOND))),
        ({"burst_count": 1}, event(Kind.CLAIMED)),
        ({"bulk_operation": 1}, event(Kind.PUSHED)),
    ],
)
def test_thresholds_are_settings(settings: dict[str, Any], happened: Event) -> None:
    assert examine(happened) == []
    assert len(examine(happened, **settings)) == 1


def test_anomaly_names_its_messages() -> None:
    young, old = NOW - MS, NOW - timedelta(hours=1)
    whole = event(Kind.CLAIMED, last_seq=12, first_created=young, last_created=young)
    part = event(Kind.CLAIMED, last_seq=12, first_created=old, last_created=young)
    large = event(Kind.PUSHED, last_seq=12, large_seqs=[12, 10], large_sizes=[9000, 6000])
    assert [(anomaly.seqs, anomaly.actual) for anomaly in examine(whole, part, large)] == [
        ([(10, 12)], 1),
        ([(12, 12)], 1),
        ([(12, 12)], 9000),
        ([(10, 10)], 6000),
    ]


def test_burst_is_reported_once_and_again_after_a_pause() -> None:
    takes = [event(Kind.CLAIMED, at=NOW + n * MS, last_seq=19) for n in range(8)]
    later = [take._replace(at=take.at + timedelta(minutes=1)) for take in takes]
    anomalies = examine(*takes, *later)
    assert [(each.type, each.actual) for each in anomalies] == [("burst_dequeue", 50)] * 2


def test_burst_is_counted_per_consumer() -> None:
    takes = [event(Kind.CLAIMED, last_seq=34, consumer=name) for name in ("a", "b", "a")]
    assert [anomaly.consumer for anomaly in examine(*takes)] == ["a"]


def test_events_of_one_call_count_together() -> None:
    together = [event(Kind.DELETED_MANY, event_id=n, first_seq=n, last_seq=n) for n in range(10)]
    apart = [each._replace(xid=n) for n, each in enumerate(together)]
    elsewhere = [each._replace(queue_id=n) for n, each in enumerate(together)]
    assert [anomaly.actual for anomaly in examine(*together)] == [10]
    assert examine(*apart) == []
    assert examine(*elsewhere) == []


def test_consumers_of_a_claim_are_added_up() -> None:
    takes = [
        event(Kind.CLAIMED, last_seq=12),
        event(Kind.CLAIMED, at=NOW + SECOND),
        event(Kind.CLAIMED, queue_id=2),
        event(Kind.CLAIMED, consumer=None),
    ]
    consumers = Examiner(make_registry(), SETTINGS).examine(takes)[1]
    assert [tuple(count) for count in consumers] == [
        (1, "worker", 4, NOW + SECOND),
        (2, "worker", 1, NOW),
    ]


def test_stored_anomalies_per_minute_are_limited() -> None:
    clock = [0.0]
    settings = ActivitySettings(kept_per_minute=3)
    examiner = Examiner(make_registry(), settings, clock=lambda: clock[0])
    refused = [event(Kind.ACK_REFUSED)] * 5
    assert len(examiner.examine(refused)[0]) == 3
    assert len(examiner.examine([event(Kind.ACK_REFUSED, queue_id=2)])[0]) == 1
    clock[0] = 59.9
    assert examiner.examine(refused)[0] == []
    clock[0] = 60.0
    assert len(examiner.examine(refused)[0]) == 3


def find_priority(context: Context) -> Finding | None:
    if context.event is None or (context.event.priority or 0) < 5:
        return None
    return Finding(severity=Severity.WARNING, description="high priority")


def make_detector(**changes: Any) -> Detector:
    given: dict[str, Any] = {
        "name": "high_priority_flood",
        "description": "Many messages of high priority",
        "events": frozenset({Occasion.ENQUEUE}),
        "detect": find_priority,
    }
    return Detector(**given | changes)


def test_custom_detector_gets_its_events() -> None:
    registry = Registry([make_detector()])
    examiner = Examiner(registry, SETTINGS)
    happened = [event(Kind.PUSHED, priority=9), event(Kind.CLAIMED, priority=9)]
    assert [each.type for each in examiner.examine(happened)[0]] == ["high_priority_flood"]


def test_detector_can_be_disabled() -> None:
    registry = make_registry()
    registry.register(make_detector(enabled_by_default=False))
    assert not registry.is_enabled("high_priority_flood")
    registry.set_enabled("high_priority_flood", enabled=True)
    registry.set_enabled("lock_stolen", enabled=False)
    examiner = Examiner(registry, SETTINGS)
    happened = [event(Kind.PUSHED, priority=9), event(Kind.ACK_REFUSED)]
    assert [each.type for each in examiner.examine(happened)[0]] == ["high_priority_flood"]
    assert len(registry.get_detectors()) == 13


def test_unknown_and_duplicate_detectors_are_refused() -> None:
    registry = make_registry()
    with pytest.raises(InvalidSetting, match="use one of flash_message, "):
        registry.set_enabled("flash", enabled=True)
    with pytest.raises(InvalidSetting, match="already"):
        registry.register(make_detector(name="flash_message"))


def test_failing_detector_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: Context) -> None:
        raise RuntimeError

    registry = Registry([make_detector(name="broken", detect=fail), make_detector()])
    anomalies = Examiner(registry, SETTINGS).examine([event(Kind.PUSHED, priority=9)]).anomalies
    assert [each.type for each in anomalies] == ["high_priority_flood"]
    assert "detector broken failed" in caplog.text


def test_periodic_detector_sees_the_queues() -> None:
    def find_deep(context: Context) -> Finding | None:
        deep = [each.queue for each in context.counts if each.queued > 5]
        if not deep:
            return None
        return Finding(severity=Severity.INFO, description="deep", queue=deep[0])

    counts = Counts(
        group_id=1,
        queue_id=4,
        queue="jobs",
        group="default",
        queued=6,
        delayed=0,
        processing=0,
        acknowledged=0,
        dead=0,
        archived=0,
        oldest=None,
        newest=None,
    )
    deep = make_detector(name="deep", events=frozenset({Occasion.PERIODIC}), detect=find_deep)
    examiner = Examiner(Registry([deep]), SETTINGS)
    assert examiner.looks_periodically
    [anomaly] = examiner.look([counts], NOW).anomalies
    assert (anomaly.type, anomaly.queue_id, anomaly.event_id) == ("deep", 4, None)


def ids(*seqs: int) -> list[str]:
    return [f"2-3-{seq}" for seq in seqs]


@pytest.mark.parametrize(
    ("kind", "detail", "change", "status"),
    [
        (Kind.PUSHED, None, "enqueue", "queued"),
        (Kind.CLAIMED, None, "dequeue", "processing"),
        (Kind.ACKED, None, "acknowledge", "acknowledged"),
        (Kind.NACKED, None, "requeue", "queued"),
        (Kind.RELEASED, None, "requeue", "queued"),
        (Kind.EXPIRED, until(NOW), "requeue", "queued"),
        (Kind.DEAD, None, "move_to_dlq", "dead"),
        (Kind.TIMED_OUT, until(NOW), "move_to_dlq", "dead"),
        (Kind.MOVED, None, "requeue", "queued"),
        (Kind.MOVED, '{"from": "queued", "to": "archived"}', "archive", "archived"),
        (Kind.MOVED, '{"from": "queued", "to": "dead"}', "move_to_dlq", "dead"),
        (Kind.DELETED, '{"from": "queued", "to": "deleted"}', "delete", "deleted"),
    ],
)
def test_event_becomes_an_update(kind: Kind, detail: str | None, change: str, status: str) -> None:
    [update] = summarize([event(kind, detail=detail)])
    assert (update.change, update.status, update.total) == (change, status, 1)
    assert list(map(str, update.ids)) == ids(10)
    assert not update.force_refresh


def test_adjacent_equal_events_become_one_update() -> None:
    updates = summarize(
        [
            event(Kind.PUSHED, last_seq=11),
            event(Kind.PUSHED, first_seq=12, last_seq=12),
            event(Kind.CLAIMED),
            event(Kind.PUSHED, queue="other", first_seq=20, last_seq=20),
        ]
    )
    assert [(each.change, each.queue, each.total) for each in updates] == [
        (Change.ENQUEUE, "jobs", 3),
        (Change.DEQUEUE, "jobs", 1),
        (Change.ENQUEUE, "other", 1),
    ]
    assert list(map(str, updates[0].ids)) == ids(10, 11, 12)


def test_too_many_messages_become_a_refresh() -> None:
    first = event(Kind.PUSHED, first_seq=1, last_seq=MOST_IDS)
    [named] = summarize([first])
    one_more = event(Kind.PUSHED, first_seq=MOST_IDS + 1, last_seq=MOST_IDS + 1)
    [joined] = summarize([first, one_more])
    assert len(named.ids) == MOST_IDS
    assert (joined.ids, joined.force_refresh) == ((), True)


def test_too_many_updates_are_shortened() -> None:
    turns = [event(Kind.PUSHED), event(Kind.CLAIMED)] * MOST_UPDATES
    updates = summarize(turns)
    assert [(each.change, each.total, each.force_refresh) for each in updates] == [
        (Change.ENQUEUE, MOST_UPDATES, True),
        (Change.DEQUEUE, MOST_UPDATES, True),
    ]


def test_purge_is_reported_with_its_count() -> None:
    purged = event(Kind.PURGED, lane=None, first_seq=None, last_seq=None, detail='{"count": 7}')
    assert summarize([purged]) == [refresh(Change.DELETE, "jobs", NOW, 7)]


def test_other_groups_cause_no_updates() -> None:
    assert summarize([event(Kind.ACKED, group="audit"), event(Kind.QUEUE_CREATED)]) == []


async def test_slow_client_gets_only_a_refresh() -> None:
    subscription = Subscription(limit=3, limit_bytes=1000, show=show_all)
    updates = [refresh(Change.ENQUEUE, "jobs", NOW, n) for n in range(5)]
    for update in updates:
        subscription.put(update)
    assert await subscription.take(timedelta(0)) == refresh(Change.ENQUEUE, None, NOW)
    assert await subscription.take(timedelta(0)) == updates[4]
    assert await subscription.take(timedelta(0)) is None
