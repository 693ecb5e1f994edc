"""Messages encoded or settled together equal those encoded or settled singly."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from uuid import UUID

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from laneway.domain.ids import LARGEST_SEQ
from laneway.domain.messages import ClaimedSpan
from laneway.domain.queues import Queue
from laneway.domain.settings import QueueSettings
from laneway.engine.deliveries import list_deliveries, list_receipts
from laneway.server.lease_tokens import LeaseTokens
from laneway.server.responses import encode
from laneway.server.rest.acks import Ack
from laneway.server.rest.deliveries import DeliveryWriter, DequeueContext
from laneway.server.rest.leases import read_spans
from laneway.server.rest.times import UnixWriter, to_unix
from laneway.server.rest.wire import MessageObject

TOKEN = UUID(int=7)
TOKENS = LeaseTokens(bytes(range(32)))
NOON = datetime(2026, 11, 16, 12, tzinfo=UTC)
QUEUE = Queue(
    queue_id=1,
    name='q"\u0000\u00e4',
    settings=QueueSettings(lease=timedelta(seconds=30)),
    groups={},
    created_at=NOON,
    updated_at=NOON,
)
# One for all, so that it meets locks that are nearly the one before.
WRITER = DeliveryWriter()

bodies = st.sampled_from(['{"a": 1}', '"\u00e4\u20ac"', '"\\u0000"', "[]"])
moments = st.datetimes(datetime(1960, 1, 1), datetime(2100, 1, 1)).map(  # noqa: DTZ001 - zone below
    lambda moment: moment.replace(tzinfo=UTC)
)
leases = st.sampled_from([None, timedelta(seconds=1.5), timedelta(hours=1)])
errors = st.sampled_from([None, 'no "such" address', "\u0000"])


def columns_of(count: int) -> st.SearchStrategy[ClaimedSpan]:
    def column(values: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
        return st.none() | st.lists(values, min_size=count, max_size=count)

    return st.builds(
        ClaimedSpan,
        token=st.just(TOKEN),
        segment=st.integers(1, 99),
        lane=st.integers(1, 99),
        first=st.integers(1, 10**9),
        partition=st.text(max_size=3),
        priority=st.integers(0, 9),
        attempt=st.just(1),
        until=moments,
        positions=st.none() | st.permutations(range(count)),
        attempts=column(st.sampled_from([None, 0, 3])),
        created_at=st.lists(moments, min_size=count, max_size=count),
        leases=column(leases),
        max_attempts=column(st.sampled_from([None, 5])),
        dedup_keys=st.none(),
        headers=st.none(),
        bodies=st.lists(bodies, min_size=count, max_size=count),
        errors=column(errors),
    )


@given(st.integers(1, 4).flatmap(columns_of), leases, st.sampled_from([None, "c\u00e4"]))
def test_batch_is_encoded_like_single_messages(
    span: ClaimedSpan, lease: timedelta | None, consumer: str | None
) -> None:
    written = WRITER.write([span], DequeueContext(QUEUE, consumer, lease, TOKENS))
    apart = []
    for delivery in list_deliveries([span]):
        lasts = lease or delivery.lease or QUEUE.settings.lease
        taken = to_unix(delivery.until - lasts)
        seconds = lasts.total_seconds()
        apart.append(
            MessageObject(
                id=str(delivery.id),
                queue_name=QUEUE.name,
                type=delivery.partition,
                payload=msgspec.Raw(delivery.body),
                priority=delivery.priority,
                status="processing",
                attempt_count=delivery.attempt,
                max_attempts=delivery.max_attempts or QUEUE.settings.max_attempts,
                ack_timeout_seconds=int(seconds) if seconds.is_integer() else seconds,
                lock_token=TOKENS.write(TOKEN, span.lane, span.first, len(span.bodies)),
                locked_until=delivery.until,
                consumer_id=consumer,
                created_at=float(UnixWriter().write([delivery.created_at])[0]),
                dequeued_at=taken,
                acknowledged_at=None,
                last_error=delivery.error,
                payload_size=len(delivery.body.encode()),
                stream_name="queue_processing",
                stream_id=str(delivery.id),
                processing_started_at=taken,
            )
        )
    assert [text.encode() for text in written] == [encode(each) for each in apart]


@given(st.lists(moments))
def test_times_are_unix_seconds_to_the_millisecond(times: list[datetime]) -> None:
    for moment, text in zip(times, UnixWriter().write(times), strict=True):
        assert text == repr(to_unix(moment))
        assert abs(float(text) - moment.timestamp()) < 0.000_501


def test_deliveries_of_several_lanes_are_in_order() -> None:
    spans = [
        make_span(lane=1, positions=[0, 3]),
        make_span(lane=2, positions=[1, 2]),
        make_span(lane=3, positions=None),
    ]
    assert [(each.lane, each.seq) for each in list_deliveries(spans)] == [
        (3, 5),
        (3, 6),
        (1, 5),
        (2, 5),
        (2, 6),
        (1, 6),
    ]
    assert sorted(list_receipts(spans)) == sorted(
        delivery.receipt for delivery in list_deliveries(spans)
    )


def test_ordered_acks_are_encoded_as_spans() -> None:
    other = UUID(int=8)
    acks = [Ack(f"2-3-{seq}", TOKENS.write(TOKEN, 3, 8, 4)) for seq in (9, 10, 11)]
    acks += [Ack(f"2-4-{seq}", TOKENS.write(TOKEN, 4, 1, 2)) for seq in (1, 2)]
    acks += [Ack("2-4-3", TOKENS.write(other, 4, 3))]
    spans = ([TOKEN, TOKEN, other], [3, 4, 4], [9, 1, 3], [11, 2, 3])
    assert read_spans(acks, TOKENS) == spans


OWN = TOKENS.write(TOKEN, 3, 1, 9)


@pytest.mark.parametrize(
    "acks",
    [
        [Ack("2-3-1", None)],
        [Ack("2-3-1", "no token")],
        [Ack("2-3-1", TOKENS.write(TOKEN, 3, 2))],
        [Ack("2-4-1", OWN)],
        [Ack("2-3-01", OWN)],
        [Ack("2-3-1", OWN), Ack("2-3-1", OWN)],
        [Ack("2-3-1", OWN), Ack("2-3-3", OWN)],
        [Ack("2-3-9", OWN), Ack("2-3-10", OWN)],
        [Ack("2-3-1", OWN), Ack("2-3-2", TOKENS.write(TOKEN, 3, 2))],
        [
            Ack(f"2-3-{seq}", TOKENS.write(TOKEN, 3, LARGEST_SEQ))
            for seq in (LARGEST_SEQ, LARGEST_SEQ + 1)
        ],
    ],
)
def test_other_acks_are_encoded_one_by_one(acks: list[Ack]) -> None:
    assert read_spans(acks, TOKENS) is None


def make_span(*, lane: int, positions: list[int] | None) -> ClaimedSpan:
    return ClaimedSpan(
        token=TOKEN,
        segment=2,
        lane=lane,
        first=5,
        partition="",
        priority=0,
        attempt=1,
        until=NOON,
        positions=positions,
        attempts=None,
        created_at=[NOON, NOON],
        leases=None,
        max_attempts=None,
        dedup_keys=None,
        headers=None,
        bodies=["1", "2"],
        errors=None,
    )
