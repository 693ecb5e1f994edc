"""Timers through the client: pushed at their time, replaced, cancelled."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from queen.errors import TimerError

from tests.protocol.queen.calls import data_of, pop, push, until

if TYPE_CHECKING:
    import httpx
    from queen import Queen

HOUR = 3_600_000


def schedule(queue: str, key: str = "t", **more: Any) -> dict[str, Any]:
    payload = b64encode(json.dumps(key).encode()).decode()
    return {
        "op": "schedule",
        "queue": queue,
        "timerKey": key,
        "payload": payload,
        "delayMs": HOUR,
        "txn": f"of-{key}",
        **more,
    }


async def test_timer_becomes_a_message_at_its_time(queen: Queen, name: str) -> None:
    done = await queen.timers.schedule(name, "order/9:expire", {"order": 9}, delay_ms=300)
    assert done
    assert (done["status"], done["queue"], done["timerKey"]) == (
        "scheduled",
        name,
        "order/9:expire",
    )
    assert done["messageId"]
    [message] = await until(lambda: pop(queen, name))
    assert message["data"] == {"order": 9}
    assert message["transactionId"] == done["txn"]
    due, pushed = (
        datetime.fromisoformat(text) for text in (done["deliverAt"], message["createdAt"])
    )
    assert pushed >= due
    assert not await queen.timers.peek(name, "order/9:expire")


async def test_waiting_consumer_gets_the_message(queen: Queen, name: str) -> None:
    await queen.queue(name).create()
    waiting = asyncio.ensure_future(
        queen.queue(name).batch(1).wait(True).timeout_millis(20_000).pop()
    )
    await asyncio.sleep(0)
    await queen.timers.schedule(name, "t", "due", delay_ms=50, partition="p")
    [message] = await waiting
    assert (message["data"], message["partition"]) == ("due", "p")


async def test_cancelled_timer_never_comes(queen: Queen, name: str) -> None:
    done = await queen.timers.schedule(name, "a/b", 1, delay_ms=HOUR)
    assert await queen.timers.peek(name, "a/b")
    cancelled = await queen.timers.cancel(name, "a/b", txn=done["txn"])
    assert (cancelled["ok"], cancelled["status"], cancelled["txn"]) == (
        True,
        "cancelled",
        done["txn"],
    )
    absent = await queen.timers.cancel(name, "a/b", txn="mine")
    assert not absent
    assert (absent["status"], absent["txn"]) == ("absent", "mine")
    assert not await queen.timers.peek(name, "a/b")
    absent = await queen.timers.cancel(f"{name}-never", "x")
    assert (absent["status"], absent["txn"]) == ("absent", None)


async def test_timer_that_is_due_is_pushed_or_cancelled(queen: Queen, name: str) -> None:
    cancelled = set()
    for number in range(30):
        due = await queen.timers.schedule(name, f"t{number}", number, delay_ms=0)
        if await queen.timers.cancel(name, f"t{number}"):
            cancelled.add(due["txn"])
    await queen.timers.schedule(name, "last", "last", delay_ms=0)

    async def read_all() -> Any:
        records = (await queen.queue(name).fetch("Default"))["Default"]["records"]
        return records if "last" in [record["payload"] for record in records] else []

    records = await until(read_all)
    assert not cancelled & {record["transactionId"] for record in records}
    assert len(records) == 31 - len(cancelled)


async def test_timer_set_again_is_replaced(queen: Queen, name: str) -> None:
    first = await queen.timers.schedule(name, "t", {"v": 1}, delay_ms=HOUR)
    again = await queen.timers.reschedule(name, "t", {"v": 2}, delay_ms=200)
    assert (again["status"], again["messageId"] != first["messageId"]) == ("rescheduled", True)
    assert again["deliverAt"] < first["deliverAt"]
    assert data_of(await until(lambda: pop(queen, name))) == [{"v": 2}]


async def test_timer_due_in_the_past_comes_at_once(queen: Queen, name: str) -> None:
    await queen.timers.schedule(name, "t", "late", delay_ms=-10_000)
    assert data_of(await until(lambda: pop(queen, name))) == ["late"]


async def test_builder_sets_and_cancels(queen: Queen, name: str) -> None:
    timer = queen.timer(name).key("b").payload({"v": 1}).after(timedelta(minutes=5)).partition("p")
    assert (await timer.txn("mine").schedule())["txn"] == "mine"
    shown = await queen.timers.peek(name, "b")
    assert (shown["partition"], shown["txn"]) == ("p", "mine")
    assert (await queen.timer(name).key("b").cancel())["status"] == "cancelled"


async def test_pending_timers_are_listed_in_pages(queen: Queen, name: str) -> None:
    for number in range(5):
        await queen.timers.schedule(name, f"list:{number}", {"i": number}, delay_ms=HOUR)
    page = await queen.timers.list(name, limit=2)
    assert [row["timerKey"] for row in page["rows"]] == ["list:0", "list:1"]
    assert (page["truncated"], page["nextAfter"]) == (True, "list:1")
    rows = await queen.timers.list_all(name, limit=2)
    assert [row["timerKey"] for row in rows] == [f"list:{number}" for number in range(5)]
    assert "payload" not in rows[0]
    shown = await queen.timers.peek(name, "list:3")
    assert json.loads(b64decode(shown["payload"])) == {"i": 3}
    assert (shown["encrypted"], shown["attempts"], shown["lastError"]) == (False, 0, None)
    assert await queen.timers.list(f"{name}-never") == {
        "rows": [],
        "truncated": False,
        "nextAfter": None,
    }


async def test_batch_is_done_whole(queen: Queen, http: httpx.AsyncClient, name: str) -> None:
    op = queen.timers.op
    results = await queen.timers.batch(
        [
            op.schedule(name, "a", 1, delay_ms=HOUR),
            op.schedule(name, "b", 2, delay_ms=HOUR),
            op.cancel(name, "c"),
        ]
    )
    assert [(result["timerKey"], result["status"]) for result in results] == [
        ("a", "scheduled"),
        ("b", "scheduled"),
        ("c", "absent"),
    ]
    with pytest.raises(TimerError) as caught:
        await queen.timers.batch(
            [op.schedule(name, "dup", 1, delay_ms=1000), op.schedule(name, "dup", 2, delay_ms=1)]
        )
    assert (caught.value.status, caught.value.code) == (400, "timers_bad_request")
    too_large = schedule(name, "big", payload=b64encode(b'"%b"' % (b"x" * 2**25)).decode())
    answer = await http.post("/timers", json={"operations": [schedule(name, "new"), too_large]})
    assert (answer.status_code, answer.json()["code"]) == (413, "payload_too_large")
    assert [row["timerKey"] for row in await queen.timers.list_all(name)] == ["a", "b"]


async def test_refused_timer_is_named_and_makes_no_queue(
    http: httpx.AsyncClient, name: str
) -> None:
    wrong: list[dict[str, Any]] = [
        {**schedule(name), "delayMs": "1"},
        {**schedule(name), "delayMs": 1e15},
        {**schedule(name), "payload": "no base64!"},
        {**schedule(name), "payload": b64encode(b"no json").decode()},
        {**schedule(name), "payload": b64encode(b'"\xff"').decode()},
        {**schedule(name), "payload": {"a": 1}},
        {**schedule(name), "payloadZstd": True},
        {**schedule(name), "partition": ""},
        {**schedule(name), "timerKey": ""},
        {**schedule(name), "timerKey": "a\0b"},
        {**schedule(name), "timerKey": "a/"},
        {**schedule(name), "txn": ""},
        {**schedule(name), "txn": "\N{GRINNING FACE}" * 500, "partition": "p" * 100},
        {**schedule(name), "producerSub": "somebody"},
        {**schedule(name), "messageId": "0"},
        {**schedule(name), "deliverAt": "2026-01-01"},
        {"op": "fire", "queue": name, "timerKey": "t"},
    ]
    wrong += [
        {key: value for key, value in schedule(name).items() if key != field}
        for field in ("queue", "timerKey", "payload", "delayMs", "txn")
    ]
    for operation in wrong:
        answer = await http.post("/timers", json={"operations": [schedule(name, "x"), operation]})
        assert answer.status_code == 400, (operation, answer.text)
        assert answer.json()["code"] == "timers_bad_request"
    assert (await http.get(f"/resources/queues/{name}")).status_code == 404


async def test_options_of_the_queue_apply_to_its_timers(queen: Queen, name: str) -> None:
    await queen.queue(name).config({"encryptionEnabled": True, "maxSize": 1}).create()
    secret = {"pin": "very-secret-1234"}
    await queen.timers.schedule(name, "a", secret, delay_ms=HOUR)
    shown = await queen.timers.peek(name, "a")
    assert shown["encrypted"]
    assert b64encode(json.dumps(secret).encode()).decode() not in shown["payload"]
    await queen.timers.reschedule(name, "a", secret, delay_ms=0)
    [first] = await until(lambda: pop(queen, name))
    assert first["data"] == secret
    await queen.timers.schedule(name, "b", "second", delay_ms=0)

    async def has_waited() -> bool:
        return bool((await queen.timers.peek(name, "b")).get("attempts"))

    await until(has_waited)
    assert "full" in (await queen.timers.peek(name, "b"))["lastError"]
    await queen.ack(first)
    assert data_of(await until(lambda: pop(queen, name))) == ["second"]


async def test_timer_with_a_known_transaction_id_pushes_nothing(queen: Queen, name: str) -> None:
    await queen.queue(name).push([{"data": 1, "transactionId": "known"}])
    await queen.timers.schedule(name, "t", 2, delay_ms=0, txn="known")

    async def is_gone() -> bool:
        return not await queen.timers.peek(name, "t")

    await until(is_gone)
    assert data_of(await pop(queen, name)) == [1]


async def test_deleting_a_queue_deletes_its_timers(queen: Queen, name: str) -> None:
    await push(queen, name, [1])
    await queen.timers.schedule(name, "t", 2, delay_ms=HOUR)
    await queen.queue(name).delete()
    assert not await queen.timers.peek(name, "t")
    await push(queen, name, [1])
    assert not await queen.timers.peek(name, "t")


async def test_many_timers_are_each_pushed_once(queen: Queen, name: str) -> None:
    op = queen.timers.op
    for start in range(0, 1000, 250):
        await queen.timers.batch(
            [
                op.schedule(name, f"t{n}", n, delay_ms=n % 50, partition=f"p{n % 7}")
                for n in range(start, start + 250)
            ]
        )
    seen: list[int] = []

    async def all_seen() -> bool:
        result = await queen.queue(name).batch(500).partitions(7).wait(False).pop()
        seen.extend(data_of(result))
        if result:
            await queen.ack(result)
        return len(seen) >= 1000

    await until(all_seen, seconds=30)
    assert sorted(seen) == list(range(1000))
    assert await queen.timers.list_all(name) == []
