"""Reads by offset and lists of changed partitions, through the client."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import asyncpg

from tests.protocol.queen.calls import ack, pop, push

if TYPE_CHECKING:
    import httpx
    from queen import Queen

    from tests.protocol.conftest import Shared


async def push_each(http: httpx.AsyncClient, queue: str, items: list[tuple[str, str, Any]]) -> None:
    answer = await http.post(
        "/push",
        json={
            "items": [
                {"queue": queue, "partition": partition, "transactionId": key, "payload": data}
                for partition, key, data in items
            ]
        },
    )
    assert answer.status_code == 201


async def test_partitions_are_read_whole_and_from_an_offset(
    queen: Queen, http: httpx.AsyncClient, name: str
) -> None:
    """More partitions than the client asks for in one request."""
    partitions = [f"p{n}" for n in range(1200)]
    for n in range(3):
        await push_each(http, name, [(p, f"{p}-{n}", {"p": p, "n": n}) for p in partitions])
    found = await queen.queue(name).fetch(partitions)
    assert list(found) == partitions
    for p in partitions:
        part = found[p]
        assert [(r["offset"], r["payload"], r["transactionId"]) for r in part["records"]] == [
            (n, {"p": p, "n": n}, f"{p}-{n}") for n in range(3)
        ]
        assert (part["highWatermark"], part["logStartOffset"], part["nextOffset"]) == (3, 0, 3)
    await push_each(http, name, [("p7", "late", {"late": True})])
    later = await queen.queue(name).fetch(["p7", "p8"], offsets={"p7": 3, "p8": 3})
    assert [(r["offset"], r["payload"]) for r in later["p7"]["records"]] == [(3, {"late": True})]
    assert later["p8"]["records"] == []
    assert len(await pop(queen, name, partition="p9")) == 3
    nowhere = await queen.queue(f"{name}-never").fetch(["x"])
    assert nowhere["x"]["records"] == []


async def test_reads_leave_groups_as_they_are(queen: Queen, name: str) -> None:
    await push(queen, name, range(3))
    [first] = await pop(queen, name, 1, group="g")
    before = await queen.queue(name).fetch("Default")
    await ack(queen, first, group="g")
    assert await queen.queue(name).fetch("Default") == before
    assert [r["payload"] for r in before["Default"]["records"]] == [0, 1, 2]
    assert [m["data"] for m in await pop(queen, name, group="g")] == [1, 2]


async def test_large_partitions_are_read_in_several_requests(queen: Queen, name: str) -> None:
    data = [f"{n}" * 200_000 for n in range(9)]
    for each in data:
        await push(queen, name, [each], partition="a")
        await push(queen, name, [each], partition="b")
    found = await queen.queue(name).fetch(["a", "b"], max_bytes=500_000)
    for partition in "ab":
        assert [r["payload"] for r in found[partition]["records"]] == data


async def test_each_entry_says_where_its_partition_begins_and_ends(
    http: httpx.AsyncClient, queen: Queen, name: str, shared: Shared
) -> None:
    await push(queen, name, range(4))
    await http.post("/configure", json={"queue": f"{name}-empty"})

    async def fetch(*entries: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
        answer = await http.post(
            "/fetch", json={"entries": [{"queue": name, **entry} for entry in entries], **more}
        )
        assert answer.status_code == 200, answer.text
        found: list[dict[str, Any]] = answer.json()["entries"]
        return found

    whole, end, beyond, unknown, empty = await fetch(
        {"offset": 0},
        {"offset": 4},
        {"offset": 5},
        {"offset": 0, "partition": "nowhere"},
        {"offset": 0, "queue": f"{name}-empty"},
    )
    assert [r["offset"] for r in whole["records"]] == [0, 1, 2, 3]
    assert (whole["queue"], whole["partition"], "error" in whole) == (name, "Default", False)
    assert (end["records"], end["highWatermark"], "error" in end) == ([], 4, False)
    assert (beyond["records"], beyond["error"]) == ([], "OFFSET_OUT_OF_RANGE")
    for entry in (unknown, empty):
        assert entry["error"] == "UNKNOWN_TOPIC_OR_PARTITION"
        assert (entry["records"], entry["highWatermark"], entry["logStartOffset"]) == ([], 0, 0)
    few, starved = await fetch({"offset": 0}, {"offset": 0}, maxBytes=1)
    assert (len(few["records"]), starved["records"]) == (1, [])
    lane = int((await pop(queen, name, 1))[0]["partitionId"])
    connection = await asyncpg.connect(shared.dsn)
    try:
        # As when retention has dropped the segment with the first messages.
        await connection.execute(
            "delete from laneway.message where lane_id = $1 and seq <= 2", lane
        )
        await connection.execute("update laneway.lane set base = 2 where lane_id = $1", lane)
    finally:
        await connection.close()
    gone, kept = await fetch({"offset": 1}, {"offset": 2})
    assert (gone["error"], gone["logStartOffset"], gone["highWatermark"]) == (
        "OFFSET_OUT_OF_RANGE",
        2,
        4,
    )
    assert [r["offset"] for r in kept["records"]] == [2, 3]
    read = await queen.queue(name).fetch("Default")
    assert [r["offset"] for r in read["Default"]["records"]] == [2, 3]


async def test_encrypted_messages_are_read_as_pushed(queen: Queen, name: str) -> None:
    await queen.queue(name).config({"encryptionEnabled": True}).create()
    await push(queen, name, [{"secret": 1}])
    found = await queen.queue(name).fetch("Default")
    assert [r["payload"] for r in found["Default"]["records"]] == [{"secret": 1}]


async def test_queue_of_another_protocol_has_no_offsets(
    http: httpx.AsyncClient, api: httpx.AsyncClient, queue: str
) -> None:
    for number in range(3):
        body = {"queue": queue, "type": "mail", "payload": 1, "priority": number}
        assert (await api.post("/queue/message", json=body)).is_success
    entry = {"queue": queue, "partition": "mail", "offset": 0}
    answer = await http.post("/fetch", json={"entries": [entry]})
    [found] = answer.json()["entries"]
    assert (found["error"], found["records"]) == ("UNORDERED_PARTITION", [])


async def test_changed_partitions_are_listed_once_and_none_is_missed(
    queen: Queen, http: httpx.AsyncClient, name: str
) -> None:
    """More partitions than a page has."""
    before = datetime.now(UTC) - timedelta(minutes=1)
    names = [f"c{n}" for n in range(1100)]
    await push_each(http, name, [(p, p, 1) for p in names])
    first = await queen.queue(name).changed_since(before)
    assert sorted(p["name"] for p in first["partitions"]) == sorted(names)
    [one] = [p for p in first["partitions"] if p["name"] == "c5"]
    assert (one["lastOffset"], one["logStart"]) == (0, 0)
    nothing = await queen.queue(name).changed_since(first["safeTime"])
    assert nothing["partitions"] == []
    await push_each(http, name, [("c42", "again", 2)])
    after = await queen.queue(name).changed_since(first["safeTime"])
    assert [(p["name"], p["lastOffset"]) for p in after["partitions"]] == [("c42", 1)]
    assert after["partitions"][0]["lastWriteAt"] >= (first["safeTime"] or "Z")
    everything = await queen.queue(name).changed_since()
    assert len(everything["partitions"]) == len(names)
    nowhere = await queen.queue(f"{name}-never").changed_since(before)
    assert nowhere["partitions"] == []
    [message] = await pop(queen, name, partition="c5")
    assert one["id"] == message["partitionId"]


async def test_reader_that_follows_the_changes_sees_every_message(queen: Queen, name: str) -> None:
    total, partitions = 300, 10
    seen: dict[str, int] = {}
    done = asyncio.Event()

    async def write(writer: int) -> None:
        for n in range(writer, total, 3):
            await queen.queue(name).partition(f"p{n % partitions}").push([{"data": n}])

    async def follow() -> list[int]:
        found: list[int] = []
        since: str | None = None
        while True:
            last = done.is_set()
            changes = await queen.queue(name).changed_since(since)
            since = changes["safeTime"]
            wanted = [p["name"] for p in changes["partitions"]]
            for part, read in (await queen.queue(name).fetch(wanted, offsets=seen)).items():
                found += [r["payload"] for r in read["records"]]
                seen[part] = read["nextOffset"]
            if last:
                return found

    reader = asyncio.ensure_future(follow())
    await asyncio.gather(*(write(writer) for writer in range(3)))
    done.set()
    assert sorted(await reader) == list(range(total))


async def test_refused_reads_are_named(http: httpx.AsyncClient, name: str) -> None:
    entry = {"queue": name, "offset": 0}
    for body in (
        {"entries": [{"queue": name}]},
        {"entries": [{**entry, "offset": -1}]},
        {"entries": [{**entry, "offset": "0"}]},
        {"entries": [{**entry, "maxBytes": 0}]},
        {"entries": [{**entry, "group": "g"}]},
        {"entries": [entry] * 1025},
        {},
    ):
        assert (await http.post("/fetch", json=body)).status_code == 400, body
    assert (await http.post("/fetch", json={"entries": []})).json() == {"entries": []}
    for wrong in (
        {"entries": [{"queue": name, "since": "yesterday"}]},
        {"entries": [{"queue": name}] * 65},
        {"entries": [{"queue": ""}]},
    ):
        assert (await http.post("/partitions/changed", json=wrong)).status_code == 400, wrong
    answer = await http.post(
        "/partitions/changed", json={"entries": [{"queue": name, "after": "x"}]}
    )
    assert answer.json()["entries"] == [{"queue": name, "error": "BAD_CURSOR"}]
    answer = await http.post("/partitions/changed", json={"entries": []})
    assert set(answer.json()) == {"safeTime", "entries"}
