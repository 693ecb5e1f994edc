"""Every option of a queue has its effect."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import asyncpg
import pytest

from laneway.server.queen.options import DEFAULTS
from tests.protocol.queen.calls import ack, data_of, pop, push, until

if TYPE_CHECKING:
    import httpx
    from queen import Queen

    from tests.protocol.conftest import Shared


async def configure(http: httpx.AsyncClient, name: str, **options: Any) -> dict[str, Any]:
    answer = await http.post("/configure", json={"queue": name, "options": options})
    assert answer.status_code == 201, answer.text
    configured: dict[str, Any] = answer.json()
    return configured


async def test_options_that_are_not_named_keep_their_values(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    first = await configure(http, name, leaseTime=7, retryLimit=5)
    assert first["options"] == {**DEFAULTS, "leaseTime": 7, "retryLimit": 5}
    second = await configure(http, name, retryDelay=20, retryLimit=None)
    assert second["options"] == {**first["options"], "retryDelay": 20}
    assert (second["configured"], second["queue"]) == (True, name)
    created = await queen.queue(name).namespace("n").task("t").config({"leaseTime": 9}).create()
    assert (created["namespace"], created["task"]) == ("n", "t")
    assert created["options"]["retryDelay"] == 20
    assert created["options"]["leaseTime"] == 9


async def test_options_that_are_not_named_keep_what_was_set_over_another_protocol(
    name: str, shared: Shared, http: httpx.AsyncClient
) -> None:
    settings = {
        "lease": "17 seconds",
        "max_attempts": None,
        "backoff": "5 seconds",
        "backoff_factor": 3,
        "delay": "2 seconds",
        "dedup_window": "7 minutes",
        "message_ttl": "10 minutes",
        "retention": "1 hour",
        "max_messages": 9,
        "rest_window": "1.5 seconds",
        "dead_letter_after": "1 day",
        "keep_dead_letters": False,
    }

    async def look() -> dict[str, Any]:
        row = await connection.fetchrow(
            f"select {', '.join(settings)}, dedup_scope from laneway.queue where name = $1", name
        )
        return dict(row or {})

    connection = await asyncpg.connect(shared.dsn)
    try:
        await connection.execute("select laneway.create_queue($1, $2)", name, json.dumps(settings))
        before = await look()
        shown = (await configure(http, name, priority=1))["options"]
        assert shown == {
            **DEFAULTS,
            "priority": 1,
            "leaseTime": 17,
            "retryDelay": 5000,
            "dlqAfterMaxRetries": False,
            "delayedProcessing": 2,
            "dedupWindowSeconds": 420,
            "ttl": 600,
            "completedRetentionSeconds": 3600,
            "retentionEnabled": True,
            "maxSize": 9,
            "windowBuffer": 1.5,
            "maxWaitTimeSeconds": 86_400,
            "deadLetterQueue": False,
        }
        assert await look() == before
        # What one that is named has a part in counts with it, and comes back when that goes.
        await configure(http, name, retentionSeconds=60)
        minute = timedelta(minutes=1)
        assert await look() == {**before, "message_ttl": minute, "retention": minute}
        await configure(http, name, retentionSeconds=0)
        assert await look() == before
        # What is set elsewhere after it was named here is kept too.
        await configure(http, name, leaseTime=9)
        await connection.execute(
            "select laneway.update_queue($1, $2)", name, json.dumps({"lease": "11 seconds"})
        )
        assert (await configure(http, name, priority=2))["options"]["leaseTime"] == 11
        assert await look() == {**before, "lease": timedelta(seconds=11)}
    finally:
        await connection.close()


async def test_repeating_the_value_of_an_option_changes_nothing(
    name: str, shared: Shared, http: httpx.AsyncClient
) -> None:
    settings = {
        "max_attempts": 6,
        "backoff": "5 seconds",
        "backoff_factor": 3,
        "backoff_limit": "2 minutes",
        "message_ttl": "10 minutes",
        "retention": "1 hour",
    }
    query = f"select {', '.join(settings)} from laneway.queue where name = $1"
    connection = await asyncpg.connect(shared.dsn)
    try:
        await connection.execute("select laneway.create_queue($1, $2)", name, json.dumps(settings))
        before = await connection.fetchrow(query, name)
        shown = (await configure(http, name, retryDelay=5000))["options"]
        assert await connection.fetchrow(query, name) == before
        assert (await configure(http, name, **shown))["options"] == shown
        assert await connection.fetchrow(query, name) == before
        # Another value counts, and only for what it has a part in.
        await configure(http, name, **{**shown, "retryDelay": 7000})
        after = await connection.fetchrow(query, name)
        second = timedelta(seconds=7)
        changed = {"backoff": second, "backoff_factor": 1.0, "backoff_limit": second}
        assert dict(after or {}) == {**dict(before or {}), **changed}
    finally:
        await connection.close()


async def test_concurrent_changes_of_options_all_apply(
    name: str, shared: Shared, http: httpx.AsyncClient
) -> None:
    wanted: dict[str, Any] = {
        "leaseTime": 7,
        "retryLimit": 5,
        "retryDelay": 20,
        "priority": 3,
        "maxSize": 9,
        "retentionEnabled": True,
        "retentionSeconds": 60,
    }
    await configure(http, name)
    await asyncio.gather(*(configure(http, name, **{key: wanted[key]}) for key in wanted))
    assert (await configure(http, name))["options"] == {**DEFAULTS, **wanted}
    # What two of them mean together counts as well.
    connection = await asyncpg.connect(shared.dsn)
    try:
        row = await connection.fetchrow(
            "select lease, max_attempts, message_ttl from laneway.queue where name = $1", name
        )
    finally:
        await connection.close()
    assert tuple(row or ()) == (timedelta(seconds=7), 6, timedelta(seconds=60))


@pytest.mark.parametrize(
    "options",
    [
        {"leaseTime": 0},
        {"leaseTime": "long"},
        {"retryLimit": -1},
        {"retryLimit": 1.5},
        {"encryptionEnabled": "yes"},
        {"unheardOf": 1},
        {"windowBuffer": 1e12},
    ],
)
async def test_invalid_options_are_refused(
    http: httpx.AsyncClient, name: str, options: dict[str, Any]
) -> None:
    answer = await http.post("/configure", json={"queue": name, "options": options})
    assert answer.status_code == 400
    assert next(iter(options)) in answer.json()["error"]
    assert (await http.get(f"/resources/queues/{name}")).status_code == 404


async def test_retry_limit_of_zero_dead_letters_the_first_failure(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await configure(http, name, retryLimit=0)
    await push(queen, name, ["x"])
    assert (await ack(queen, (await pop(queen, name))[0], False))["dlq"]


async def test_max_size_limits_unfinished_messages(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await configure(http, name, maxSize=3)
    items = [{"queue": name, "payload": n} for n in range(4)]
    results = (await http.post("/push", json={"items": items})).json()
    assert [result["status"] for result in results] == ["queued"] * 3 + ["failed"]
    assert "full" in results[3]["error"]
    with pytest.raises(Exception, match="full"):
        await queen.queue(name).push([{"data": "more"}])
    with pytest.raises(Exception, match="full"):
        await queen.transaction().queue(name).push([{"data": "more"}]).commit()
    await ack(queen, await pop(queen, name, 2))
    await push(queen, name, ["one", "two"])
    # However many push at once, no more fit than there is room for.
    await ack(queen, await pop(queen, name, 3))
    answers = await asyncio.gather(
        *(http.post("/push", json={"items": items[:1]}) for _ in range(8))
    )
    statuses = [answer.json()[0]["status"] for answer in answers]
    assert statuses.count("queued") == 3


async def test_a_duplicate_into_a_full_queue_is_a_duplicate(
    name: str, http: httpx.AsyncClient
) -> None:
    await configure(http, name, maxSize=2)
    [known, same, more] = [
        {"queue": name, "payload": 1, "transactionId": key} for key in ("known", "same", "more")
    ]
    [first] = (await http.post("/push", json={"items": [known]})).json()
    answer = await http.post("/push", json={"items": [known, same, known, more]})
    results = answer.json()
    assert [result["status"] for result in results] == [
        "duplicate",
        "queued",
        "duplicate",
        "failed",
    ]
    assert {results[0]["message_id"], results[2]["message_id"]} == {first["message_id"]}
    operations = [{"type": "push", "items": [known]}]
    answer = await http.post("/transaction", json={"operations": operations})
    assert answer.status_code == 200
    [result] = answer.json()["results"]
    assert (result["status"], result["message_id"]) == ("duplicate", first["message_id"])


async def test_a_transaction_into_a_full_queue_is_refused_as_transactions_are(
    name: str, http: httpx.AsyncClient
) -> None:
    await configure(http, name, maxSize=1)
    items = [{"queue": name, "payload": n} for n in range(2)]
    answer = await http.post(
        "/transaction", json={"operations": [{"type": "push", "items": items}]}
    )
    body = answer.json()
    assert (answer.status_code, body["success"], body["results"]) == (409, False, [])
    assert body["transactionId"]
    assert "full" in body["error"]


async def test_ttl_removes_unread_messages(
    queen: Queen, name: str, shared: Shared, http: httpx.AsyncClient
) -> None:
    await configure(http, name, ttl=0.05)
    await push(queen, name, ["stale"])
    await asyncio.sleep(0.1)
    await retain(shared)
    assert await pop(queen, name) == []
    await configure(http, name, ttl=0)
    await push(queen, name, ["kept"])
    await asyncio.sleep(0.1)
    await retain(shared)
    assert data_of(await pop(queen, name)) == ["kept"]


async def test_retention_removes_old_messages(
    queen: Queen, name: str, shared: Shared, http: httpx.AsyncClient
) -> None:
    async def kept() -> list[Any]:
        await retain(shared)
        listed = await queen.admin.list_messages(queue=name)
        return sorted(data_of(listed["messages"]))

    options = {"retentionSeconds": 30, "completedRetentionSeconds": 0.05}
    await configure(http, name, **options)
    await push(queen, name, ["done", "waiting"])
    await ack(queen, await pop(queen, name, 1))
    await asyncio.sleep(0.1)
    # Not before it is enabled.
    assert await kept() == ["done", "waiting"]
    await configure(http, name, retentionEnabled=True)
    assert await kept() == ["waiting"]
    await configure(http, name, retentionSeconds=0.05)
    assert await kept() == []


async def test_queue_priority_orders_a_namespace(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    for suffix, priority in (("low", 1), ("high", 5), ("middle", 3)):
        await (
            queen.queue(f"{name}-{suffix}")
            .namespace(name)
            .task(suffix)
            .config({"priority": priority})
            .create()
        )
        await push(queen, f"{name}-{suffix}", [suffix])
    seen = []
    for _ in range(3):
        [message] = await queen.queue().namespace(name).batch(1).wait(False).pop()
        seen.append((message["data"], message["queue"]))
        await ack(queen, message)
    assert seen == [(word, f"{name}-{word}") for word in ("high", "middle", "low")]
    await push(queen, f"{name}-low", ["again"])
    of_task = queen.queue().namespace(name).task("low").batch(1).wait(False)
    assert data_of(await of_task.pop()) == ["again"]
    assert (await http.get("/pop")).status_code == 400


async def test_pop_waits_for_every_queue_of_a_namespace(queen: Queen, name: str) -> None:
    await push(queen, f"{name}.first", ["x"])
    await ack(queen, await pop(queen, f"{name}.first"))
    waiting = asyncio.ensure_future(
        queen.queue().namespace(name).batch(1).timeout_millis(10_000).pop()
    )
    await asyncio.sleep(0.1)
    # In a queue that comes only now.
    await push(queen, f"{name}.second", ["y"])
    async with asyncio.timeout(5):
        assert data_of(await waiting) == ["y"]


async def test_delayed_processing_hides_new_messages(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await configure(http, name, delayedProcessing=0.3)
    await push(queen, name, ["later"])
    assert await pop(queen, name) == []
    async with asyncio.timeout(5):
        [message] = await pop(queen, name, wait=True)
    assert message["data"] == "later"


async def test_window_buffer_hides_a_partition_until_it_is_quiet(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await configure(http, name, windowBuffer=0.5)
    loop = asyncio.get_running_loop()
    last = loop.time()
    for n in range(3):
        last = loop.time()
        await push(queen, name, [n])
        assert await pop(queen, name) == []
        await asyncio.sleep(0.2)
    async with asyncio.timeout(5):
        messages = await pop(queen, name, wait=True)
    assert data_of(messages) == [0, 1, 2]
    assert loop.time() - last >= 0.5
    await ack(queen, messages)
    await queen.transaction().queue(name).push([{"data": "by transaction"}]).commit()
    assert await pop(queen, name) == []
    async with asyncio.timeout(5):
        assert data_of(await pop(queen, name, wait=True)) == ["by transaction"]


async def test_window_buffer_hides_a_partition_from_new_and_repositioned_groups(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await push(queen, name, ["before"])
    [held] = await pop(queen, name, group="failing")
    await configure(http, name, windowBuffer=60, retryDelay=0)
    await push(queen, name, ["in the window"])
    assert await pop(queen, name, group="new") == []
    await http.post(f"/consumer-groups/new/queues/{name}/seek", json={"timestamp": "2020-01-01"})
    assert await pop(queen, name, group="new") == []
    assert (await ack(queen, held, False, group="failing"))["success"]
    assert await pop(queen, name, group="failing") == []


async def test_group_created_during_a_window_gets_the_hidden_messages(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await configure(http, name, windowBuffer=1)
    await push(queen, name, ["hidden"])
    async with asyncio.timeout(20):
        assert data_of(await pop(queen, name, group="new", wait=True)) == ["hidden"]


async def test_max_wait_time_dead_letters_messages_that_wait_too_long(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await configure(http, name, maxWaitTimeSeconds=0.2)
    await push(queen, name, ["a", "b"])

    async def buried() -> Any:
        dead = await queen.queue(name).dlq().get()
        return dead if len(dead["messages"]) == 2 else None

    dead = await until(buried)
    assert {letter["data"] for letter in dead["messages"]} == {"a", "b"}
    assert "maxWaitTimeSeconds" in dead["messages"][0]["errorMessage"]
    assert await pop(queen, name) == []
    await configure(http, name, maxWaitTimeSeconds=0)
    await push(queen, name, ["c"])
    assert data_of(await pop(queen, name)) == ["c"]


async def test_a_queue_may_keep_no_dead_letters(
    queen: Queen, name: str, http: httpx.AsyncClient, shared: Shared
) -> None:
    await configure(http, name, deadLetterQueue=False, retryLimit=0)
    await push(queen, name, ["bad", "good"])
    await ack(queen, (await pop(queen, name, 1))[0], False)
    assert data_of(await pop(queen, name)) == ["good"]
    assert (await queen.queue(name).dlq().get())["total"] == 0
    connection = await asyncpg.connect(shared.dsn)
    query = (
        "select count(*) = 0 from laneway.dead_letter d join laneway.lane l using (lane_id) "
        "join laneway.queue q using (queue_id) where q.name = $1"
    )
    await until(lambda: connection.fetchval(query, name))
    await connection.close()


async def test_a_queue_may_retry_without_end(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await configure(http, name, dlqAfterMaxRetries=False, retryLimit=0, retryDelay=0)
    await push(queen, name, ["again"])
    for retry in range(4):
        [message] = await pop(queen, name)
        assert message["retryCount"] == retry
        assert not (await ack(queen, message, False))["dlq"]


async def test_transaction_id_is_unique_within_its_window_and_partition(
    queen: Queen, name: str, http: httpx.AsyncClient
) -> None:
    await configure(http, name, dedupWindowSeconds=0.3)
    once = [{"transactionId": "once", "data": 1}]
    [first] = await queen.queue(name).push(once)
    [second] = await queen.queue(name).push(once)
    assert (first["status"], second["status"]) == ("queued", "duplicate")
    assert first["message_id"] == second["message_id"]
    [elsewhere] = await queen.queue(name).partition("p").push(once)
    assert elsewhere["status"] == "queued"
    await asyncio.sleep(0.35)
    [later] = await queen.queue(name).push(once)
    assert later["status"] == "queued"


async def retain(shared: Shared) -> None:
    connection = await asyncpg.connect(shared.dsn)
    try:
        await connection.execute("select laneway.retain()")
    finally:
        await connection.close()
