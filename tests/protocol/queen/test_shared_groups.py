"""One lease settles and renews everything that a pop of a shared group returned."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypeAlias

import asyncpg
import httpx
import pytest
import pytest_asyncio

from tests.postgres import execute
from tests.protocol.blocking import block, wait_for_blocked
from tests.protocol.queen.calls import data_of, until
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queen import Queen

    from tests.protocol.conftest import Shared
    from tests.protocol.queen.calls import Message

_KEYS = ("transactionId", "partitionId", "leaseId")

ADD = """
select laneway.push_many(array(select queue_id from laneway.queue where name = '{queue}'),
  array['"{data}"'::json], array['{partition}'], p_priorities => array[{priority}::smallint],
  p_leases => array[{lease}::interval])
"""
ROTATE = "select laneway.rotate(true)"
SOONEST = """
select min(c.until), sum(laneway.count_seqs(c.pending))::int from laneway.claim c
  join laneway.consumer_group g using (group_id) join laneway.queue q on q.queue_id = g.queue_id
 where q.name = $1
"""

Prepare: TypeAlias = Callable[[httpx.AsyncClient, str, str], Awaitable[list[Any]]]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def another(shared: Shared) -> AsyncIterator[str]:
    """Yield the address of a second process on the same database."""
    async with run_laneway(shared.dsn, "--overdue-check-interval-ms", "100") as running:
        yield f"{running.url}/api/v1"


@pytest_asyncio.fixture(params=["here", "elsewhere"], loop_scope="session")
async def settler(
    request: pytest.FixtureRequest, shared: Shared, another: str
) -> AsyncIterator[httpx.AsyncClient]:
    """Yield a client of the process that answered the pop, and one of another."""
    url = f"{shared.server.url}/api/v1" if request.param == "here" else another
    async with httpx.AsyncClient(base_url=url, timeout=30) as client:
        yield client


@pytest.fixture
async def pool(queue: str, http: httpx.AsyncClient) -> str:
    """Return the name of a queue made over REST, whose group is shared, without delays."""
    options = {"retryDelay": 0, "retryLimit": 8}
    await http.post("/configure", json={"queue": queue, "options": options})
    return queue


async def add(http: httpx.AsyncClient, queue: str, *data: Any, partition: str = "Default") -> None:
    items = [{"queue": queue, "partition": partition, "payload": each} for each in data]
    answer = await http.post("/push", json={"items": items})
    assert {result["status"] for result in answer.json()} == {"queued"}


async def pop_batch(
    http: httpx.AsyncClient, queue: str, batch: int = 100, **more: Any
) -> list[Message]:
    answer = await http.get(f"/pop/queue/{queue}", params={"batch": batch, **more})
    if answer.status_code == 204:
        return []
    assert answer.status_code == 200, answer.text
    messages: list[Message] = answer.json()["messages"]
    return messages


async def pop_all(
    http: httpx.AsyncClient, queue: str, expected: list[Any], **more: Any
) -> list[Message]:
    """Return what one pop answers, which is all there is, under one lease."""
    messages = await pop_batch(http, queue, **more)
    assert sorted(map(str, data_of(messages))) == sorted(map(str, expected))
    assert len({message["leaseId"] for message in messages}) == 1
    return messages


def name_acks(messages: list[Message], *statuses: str) -> list[dict[str, Any]]:
    named = [{key: message[key] for key in _KEYS} for message in messages]
    return [
        {**each, "status": status}
        for each, status in zip(named, statuses or ["completed"] * len(named), strict=True)
    ]


async def settle(
    http: httpx.AsyncClient, messages: list[Message], *statuses: str
) -> list[dict[str, Any]]:
    acks = name_acks(messages, *statuses)
    answer = await http.post("/ack/batch", json={"acknowledgments": acks})
    assert answer.status_code == 200, answer.text
    verdicts: list[dict[str, Any]] = answer.json()
    assert [verdict["index"] for verdict in verdicts] == list(range(len(messages)))
    return verdicts


async def settle_one(http: httpx.AsyncClient, message: Message, status: str) -> dict[str, Any]:
    [acked] = name_acks([message], status)
    [verdict] = (await http.post("/ack", json=acked)).json()
    found: dict[str, Any] = verdict
    return found


async def count_held(http: httpx.AsyncClient, queue: str) -> int:
    shown = (await http.get("/consumer-groups/__QUEUE_MODE__")).json()
    return sum(item["processing"] for item in shown["queues"] if item["queueName"] == queue)


# What brings several claims into one answer. Each returns the data that one pop is to bring.


async def redeliver(http: httpx.AsyncClient, queue: str, _dsn: str) -> list[Any]:
    await add(http, queue, *range(6))
    messages = await pop_batch(http, queue)
    # They come again in another order, and one has failed more often.
    statuses = ["completed", "failed", "retry", "failed", "retry", "failed"]
    verdicts = await settle(http, messages[::-1], *statuses[::-1])
    assert all(verdict["success"] for verdict in verdicts)
    [third] = await pop_batch(http, queue, 1)
    assert (await settle_one(http, third, "failed"))["success"]
    await add(http, queue, *"xy")
    return [1, 2, 3, 4, 5, "x", "y"]


async def rotate(http: httpx.AsyncClient, queue: str, dsn: str) -> list[Any]:
    await add(http, queue, 1, 2)
    await execute(dsn, ROTATE)
    await add(http, queue, 3, 4)
    await execute(dsn, ROTATE)
    await add(http, queue, 5)
    return [1, 2, 3, 4, 5]


async def spread(http: httpx.AsyncClient, queue: str, dsn: str) -> list[Any]:
    for partition in "abc":
        await add(http, queue, f"{partition}1", partition=partition)
    await execute(dsn, ROTATE)
    for partition in "bcd":
        await add(http, queue, f"{partition}2", partition=partition)
    return ["a1", "b1", "c1", "b2", "c2", "d2"]


async def rank(_http: httpx.AsyncClient, queue: str, dsn: str) -> list[Any]:
    for priority in (0, 2, 1):
        for data in (f"{priority}-one", f"{priority}-two"):
            named = {"queue": queue, "data": data, "partition": "p", "priority": priority}
            await execute(dsn, ADD.format(**named, lease="null"))
    return [f"{priority}-{part}" for priority in range(3) for part in ("one", "two")]


async def mix(http: httpx.AsyncClient, queue: str, dsn: str) -> list[Any]:
    again = await redeliver(http, queue, dsn)
    return again + await rotate(http, queue, dsn) + await spread(http, queue, dsn)


WAYS = pytest.mark.parametrize("prepare", [redeliver, rotate, spread, rank, mix])


@WAYS
@pytest.mark.parametrize("order", [1, -1])
async def test_a_batch_is_settled_under_its_lease_as_a_whole(
    http: httpx.AsyncClient,
    settler: httpx.AsyncClient,
    pool: str,
    shared: Shared,
    prepare: Prepare,
    *,
    order: int,
) -> None:
    messages = await pop_all(http, pool, await prepare(http, pool, shared.dsn))
    verdicts = await settle(settler, messages[::order])
    assert [verdict["success"] for verdict in verdicts] == [True] * len(messages)
    assert {verdict["leaseReleased"] for verdict in verdicts} == {True}
    assert {verdict["queueName"] for verdict in verdicts} == {pool}
    assert await count_held(http, pool) == 0
    assert await pop_batch(http, pool) == []
    again = await settle(settler, messages)
    assert [(verdict["success"], verdict["noop"]) for verdict in again] == [(True, True)] * len(
        messages
    )


@WAYS
async def test_each_message_of_a_batch_is_settled_alone(
    http: httpx.AsyncClient,
    settler: httpx.AsyncClient,
    pool: str,
    shared: Shared,
    prepare: Prepare,
) -> None:
    messages = await pop_all(http, pool, await prepare(http, pool, shared.dsn))
    left = Counter(message["partitionId"] for message in messages)
    for message in messages:
        left[message["partitionId"]] -= 1
        verdict = await settle_one(settler, message, "success")
        assert (verdict["success"], verdict["error"]) == (True, None)
        assert verdict["leaseReleased"] == (left[message["partitionId"]] == 0)
    assert await count_held(http, pool) == 0


@WAYS
async def test_batch_may_be_failed_and_dead_lettered_in_parts(
    http: httpx.AsyncClient,
    settler: httpx.AsyncClient,
    pool: str,
    shared: Shared,
    prepare: Prepare,
) -> None:
    messages = await pop_all(http, pool, await prepare(http, pool, shared.dsn))
    statuses = [("failed", "completed", "dlq", "retry")[n % 4] for n in range(len(messages))]
    verdicts = await settle(settler, messages, *statuses)
    assert [verdict["success"] for verdict in verdicts] == [True] * len(messages)
    assert [verdict["dlq"] for verdict in verdicts] == [status == "dlq" for status in statuses]
    expected = {
        message["transactionId"]: message["retryCount"] + 1
        for message, status in zip(messages, statuses, strict=True)
        if status in ("failed", "retry")
    }
    again = await pop_batch(http, pool)
    assert {each["transactionId"]: each["retryCount"] for each in again} == expected
    # One by one, whichever comes first: what fails takes nothing along that is held still.
    for n, message in enumerate(again):
        verdict = await settle_one(settler, message, ("failed", "completed", "dlq")[n % 3])
        assert verdict["success"], verdict
    assert len(await pop_batch(http, pool)) == (len(again) + 2) // 3


@pytest.mark.parametrize("leases", [(1, 1), (1, 2), (2, 1), (2, 2)])
@pytest.mark.parametrize("named", ["by key", "by id"])
async def test_messages_that_failed_once_are_settled_under_their_new_leases(
    http: httpx.AsyncClient,
    settler: httpx.AsyncClient,
    name: str,
    leases: tuple[int, int],
    named: str,
) -> None:
    options = {"retryLimit": 3, "retryDelay": 0}
    await http.post("/configure", json={"queue": name, "options": options})
    await http.post(f"/consumer-groups/jobs/queues/{name}", json={"ordered": False})
    items: list[dict[str, Any]] = [{"queue": name, "payload": n} for n in range(2)]
    for item in items if named == "by key" else []:
        item["transactionId"] = f"{name}-{item['payload']}"
    await http.post("/push", json={"items": items})

    async def pop_both(leases: int) -> list[Message]:
        if leases == 1:
            found = await pop_batch(http, name, 2, consumerGroup="jobs")
        else:
            found = [
                *await pop_batch(http, name, 1, consumerGroup="jobs"),
                *await pop_batch(http, name, 1, consumerGroup="jobs"),
            ]
        assert sorted(data_of(found)) == [0, 1]
        return found

    async def settle_both(messages: list[Message], status: str) -> None:
        body = {"acknowledgments": name_acks(messages, status, status), "consumerGroup": "jobs"}
        verdicts = (await settler.post("/ack/batch", json=body)).json()
        assert [(each["success"], each["error"]) for each in verdicts] == [(True, None)] * 2

    await settle_both(await pop_both(leases[0]), "failed")
    again = await pop_both(leases[1])
    assert [message["retryCount"] for message in again] == [1, 1]
    await settle_both(again, "completed")
    assert await pop_batch(http, name, consumerGroup="jobs") == []
    assert (await http.get("/dlq", params={"queue": name})).json()["total"] == 0


@pytest.mark.parametrize("leases", [1, 2])
async def test_client_settles_messages_that_failed_once_in_one_call(
    queen: Queen, http: httpx.AsyncClient, name: str, leases: int
) -> None:
    await queen.queue(name).config({"retry_limit": 3, "retry_delay": 0}).create()
    await http.post(f"/consumer-groups/jobs/queues/{name}", json={"ordered": False})
    await queen.queue(name).push([{"data": n} for n in range(2)])

    async def pop_both() -> list[Message]:
        popping = queen.queue(name).group("jobs").batch(2 // leases).partitions(1).wait(False)
        found = [message for _ in range(leases) for message in await popping.pop()]
        assert sorted(data_of(found)) == [0, 1]
        return found

    messages = await pop_both()
    assert (await queen.ack(messages, False, {"group": "jobs"}))["success"]
    messages = await pop_both()
    assert {message["retryCount"] for message in messages} == {1}
    assert (await queen.ack(messages, True, {"group": "jobs"}))["success"]
    assert (await queen.admin.get_queue_depth(name, "jobs"))["pending"] == 0
    assert (await queen.queue(name).dlq("jobs").get())["total"] == 0


async def test_dead_letter_leaves_the_rest_of_its_batch_leased(
    http: httpx.AsyncClient, settler: httpx.AsyncClient, pool: str
) -> None:
    await http.post("/configure", json={"queue": pool, "options": {"retryLimit": 0}})
    await add(http, pool, 1, 2, partition="a")
    await add(http, pool, 3, 4, partition="b")
    messages = await pop_all(http, pool, [1, 2, 3, 4])
    for message, status in zip(messages, ("failed", "completed") * 2, strict=True):
        verdict = await settle_one(settler, message, status)
        assert (verdict["success"], verdict["dlq"]) == (True, status == "failed")
    assert await pop_batch(http, pool) == []


@WAYS
async def test_renewal_extends_every_message_of_a_pop(
    http: httpx.AsyncClient,
    settler: httpx.AsyncClient,
    pool: str,
    shared: Shared,
    prepare: Prepare,
) -> None:
    expected = await prepare(http, pool, shared.dsn)
    messages = await pop_all(http, pool, expected, leaseSeconds=1000)
    path = f"/lease/{messages[0]['leaseId']}/extend"
    [renewed] = (await settler.post(path, json={"seconds": 5000})).json()
    partitions = {message["partitionId"] for message in messages}
    assert (renewed["success"], renewed["renewed"]) == (True, len(partitions))
    connection = await asyncpg.connect(shared.dsn)
    try:
        held = await connection.fetch(SOONEST, pool)
    finally:
        await connection.close()
    until_then = datetime.fromisoformat(renewed["expiresAt"])
    assert [tuple(row) for row in held] == [(until_then, len(messages))]
    verdicts = await settle(settler, messages)
    assert [verdict["success"] for verdict in verdicts] == [True] * len(messages)


@WAYS
async def test_a_transaction_settles_a_batch(
    http: httpx.AsyncClient,
    settler: httpx.AsyncClient,
    pool: str,
    shared: Shared,
    prepare: Prepare,
) -> None:
    messages = await pop_all(http, pool, await prepare(http, pool, shared.dsn))
    operations = [{"type": "ack", **acked} for acked in name_acks(messages)]
    body = {
        "operations": [*operations, {"type": "push", "queue": pool, "payload": "next"}],
        "requiredLeases": [messages[0]["leaseId"]],
    }
    done = await settler.post("/transaction", json=body)
    assert (done.status_code, done.json()["success"]) == (200, True), done.text
    assert data_of(await pop_batch(http, pool)) == ["next"]
    # The lease holds nothing any more.
    gone = await settler.post("/transaction", json=body)
    assert (gone.status_code, gone.json()["success"]) == (409, False)


@WAYS
async def test_expired_lease_returns_every_message_and_settles_none(
    http: httpx.AsyncClient,
    settler: httpx.AsyncClient,
    pool: str,
    shared: Shared,
    prepare: Prepare,
) -> None:
    expected = await prepare(http, pool, shared.dsn)
    stalled = await pop_all(http, pool, expected, leaseSeconds=0.5)
    fresh: list[Message] = []

    async def pop_some() -> bool:
        fresh.extend(await pop_batch(http, pool))
        return len(fresh) == len(stalled)

    await until(pop_some)
    before = {message["transactionId"]: message["retryCount"] for message in stalled}
    after = {message["transactionId"]: message["retryCount"] - 1 for message in fresh}
    assert after == before
    verdicts = await settle(settler, stalled)
    assert {verdict["success"] for verdict in verdicts} == {False}
    assert all("lease" in verdict["error"] for verdict in verdicts)
    [extended] = (await settler.post(f"/lease/{stalled[0]['leaseId']}/extend")).json()
    assert not extended["success"]
    assert await count_held(http, pool) == len(fresh)
    assert all(verdict["success"] for verdict in await settle(settler, fresh))


@WAYS
async def test_pop_that_acknowledges_on_delivery_settles_every_message(
    http: httpx.AsyncClient, pool: str, shared: Shared, prepare: Prepare
) -> None:
    expected = await prepare(http, pool, shared.dsn)
    messages = await pop_all(http, pool, expected, autoAck="true")
    assert {message["leaseId"] for message in messages} == {None}
    assert await count_held(http, pool) == 0
    assert await pop_batch(http, pool) == []


@pytest.mark.parametrize("prepare", [redeliver, rotate, mix])
async def test_messages_of_a_disconnected_client_are_released(
    http: httpx.AsyncClient, pool: str, shared: Shared, prepare: Prepare
) -> None:
    expected = await prepare(http, pool, shared.dsn)
    async with block(shared.dsn, "claim"):
        leaving = asyncio.ensure_future(pop_batch(http, pool))
        await wait_for_blocked(shared.dsn)
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
    found: list[Message] = []

    async def pop_some() -> bool:
        found.extend(await pop_batch(http, pool))
        return len(found) == len(expected)

    await until(pop_some)
    failed = Counter() if prepare is rotate else Counter({1: 4, 2: 1})
    failed[0] = len(expected) - failed.total()
    assert Counter(message["retryCount"] for message in found) == failed


async def test_each_waiter_settles_only_its_own_messages(
    http: httpx.AsyncClient, settler: httpx.AsyncClient, pool: str
) -> None:
    waiting = [
        asyncio.ensure_future(pop_batch(http, pool, 3, wait="true", timeout=20_000))
        for _ in range(4)
    ]
    await asyncio.sleep(0.2)
    items = [
        {"queue": pool, "partition": f"p{n % 5}", "payload": n, "transactionId": f"t{n}"}
        for n in range(12)
    ]
    assert (await http.post("/push", json={"items": items})).status_code == 201
    batches = await asyncio.gather(*waiting)
    got = [message for batch in batches for message in batch]
    assert len({message["transactionId"] for message in got}) == len(got)
    assert len({message["leaseId"] for message in got}) == sum(map(bool, batches))
    first, second = [batch for batch in batches if batch][:2]
    # Under another's lease nothing happens …
    stolen = [{**message, "leaseId": first[0]["leaseId"]} for message in second]
    assert {verdict["success"] for verdict in await settle(settler, stolen)} == {False}
    # … and none of its own with it.
    verdicts = await settle(settler, [*first, *stolen])
    assert {verdict["success"] for verdict in verdicts} == {False}
    for batch in batches:
        assert all(verdict["success"] for verdict in await settle(settler, batch))


async def test_messages_with_the_same_transaction_id_are_settled_separately(
    http: httpx.AsyncClient, settler: httpx.AsyncClient, pool: str, shared: Shared
) -> None:
    options = {"dedupWindowSeconds": 0.1}
    await http.post("/configure", json={"queue": pool, "options": options})

    async def push_again(data: str) -> bool:
        item = {"queue": pool, "transactionId": "same", "payload": data}
        [pushed] = (await http.post("/push", json={"items": [item]})).json()
        return bool(pushed["status"] == "queued")

    await until(lambda: push_again("first"))
    [failed] = await pop_batch(http, pool)
    assert (await settle_one(http, failed, "retry"))["success"]
    await until(lambda: push_again("second"))
    await execute(shared.dsn, ROTATE)
    await until(lambda: push_again("third"))
    messages = await pop_all(http, pool, ["first", "second", "third"])
    # Each stands for one of them, also in requests of their own.
    assert (await settle_one(settler, messages[0], "completed"))["success"]
    assert await count_held(http, pool) == 2
    assert all(verdict["success"] for verdict in await settle(settler, messages[1:]))
    assert await count_held(http, pool) == 0


async def test_partly_expired_lease_settles_the_rest(
    http: httpx.AsyncClient, settler: httpx.AsyncClient, pool: str, shared: Shared
) -> None:
    named = {"queue": pool, "partition": "p", "priority": 0}
    await execute(shared.dsn, ADD.format(**named, data="short", lease="interval '0.3 s'"))
    await execute(shared.dsn, ADD.format(**named, data="long", lease="interval '1 hour'"))
    short, long = await pop_all(http, pool, ["short", "long"])
    assert data_of([short, long]) == ["short", "long"]
    [popped] = await until(lambda: pop_batch(http, pool, leaseSeconds=300))
    assert (popped["data"], popped["retryCount"]) == ("short", 1)
    # What another holds now refuses all that is said together with it, and it alone is lost.
    assert {v["success"] for v in await settle(settler, [long, short])} == {False}
    assert {v["success"] for v in await settle(settler, [short], "failed")} == {False}
    [renewed] = (await settler.post(f"/lease/{long['leaseId']}/extend")).json()
    assert (renewed["success"], renewed["renewed"]) == (True, 1)
    body = {
        "operations": [{"type": "ack", **acked} for acked in name_acks([short, long])],
        "requiredLeases": [long["leaseId"]],
    }
    assert (await settler.post("/transaction", json=body)).status_code == 409
    assert (await settle_one(settler, long, "completed"))["success"]
    assert (await settle_one(settler, popped, "completed"))["success"]


async def test_pop_of_several_partitions_has_one_lease(
    http: httpx.AsyncClient, settler: httpx.AsyncClient, pool: str, shared: Shared
) -> None:
    expected = await mix(http, pool, shared.dsn)
    found = []
    while more := await pop_batch(http, pool, 8, partitions=4):
        found += more
    assert sorted(map(str, data_of(found))) == sorted(map(str, expected))
    await settle_by_lease(settler, found)
    # One that waits is woken for some of it, and sweeps up the rest.
    waiting = asyncio.ensure_future(
        pop_batch(http, pool, 20, partitions=8, wait="true", timeout=20_000)
    )
    await asyncio.sleep(0.2)
    items = [{"queue": pool, "partition": f"p{n % 6}", "payload": n} for n in range(12)]
    assert (await http.post("/push", json={"items": items})).status_code == 201
    found = await waiting
    while more := await pop_batch(http, pool, 8, partitions=4):
        found += more
    assert sorted(data_of(found)) == list(range(12))
    await settle_by_lease(settler, found)
    assert await count_held(http, pool) == 0


async def settle_by_lease(http: httpx.AsyncClient, messages: list[Message]) -> None:
    """Renew and settle what each lease holds, the last first."""
    for lease in {message["leaseId"] for message in messages}:
        held = [message for message in messages if message["leaseId"] == lease]
        [renewed] = (await http.post(f"/lease/{lease}/extend")).json()
        assert renewed["renewed"] == len({message["partitionId"] for message in held})
        assert all(verdict["success"] for verdict in await settle(http, held[::-1]))


@pytest.mark.parametrize("each", [True, False])
async def test_consumer_loop_handles_shared_groups(
    queen: Queen, http: httpx.AsyncClient, pool: str, shared: Shared, *, each: bool
) -> None:
    expected = await mix(http, pool, shared.dsn)
    handled: Counter[str] = Counter()
    done = asyncio.Event()

    async def handle(given: Any) -> None:
        messages = [given] if each else given
        for message in messages:
            handled[str(message["data"])] += 1
        await asyncio.sleep(0)
        if len(handled) == len(expected):
            done.set()

    consuming = queen.queue(pool).batch(100).renew_lease(True, 1000).timeout_millis(300)
    consuming = consuming.idle_millis(2000)
    if each:
        consuming = consuming.each()
    async with asyncio.timeout(20):
        await consuming.consume(handle, signal=done)
    assert handled == Counter(map(str, expected))
    assert await count_held(http, pool) == 0
    assert (await queen.queue(pool).dlq().get())["total"] == 0


async def test_client_renews_acknowledges_and_commits_shared_messages(
    queen: Queen, http: httpx.AsyncClient, pool: str, shared: Shared
) -> None:
    expected = await mix(http, pool, shared.dsn)
    messages = await queen.queue(pool).batch(100).wait(False).pop()
    assert sorted(map(str, data_of(messages))) == sorted(map(str, expected))
    renewed: Any = await queen.renew(messages)
    assert [each["success"] for each in renewed] == [True]
    done = await queen.transaction().ack(messages[:5]).queue(pool).push([{"data": "n"}]).commit()
    assert done["success"]
    assert (await queen.ack(messages[5:]))["success"]
    assert data_of(await queen.queue(pool).batch(100).wait(False).pop()) == ["n"]


# Ordered groups: parts by attempt, and the ends of segments.


async def test_an_ordered_batch_of_several_attempts_is_one_lease(
    http: httpx.AsyncClient, settler: httpx.AsyncClient, name: str, shared: Shared
) -> None:
    await http.post("/configure", json={"queue": name, "options": {"retryDelay": 0}})
    await add(http, name, *range(5))
    messages = await pop_batch(http, name)
    # The third and what is behind it come again; only the third has failed.
    verdicts = await settle(http, messages, "completed", "completed", "failed", *["completed"] * 2)
    assert all(verdict["success"] for verdict in verdicts)
    await add(http, name, "x")
    await execute(shared.dsn, ROTATE)
    await add(http, name, "y")
    found: list[Any] = []
    while batch := await pop_batch(http, name):
        [renewed] = (await settler.post(f"/lease/{batch[0]['leaseId']}/extend")).json()
        assert (renewed["success"], renewed["renewed"]) == (True, 1)
        verdicts = await settle(settler, batch)
        assert [verdict["success"] for verdict in verdicts] == [True] * len(batch)
        assert {verdict["leaseReleased"] for verdict in verdicts} == {True}
        found += [(message["data"], message["retryCount"]) for message in batch]
    assert found == [(2, 1), (3, 0), (4, 0), ("x", 0), ("y", 0)]


@pytest.mark.parametrize("way", ["ack", "transaction"])
async def test_an_ordered_batch_with_a_part_that_failed_is_settled(
    http: httpx.AsyncClient, settler: httpx.AsyncClient, name: str, way: str
) -> None:
    await http.post("/configure", json={"queue": name, "options": {"retryDelay": 0}})
    for partition in "ab":
        await add(http, name, *range(4), partition=partition)
    batch = await pop_batch(http, name, partitions=2)
    assert len(batch) == 8
    failing = [message for message in batch if message["data"] == 1]
    assert all(verdict["success"] for verdict in await settle(http, failing, "failed", "failed"))
    kept = [message for message in batch if message["data"] == 0]
    # The nacks have ended the lease in both partitions.
    assert not any(verdict["success"] for verdict in await settle(settler, kept))
    again = await pop_batch(http, name, partitions=2)
    assert Counter((m["data"], m["retryCount"]) for m in again) == Counter(
        {(0, 0): 2, (1, 1): 2, (2, 0): 2, (3, 0): 2}
    )
    [renewed] = (await settler.post(f"/lease/{again[0]['leaseId']}/extend")).json()
    assert (renewed["success"], renewed["renewed"]) == (True, 2)
    if way == "ack":
        assert all(verdict["success"] for verdict in await settle(settler, again))
    else:
        body = {
            "operations": [{"type": "ack", **acked} for acked in name_acks(again)],
            "requiredLeases": [again[0]["leaseId"]],
        }
        done = await settler.post("/transaction", json=body)
        assert done.json()["success"], done.text
    assert await count_held(http, name) == 0


async def test_failed_pop_of_several_partitions_releases_its_claims(
    http: httpx.AsyncClient, name: str, shared: Shared
) -> None:
    for partition in "ab":
        await add(http, name, 1, partition=partition)
    async with block(shared.dsn, "stream_lease"):
        popping = asyncio.ensure_future(pop_batch(http, name, partitions=2))
        await wait_for_blocked(shared.dsn)
        await execute(
            shared.dsn,
            "select pg_terminate_backend(pid) from pg_locks"
            " where not granted and relation = 'laneway.stream_lease'::regclass",
        )
        [message] = await popping
    assert (await settle_one(http, message, "completed"))["success"]
    [other] = await pop_batch(http, name, partitions=2)
    assert other["partition"] != message["partition"]
    assert (await settle_one(http, other, "completed"))["success"]
