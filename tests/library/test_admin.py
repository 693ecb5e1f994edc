"""The admin, on both transports. Workers are rows here, without a program."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

import laneway
from laneway import QueueSettings, Status
from laneway.domain.errors import (
    GroupNotFound,
    InvalidRequest,
    InvalidSetting,
    InvalidStateTransition,
    Misconfigured,
    QueueExists,
    QueueNotEmpty,
    QueueNotFound,
    ResultNotFound,
    WorkerBusy,
    WorkerNotFound,
)
from laneway.domain.messages import Outcome
from laneway.domain.workers import WorkerIdentity, WorkerState
from tests.library.conftest import QUIET
from tests.postgres import execute, name_database

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from laneway import Connection
    from tests.library.conftest import Place

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)


async def register(
    lane: Connection, queue: str, *, timeout: timedelta = MINUTE, state: WorkerState | None = None
) -> str:
    worker_id = f"mailer.{uuid4().hex[:8]}"
    identity = WorkerIdentity(worker_id, "mailer", "host-1", 4711, [queue], timeout)
    await lane.backend.workers.register(identity)
    if state is not None:
        await lane.backend.workers.step(worker_id, state)
    return worker_id


async def test_installed_schema_verifies(lane: Connection) -> None:
    assert await lane.install() == (await lane.admin.system_stats()).version
    assert await lane.verify() == []
    assert await lane.admin.verify() == []


async def test_schema_difference_is_reported(lane: Connection, place: Place) -> None:
    await execute(place.dsn, "create table laneway.mine (n int)")
    try:
        assert await lane.verify() == [
            "table mine is not shipped: remove it, or keep it in a schema of your own"
        ]
    finally:
        await execute(place.dsn, "drop table laneway.mine")
    assert await lane.verify() == []


async def test_queue_is_created_once(lane: Connection) -> None:
    name = f"made-{uuid4().hex[:8]}"
    settings = QueueSettings(lease=MINUTE, max_attempts=7, options={"a": [1]})
    made = await lane.admin.create_queue(name, settings)
    assert (made.name, made.settings) == (name, settings)
    with pytest.raises(QueueExists):
        await lane.admin.create_queue(name)
    assert await lane.admin.get_queue(name) == made
    assert name in [queue.name for queue in await lane.admin.list_queues()]
    changed = await lane.admin.update_queue(name, {"max_attempts": 2, "backoff": SECOND})
    assert (changed.settings.max_attempts, changed.settings.lease) == (2, MINUTE)
    await lane.admin.delete_queue(name)
    with pytest.raises(QueueNotFound):
        await lane.admin.get_queue(name)


async def test_invalid_setting_creates_no_queue(lane: Connection) -> None:
    with pytest.raises(InvalidSetting):
        await lane.admin.create_queue("never", QueueSettings(max_attempts=0))
    with pytest.raises(QueueNotFound):
        await lane.admin.get_queue("never")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"max_attempts": 0}, r'setting "max_attempts" is invalid: 0\. Give a number of 1'),
        ({"max_attempts": -5}, r'setting "max_attempts" is invalid: -5'),
        ({"max_attempts": 99_999_999_999}, r"is invalid: 99999999999\. Give .* at most 32767"),
        ({"max_bytes": 2**31}, r'"max_bytes" is invalid: 2147483648\. Give .* at most 2147483647'),
        ({"max_attempts": True}, r"got `bool` - at `\$\.max_attempts`"),
        ({"lease": 5}, r"got `int` - at `\$\.lease`"),
        ({"lease": timedelta(0)}, r'setting "lease" is invalid: .*\. It must be positive'),
        ({"backoff_factor": 0.5}, r'"backoff_factor" is invalid: 0\.5\. Give a number of 1'),
        ({"retention_step": MINUTE}, r"needs a retention"),
        ({"backoff_factor": float("nan")}, r'setting "backoff_factor" is nan: use a finite number'),
        ({"backoff_factor": float("inf")}, r'setting "backoff_factor" is inf: use a finite number'),
        (
            {"retention": timedelta(days=999_999)},
            r'setting "retention" is too long: .*\. The limit is 1000 years',
        ),
        ({"options": {"a": object()}}, r"wrong type"),
        ({"options": {"a": {1}}}, r"wrong type"),
        ({"options": {"a": [float("nan")]}}, r"wrong type"),
        ({"colour": "red"}, r'setting "colour" is unknown'),
        ({"kind": "unlogged"}, r"cannot be changed after the queue"),
    ],
)
async def test_invalid_change_is_refused_and_changes_nothing(
    lane: Connection, queue: str, changes: Any, words: str
) -> None:
    before = await lane.admin.get_queue(queue)
    with pytest.raises(InvalidSetting, match=words) as caught:
        await lane.admin.update_queue(queue, changes)
    assert "constraint" not in str(caught.value)
    assert await lane.admin.get_queue(queue) == before


async def test_queue_without_a_name_is_refused(lane: Connection) -> None:
    with pytest.raises(InvalidSetting, match="a queue's name must not be empty"):
        await lane.admin.create_queue("")
    for name in (5, None, "a\0b"):
        with pytest.raises(InvalidRequest, match="queue name is"):
            await lane.admin.create_queue(name)  # type: ignore[arg-type]
    with pytest.raises(InvalidSetting, match="use a QueueSettings"):
        await lane.admin.create_queue("never", {"lease": MINUTE})  # type: ignore[arg-type]


WRONG: list[tuple[str, Callable[[Connection, str], Awaitable[Any]]]] = [
    ("status is 'bogus'", lambda lane, queue: lane.admin.messages(queue, "bogus")),  # type: ignore[arg-type]
    ("limit is -1", lambda lane, queue: lane.admin.messages(queue, limit=-1)),
    ("offset is 'x'", lambda lane, queue: lane.admin.dlq_list(queue, offset="x")),  # type: ignore[arg-type]
    ("status is 'bogus'", lambda lane, queue: lane.admin.purge_queue(queue, status="bogus")),  # type: ignore[arg-type]
    ("limit is", lambda lane, queue: lane.admin.dlq_replay(queue, limit=["x"])),  # type: ignore[arg-type]
    ("age is 5", lambda lane, _: lane.admin.purge_old_workers(5)),  # type: ignore[arg-type]
    ("age is 5", lambda lane, _: lane.admin.purge_runs(5)),  # type: ignore[arg-type]
    ("timeout is 5", lambda lane, _: lane.admin.reclaim_dead(5)),  # type: ignore[arg-type]
    ("timeout is 5", lambda lane, _: lane.admin.worker_health(5)),  # type: ignore[arg-type]
    ("status is 'bogus'", lambda lane, _: lane.admin.list_runs(status="bogus")),  # type: ignore[arg-type]
    ("worker id is 5", lambda lane, _: lane.admin.suspend_worker(5)),  # type: ignore[arg-type]
    ("start of a group is 'x'", lambda lane, queue: lane.admin.create_group(queue, "g", start="x")),  # type: ignore[arg-type]
    ("start of a group", lambda lane, queue: lane.admin.create_group(queue, "g", start=[])),  # type: ignore[arg-type]
    ("ordered is", lambda lane, queue: lane.admin.create_group(queue, "g", ordered=[])),  # type: ignore[arg-type]
    ("worker id is 5", lambda lane, _: lane.admin.get_worker(5)),  # type: ignore[arg-type]
    ("group name is 5", lambda lane, queue: lane.admin.dlq_list(queue, group=5)),  # type: ignore[arg-type]
    ("ordered is 5", lambda lane, queue: lane.admin.create_group(queue, "g", ordered=5)),  # type: ignore[arg-type]
    ("workflow name is 5", lambda lane, _: lane.start(5)),  # type: ignore[arg-type]
    ("is not a message", lambda lane, _: lane.job_result(5)),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("words", "call"), WRONG)
async def test_argument_of_the_wrong_kind_is_named(
    lane: Connection,
    queue: str,
    words: str,
    call: Callable[[Connection, str], Awaitable[Any]],
) -> None:
    with pytest.raises(InvalidRequest, match=words):
        await call(lane, queue)


async def test_unknown_result_is_reported(lane: Connection) -> None:
    with pytest.raises(ResultNotFound, match="result of message 2-1-999 not found"):
        await lane.job_result("2-1-999")


@pytest.mark.parametrize(
    "address",
    [
        "host=db dbname=mail password=geheim",
        "geheim",
        "ftp://me:geheim@db",
        "http://me:geheim@host:port",
        "http://:geheim@",
        "",
    ],
)
async def test_invalid_url_is_refused_without_printing_it(address: str) -> None:
    with pytest.raises(InvalidRequest, match="such as ") as caught:
        async with laneway.connect(address):
            pass
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("special", ["@", "/", "#", "?", "["])
async def test_invalid_dsn_is_refused_without_printing_it(special: str) -> None:
    dsn = f"postgresql://me:ge{special}heim@db:5432/mail"
    async with laneway.connect(dsn, settings=QUIET) as lane:
        assert "heim" not in repr(lane.target)
        with pytest.raises(Misconfigured, match="Percent-encode") as caught:
            await lane.admin.list_queues()
    assert not {"ge", "'ge'", "heim"} & set(str(caught.value).split())
    assert caught.value.__cause__ is None


async def test_missing_database_is_not_reported_as_unreachable(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    dsn = name_database(place.dsn, "nowhere")
    async with laneway.connect(dsn, settings=QUIET) as lane:
        with pytest.raises(
            Misconfigured, match=r'database "nowhere" does not exist .*create it: create database'
        ):
            await lane.admin.list_queues()
    assert "away" not in caplog.text


async def test_connection_needs_an_address() -> None:
    with pytest.raises(InvalidRequest, match="address is a NoneType"):
        laneway.connect(None)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match="api_key is not a str"):
        laneway.connect("http://127.0.0.1:1", api_key=5)  # type: ignore[arg-type]


async def test_queue_with_messages_is_deleted_only_by_force(lane: Connection, queue: str) -> None:
    await lane.producer(queue).enqueue(1)
    with pytest.raises(QueueNotEmpty):
        await lane.admin.delete_queue(queue)
    await lane.admin.delete_queue(queue, force=True)
    with pytest.raises(QueueNotFound):
        await lane.admin.delete_queue(queue)


async def test_purge_empties(lane: Connection, queue: str) -> None:
    await lane.producer(queue).batch_enqueue(range(7))
    assert await lane.admin.purge_queue(queue) == 7
    assert await lane.consumer(queue).dequeue() is None


async def test_metrics_count_each_state(lane: Connection, queue: str) -> None:
    await lane.producer(queue).batch_enqueue(range(6))
    await lane.producer(queue).enqueue_delayed(6, MINUTE)
    consumer = lane.consumer(queue)
    first, second, third, _ = await consumer.dequeue_many(4)
    await consumer.delete(first)
    await consumer.archive(second)
    await consumer.fail(third, "no use", dead=True)
    metrics = await lane.admin.queue_metrics(queue)
    assert metrics.queue == queue
    assert (metrics.total, metrics.pending, metrics.locked) == (4, 3, 1)
    assert (metrics.archived, metrics.dead, metrics.acknowledged) == (1, 1, 1)
    assert metrics.oldest is not None
    assert metrics.newest is not None
    assert metrics.oldest <= metrics.newest
    assert metrics.pushed_per_second > 0
    assert metrics.settled_per_second > 0
    assert metrics.queue in [item.queue for item in await lane.admin.all_queues_metrics()]
    stats = await lane.admin.system_stats()
    assert stats.queues >= 1
    assert stats.pending >= 3
    assert stats.bytes > 0
    with pytest.raises(QueueNotFound):
        await lane.admin.queue_metrics("nowhere")


async def test_dead_letters_are_listed_replayed_and_purged(lane: Connection, queue: str) -> None:
    await lane.producer(queue).batch_enqueue(range(3))
    consumer = lane.consumer(queue)
    for message in await consumer.dequeue_many(3):
        await consumer.fail(message, f"reason {message.payload}", dead=True)
    dead = await lane.admin.dlq_list(queue)
    assert sorted(item.error or "" for item in dead) == ["reason 0", "reason 1", "reason 2"]
    assert len(await lane.admin.dlq_list(queue, limit=1)) == 1
    assert await lane.admin.dlq_replay(queue, limit=1) == 1
    again = await consumer.dequeue()
    assert again is not None
    assert (again.payload, again.attempt) == (0, 1)
    assert await lane.admin.dlq_purge(queue) == 2
    assert await lane.admin.messages(queue, Status.DEAD) == []


async def test_every_group_has_its_own_messages_and_dead_letters(
    lane: Connection, queue: str
) -> None:
    admin, other = lane.admin, lane.consumer(queue, group="other")
    await admin.create_group(queue, "other")
    await lane.producer(queue).batch_enqueue([1, 2, 3])
    for message in await other.dequeue_many(2):
        assert await other.fail(message, "bad", dead=True) is Outcome.DEAD
    assert await admin.dlq_list(queue) == []
    dead = await admin.dlq_list(queue, group="other")
    assert [letter.error for letter in dead] == ["bad", "bad"]
    assert len(await admin.messages(queue, group="other")) == 1
    metrics = await admin.queue_metrics(queue, group="other")
    assert (metrics.pending, metrics.dead) == (1, 2)
    assert (await admin.queue_metrics(queue)).pending == 3
    assert await admin.dlq_replay(queue) == 0
    assert await admin.dlq_replay(queue, group="other", limit=1) == 1
    assert await admin.dlq_purge(queue, group="other") == 1
    assert await admin.purge_queue(queue, group="other") == 2
    assert (await admin.queue_metrics(queue)).pending == 3


async def test_unknown_group_is_named(lane: Connection, queue: str) -> None:
    calls = (lane.admin.queue_metrics, lane.admin.dlq_list, lane.admin.dlq_replay)
    for call in calls:
        with pytest.raises(GroupNotFound, match="nobody"):
            await call(queue, group="nobody")


async def test_registered_worker_is_seen(lane: Connection, queue: str) -> None:
    worker_id = await register(lane, queue, state=WorkerState.POLLING)
    order = await lane.backend.workers.record_heartbeat(worker_id, handled=5, failed=2)
    assert order == (WorkerState.POLLING, None, False)
    (worker,) = await lane.admin.list_workers(queue)
    assert (worker.worker_id, worker.name, worker.host, worker.pid) == (
        worker_id,
        "mailer",
        "host-1",
        4711,
    )
    assert (worker.queues, worker.state, worker.handled, worker.failed) == (
        [queue],
        WorkerState.POLLING,
        5,
        2,
    )
    assert worker.healthy
    assert (await lane.admin.get_worker(worker_id)).name == "mailer"
    stats = await lane.admin.worker_stats()
    assert stats.total >= 1
    assert stats.by_state["polling"] >= 1
    assert (await lane.admin.worker_health())[worker_id] is True
    assert (await lane.admin.worker_health(timedelta(0)))[worker_id] is False


async def test_worker_of_an_unknown_queue_is_refused(lane: Connection) -> None:
    with pytest.raises(QueueNotFound):
        await register(lane, "nowhere")


async def test_unknown_worker_is_named(lane: Connection) -> None:
    with pytest.raises(WorkerNotFound):
        await lane.admin.get_worker("nobody")
    with pytest.raises(WorkerNotFound, match='worker "nobody" not found'):
        await lane.admin.suspend_worker("nobody")
    with pytest.raises(WorkerNotFound):
        await lane.admin.reclaim("nobody")
    with pytest.raises(WorkerNotFound):
        await lane.backend.workers.record_heartbeat("nobody", handled=0, failed=0)


async def test_extend_leases_extends_only_earlier_leases_of_the_worker(
    lane: Connection, queue: str
) -> None:
    worker_id = await register(lane, queue, state=WorkerState.POLLING)
    await lane.producer(queue).batch_enqueue(range(3))
    for consumer, seconds in ((worker_id, 60), (worker_id, 900), ("another", 60)):
        await lane.backend.claim(queue, lease=timedelta(seconds=seconds), consumer=consumer)
    before = {item.body: item.until for item in await lane.admin.messages(queue, Status.PROCESSING)}
    await lane.backend.workers.extend_leases(worker_id, lease=timedelta(seconds=300))
    after = {item.body: item.until for item in await lane.admin.messages(queue, Status.PROCESSING)}
    assert [body for body in before if before[body] != after[body]] == ["0"]


async def test_states_follow_one_another(lane: Connection, queue: str) -> None:
    admin, backend = lane.admin, lane.backend
    worker_id = await register(lane, queue)
    assert await admin.suspend_worker(worker_id) is WorkerState.SUSPENDED
    assert await admin.resume_worker(worker_id) is WorkerState.READY
    await backend.workers.step(worker_id, WorkerState.POLLING)
    assert await admin.suspend_worker(worker_id) is WorkerState.INTERRUPTED
    order = await backend.workers.record_heartbeat(worker_id, handled=0, failed=0)
    assert order == (WorkerState.INTERRUPTED, WorkerState.SUSPENDED, False)
    await backend.workers.step(worker_id, WorkerState.SUSPENDED)
    assert await admin.shutdown_worker(worker_id) is WorkerState.STOPPED


@pytest.mark.parametrize(
    ("state", "ask"),
    [
        (WorkerState.READY, "resume"),
        (WorkerState.POLLING, "resume"),
        (WorkerState.SUSPENDED, "suspend"),
        (WorkerState.STOPPED, "suspend"),
        (WorkerState.STOPPED, "resume"),
        (WorkerState.STOPPED, "shutdown"),
    ],
)
async def test_wrong_transition_says_from_to_and_why(
    lane: Connection, queue: str, state: WorkerState, ask: str
) -> None:
    worker_id = await register(lane, queue)
    if state is not WorkerState.READY:
        await lane.backend.workers.step(worker_id, state)
    with pytest.raises(InvalidStateTransition) as caught:
        await getattr(lane.admin, f"{ask}_worker")(worker_id)
    target = {"resume": "ready", "suspend": "suspended", "shutdown": "stopped"}[ask]
    assert (caught.value.source, caught.value.target) == (state, target)
    assert {type(caught.value.source), type(caught.value.target)} == {str}
    assert worker_id in caught.value.reason


async def test_worker_state_transitions_are_restricted(lane: Connection, queue: str) -> None:
    worker_id = await register(lane, queue)
    await lane.backend.workers.step(worker_id, WorkerState.STOPPED)
    with pytest.raises(InvalidStateTransition):
        await lane.backend.workers.step(worker_id, WorkerState.POLLING)


async def test_shutdown_refuses_or_releases_messages_in_flight(
    lane: Connection, queue: str
) -> None:
    worker_id = await register(lane, queue, state=WorkerState.POLLING)
    await lane.producer(queue).batch_enqueue([1, 2])
    consumer = lane.consumer(queue, name=worker_id)
    assert len(await consumer.dequeue_many(2)) == 2
    with pytest.raises(WorkerBusy, match="2 messages in flight"):
        await lane.admin.shutdown_worker(worker_id)
    assert (await lane.admin.get_worker(worker_id)).state is WorkerState.POLLING
    assert await lane.admin.shutdown_worker(worker_id, release=True) is WorkerState.STOPPED
    again = await lane.consumer(queue).dequeue()
    assert again is not None
    assert again.attempt == 1


async def test_reclaimed_messages_are_redelivered_with_their_attempts(
    lane: Connection, queue: str
) -> None:
    worker_id = await register(lane, queue, state=WorkerState.POLLING)
    await lane.producer(queue).batch_enqueue([1, 2, 3])
    consumer = lane.consumer(queue, name=worker_id)
    held = await consumer.dequeue_many(3, timedelta(hours=1))
    assert (await lane.admin.get_worker(worker_id)).held == 3
    assert await lane.admin.reclaim(worker_id) == 3
    again = await lane.consumer(queue).dequeue_many(3)
    assert [message.attempt for message in again] == [2, 2, 2]
    assert await consumer.delete_many(held) == [False, False, False]
    assert (await lane.admin.get_worker(worker_id)).state is WorkerState.STOPPED


async def test_silent_worker_is_reclaimed_and_purged(lane: Connection, queue: str) -> None:
    worker_id = await register(lane, queue, timeout=timedelta(hours=1))
    assert worker_id not in await lane.admin.reclaim_dead()
    assert (await lane.admin.reclaim_dead(timedelta(0)))[worker_id] == 0
    assert await lane.admin.purge_old_workers(timedelta(hours=1)) == 0
    assert await lane.admin.purge_old_workers(timedelta(0)) >= 1
    assert await lane.admin.list_workers(queue) == []
