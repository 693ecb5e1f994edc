"""The producer, on both transports."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from laneway import PayloadRules, RateLimit
from laneway.domain.errors import (
    InvalidId,
    InvalidMessage,
    InvalidPayload,
    InvalidRequest,
    InvalidSetting,
    MessageTooLarge,
    QueueNotFound,
    RateLimited,
)
from laneway.library.rate_limit import TokenBucket

if TYPE_CHECKING:
    from laneway import Connection

MINUTE = timedelta(minutes=1)


@dataclass
class Account:
    password: str


@dataclass
class Hidden:
    raw: msgspec.Raw


class Field(Enum):
    SECRET = "password"  # noqa: S105 - made up


@pytest.mark.parametrize(
    "payload",
    [{"to": "ada", "tags": [1, 2.5, None, True]}, "text", "", 7, None, [], "\x00é\U0001f600"],
)
async def test_payload_is_delivered_unchanged(
    lane: Connection, queue: str, payload: object
) -> None:
    message_id = await lane.producer(queue).enqueue(payload)
    message = await lane.consumer(queue).dequeue()
    assert message is not None
    assert (message.id, message.payload, message.queue) == (message_id, payload, queue)
    assert (message.attempt, message.priority, message.partition) == (1, 0, "")


async def test_message_is_delivered_with_its_options(lane: Connection, queue: str) -> None:
    before = datetime.now(UTC) - MINUTE
    await lane.producer(queue).enqueue(
        {"n": 1}, priority=7, partition="mail", headers={"trace": "abc"}, dedup_key="once"
    )
    message = await lane.consumer(queue).dequeue()
    assert message is not None
    assert (message.priority, message.partition, message.dedup_key) == (7, "mail", "once")
    assert message.headers == {"trace": "abc"}
    assert before < message.created_at < message.locked_until
    assert message.body == '{"n":1}'


async def test_batch_is_pushed_in_order(lane: Connection, queue: str) -> None:
    ids = await lane.producer(queue).batch_enqueue(range(250))
    taken = await lane.consumer(queue).dequeue_many(250)
    assert [message.id for message in taken] == ids
    assert [message.payload for message in taken] == list(range(250))
    assert await lane.producer(queue).batch_enqueue([]) == []


async def test_extend_visibility_extends_the_current_lease(lane: Connection, queue: str) -> None:
    producer = lane.producer(queue)
    message_id = await producer.enqueue(1)
    assert await producer.extend_visibility(message_id, MINUTE) is None
    message = await lane.consumer(queue).dequeue()
    assert message is not None
    until = await producer.extend_visibility(message_id, 10 * MINUTE)
    assert until is not None
    assert until - message.locked_until > 5 * MINUTE


async def test_visibility_is_extended_for_any_group(lane: Connection, queue: str) -> None:
    await lane.admin.create_group(queue, "other")
    producer = lane.producer(queue)
    await producer.enqueue(1)
    message = await lane.consumer(queue, group="other").dequeue()
    assert message is not None
    assert await producer.extend_visibility(message.id, MINUTE) is None
    assert await producer.extend_visibility(message, 10 * MINUTE) is not None
    until = await producer.extend_visibility(message.id, 20 * MINUTE, group="other")
    assert until is not None
    assert until - message.locked_until > 15 * MINUTE


async def test_unknown_queue_is_named(lane: Connection) -> None:
    with pytest.raises(QueueNotFound, match='queue "nowhere" not found'):
        await lane.producer("nowhere").enqueue(1)


async def test_payload_may_have_16_mib(lane: Connection, queue: str) -> None:
    largest = "x" * (16 * 1024 * 1024 - 2)
    await lane.producer(queue).enqueue(largest)
    with pytest.raises(InvalidPayload, match="at most 16777216"):
        await lane.producer(queue).enqueue(largest + "x")
    message = await lane.consumer(queue).dequeue()
    assert message is not None
    assert message.payload == largest
    await lane.admin.update_queue(queue, {"max_bytes": 100})
    with pytest.raises(MessageTooLarge, match="max_bytes"):
        await lane.producer(queue).enqueue("x" * 100)


@pytest.mark.parametrize(
    ("rules", "payload", "said"),
    [
        (PayloadRules(max_bytes=10), {"text": "longer than ten"}, r"\$ is \d+ bytes: at most 10"),
        (PayloadRules(max_depth=2), [[[1]]], r"\$\[0\]\[0\] is nested more than 2 deep"),
        (PayloadRules(max_string=3), {"a": ["four"]}, r"\$\.a\[0\] has 4 characters: at most 3"),
        (
            PayloadRules(forbidden_keys=frozenset({"password"})),
            {"a": [Account(password="secret")]},  # noqa: S106 - made up
            r"\$\.a\[0\]\.password has a forbidden key",
        ),
        (
            PayloadRules(required_keys=frozenset({"name"})),
            Account(password="secret"),  # noqa: S106 - made up
            "lacks name",
        ),
        (PayloadRules(max_string=5), {"a": {"longer than that"}}, r"\$\.a\[0\] has 16 characters"),
        (PayloadRules(), {"a": {float("nan")}}, "is nan"),
        (
            PayloadRules(forbidden_keys=frozenset({"password"})),
            {"a": {"password": 1}},
            r"\$\.a\.password has a forbidden key",
        ),
        *(
            (
                PayloadRules(forbidden_keys=frozenset({"password", "1"})),
                payload,
                r"has a forbidden key",
            )
            for payload in (
                {Field.SECRET: 1},
                {"a": [{"b": 1, Field.SECRET: 1}]},
                {1: 1},
                msgspec.Raw(b'{"password": 1}'),
                {"a": [msgspec.Raw(b'{"password": 1}')]},
                {2: {"a": {Field.SECRET: 1}}},
            )
        ),
        (PayloadRules(required_keys=frozenset({"to", "at"})), {"to": 1}, r"\$ lacks at"),
        (PayloadRules(required_keys=frozenset({"to"})), [1], r"\$ lacks to"),
        (PayloadRules(), {"n": float("nan")}, r"\$\.n is nan"),
        (PayloadRules(), {"f": object()}, "cannot be encoded as JSON"),
        *(
            (
                PayloadRules(required_keys=required),
                payload,
                rf"{place} is a msgspec\.Raw with invalid JSON",
            )
            for required in (frozenset[str](), frozenset({"to"}))
            for payload, place in (
                (msgspec.Raw(b""), r"\$"),
                ({"to": msgspec.Raw(b'1,"password":2')}, r"\$\.to"),
                ({1: [msgspec.Raw(b"NaN")]}, r"\$\.1\[0\]"),
                ({"to": [Hidden(msgspec.Raw(b"{nonsense"))]}, r"\$\.to\[0\]"),
                ({"to": msgspec.Raw(b"[" * 100_000)}, r"\$\.to"),
            )
        ),
    ],
)
async def test_payload_against_a_rule_is_not_pushed(
    lane: Connection, queue: str, rules: PayloadRules, payload: object, said: str
) -> None:
    producer = lane.producer(queue, rules=rules)
    with pytest.raises(InvalidPayload, match=said):
        await producer.enqueue(payload)
    assert await lane.consumer(queue).dequeue() is None


@pytest.mark.parametrize(
    "payload", [{Field.SECRET: 1, 2: 2}, msgspec.Raw(b'{"password": 1, "2": 2}')]
)
async def test_keys_count_as_they_are_written(
    lane: Connection, queue: str, payload: object
) -> None:
    rules = PayloadRules(
        required_keys=frozenset({"password", "2"}), forbidden_keys=frozenset({"secret"})
    )
    await lane.producer(queue, rules=rules).enqueue(payload)
    message = await lane.consumer(queue).dequeue()
    assert message is not None
    assert message.payload == {"password": 1, "2": 2}


@pytest.mark.parametrize(
    "options",
    [
        {"max_bytes": 0},
        {"max_bytes": "many"},
        {"max_bytes": True},
        {"max_depth": 2.5},
        {"forbidden_keys": "password"},
        {"forbidden_keys": frozenset({1})},
        {"required_keys": None},
    ],
)
def test_invalid_rules_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidSetting, match=next(iter(options))):
        PayloadRules(**options)


async def test_headers_that_are_not_json_are_refused(lane: Connection, queue: str) -> None:
    with pytest.raises(InvalidMessage, match=r"headers\.a is a msgspec\.Raw with invalid JSON"):
        await lane.producer(queue).enqueue(1, headers={"a": msgspec.Raw(b"{")})


@pytest.mark.parametrize("bad", ["too long", {"r": msgspec.Raw(b"{bad")}])
async def test_batch_with_one_bad_item_writes_nothing_and_names_it(
    lane: Connection, queue: str, bad: object
) -> None:
    producer = lane.producer(queue, rules=PayloadRules(max_string=5))
    with pytest.raises(InvalidPayload, match="payload 2 of the batch") as caught:
        await producer.batch_enqueue(["a", "b", bad, "c"])
    assert caught.value.index == 2
    assert await lane.consumer(queue).dequeue() is None


async def test_single_payload_is_refused_as_a_batch(lane: Connection, queue: str) -> None:
    for one in (5, "abc", b"abc", {"a": 1}):
        with pytest.raises(InvalidRequest, match="use a list"):
            await lane.producer(queue).batch_enqueue(one)  # type: ignore[arg-type]
    assert await lane.consumer(queue).dequeue() is None


@pytest.mark.parametrize("priority", [-1, 40_000])
async def test_priority_out_of_range_is_refused(
    lane: Connection, queue: str, priority: int
) -> None:
    with pytest.raises(InvalidRequest, match="priority"):
        await lane.producer(queue).enqueue(1, priority=priority)


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 1.5},
        {"priority": True},
        {"priority": "high"},
        {"delay": 5},
        {"delay": timedelta(days=9000 * 365)},
        {"partition": 5},
        {"partition": "a\0b"},
        {"dedup_key": 5},
        {"dedup_key": "\ud800"},
        {"headers": "abc"},
        {"headers": {"n": float("nan")}},
    ],
    ids=str,
)
async def test_option_of_the_wrong_type_is_refused_with_a_clear_message(
    lane: Connection, queue: str, options: dict[str, Any]
) -> None:
    (name,) = options
    with pytest.raises(InvalidRequest, match=name) as caught:
        await lane.producer(queue).enqueue(1, **options)
    assert "query argument" not in str(caught.value)
    assert (await lane.admin.queue_metrics(queue)).total == 0


async def test_name_that_is_not_text_is_refused(lane: Connection) -> None:
    with pytest.raises(InvalidRequest, match="queue name is 5"):
        lane.producer(5)  # type: ignore[arg-type]


async def test_headers_have_a_limit_of_their_own(lane: Connection, queue: str) -> None:
    producer = lane.producer(queue)
    await producer.enqueue(1, headers={"x": "y" * (65_536 - 8)})
    with pytest.raises(MessageTooLarge, match="65537 bytes are too large"):
        await producer.enqueue(1, headers={"x": "y" * (65_536 - 7)})
    with pytest.raises(MessageTooLarge, match="10 at most"):
        await lane.producer(queue, rules=PayloadRules(max_header_bytes=10)).batch_enqueue(
            [1], headers={"x": "123456"}
        )
    with pytest.raises(InvalidMessage, match="nested more than 64"):
        await producer.enqueue(1, headers={"x": nest(70)})
    assert (await lane.admin.queue_metrics(queue)).total == 1


def nest(depth: int) -> list[Any]:
    nested: list[Any] = []
    for _ in range(depth):
        nested = [nested]
    return nested


async def test_visibility_is_not_extended_into_the_past(lane: Connection, queue: str) -> None:
    producer, consumer = lane.producer(queue), lane.consumer(queue)
    await producer.enqueue(1)
    message = await consumer.dequeue(lock_time=MINUTE)
    assert message is not None
    for duration in (-MINUTE, timedelta(0), 5):
        with pytest.raises(InvalidRequest, match="duration is"):
            await producer.extend_visibility(message.id, duration)  # type: ignore[arg-type]
    with pytest.raises(InvalidId, match="'zzz'"):
        await producer.extend_visibility("zzz", MINUTE)
    with pytest.raises(InvalidRequest, match="12 is not a message"):
        await producer.extend_visibility(12, MINUTE)  # type: ignore[arg-type]
    assert await producer.extend_visibility(str(message.id), MINUTE) is not None
    assert await consumer.delete(message)


async def test_rate_limit_reports_the_exact_wait(lane: Connection, queue: str) -> None:
    producer = lane.producer(queue, rate_limit=RateLimit(per_second=0.01, burst=3))
    await producer.batch_enqueue([1, 2, 3])
    with pytest.raises(RateLimited) as caught:
        await producer.enqueue(4)
    assert caught.value.retry_after is not None
    assert timedelta(seconds=50) < caught.value.retry_after < timedelta(seconds=101)
    status = producer.rate_limit_status()
    assert status is not None
    assert (status.per_second, status.burst, status.available) == (0.01, 3, 0)
    assert lane.producer(queue).rate_limit_status() is None


def test_waiting_as_reported_is_enough() -> None:
    now = [0.0]
    bucket = TokenBucket(RateLimit(per_second=7, burst=5), clock=lambda: now[0])
    bucket.take(5)
    for n in range(1, 50):
        with pytest.raises(RateLimited) as caught:
            bucket.take(n % 5 + 1)
        assert caught.value.retry_after is not None
        now[0] += caught.value.retry_after.total_seconds()
        bucket.take(n % 5 + 1)
    assert bucket.status.full_in > timedelta(0)


def test_batch_larger_than_the_burst_passes_over_time() -> None:
    now = [0.0]
    bucket = TokenBucket(RateLimit(per_second=10, burst=5), clock=lambda: now[0])
    bucket.take(25)
    with pytest.raises(RateLimited) as caught:
        bucket.take(25)
    # 20 in debt and a whole burst to come.
    assert caught.value.retry_after == pytest.approx(
        timedelta(seconds=2.5), abs=timedelta(milliseconds=1)
    )
    now[0] += 2.51
    bucket.take(25)


async def test_failed_push_returns_its_tokens(lane: Connection) -> None:
    producer = lane.producer("nowhere", rate_limit=RateLimit(per_second=0.001, burst=1))
    for _ in range(3):
        with pytest.raises(QueueNotFound):
            await producer.enqueue(1)


@pytest.mark.parametrize(
    ("rate", "burst"),
    [(0, 1), (-1, 1), (1, 0), (float("nan"), 1), (float("inf"), 1), (1, 1.5), ("1", 1)],
)
def test_rate_limit_of_zero_is_refused(rate: float, burst: int) -> None:
    with pytest.raises(InvalidSetting):
        RateLimit(rate, burst)


@pytest.mark.parametrize("rate", [1e-20, 5e-324])
def test_rate_limit_may_be_very_low(rate: float) -> None:
    bucket = TokenBucket(RateLimit(rate, 1))
    bucket.take(1)
    with pytest.raises(RateLimited) as caught:
        bucket.take(1)
    assert caught.value.retry_after is not None
    assert bucket.status.full_in > timedelta(days=100_000)
