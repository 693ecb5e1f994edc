"""A field has one name and one type, wherever a message or a run is read."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from laneway import Status, step
from tests.library.workers import make_app, running

if TYPE_CHECKING:
    from laneway import Connection

SHARED = (
    "id",
    "queue",
    "group",
    "payload",
    "body",
    "headers",
    "partition",
    "priority",
    "attempt",
    "dedup_key",
    "created_at",
    "locked_until",
)


async def test_listed_message_agrees_with_the_delivered_one(lane: Connection, queue: str) -> None:
    await lane.producer(queue).enqueue(
        {"a": [1, "ü"]}, priority=3, dedup_key="k", partition="p", headers={"trace": {"id": 1}}
    )
    message = await lane.consumer(queue).dequeue()
    assert message is not None
    (row,) = await lane.admin.messages(queue, Status.PROCESSING)
    for name in SHARED:
        assert getattr(row, name) == getattr(message, name), name
    assert row.headers == {"trace": {"id": 1}}
    # The names of 0.2.0.
    assert (row.until, row.key, row.text_id) == (message.locked_until, "k", str(message.id))


async def test_message_without_headers_has_empty_ones(lane: Connection, queue: str) -> None:
    await lane.producer(queue).enqueue(None)
    (row,) = await lane.admin.messages(queue)
    assert (row.headers, row.payload, row.locked_until) == ({}, None, None)


async def test_results_of_runs_and_steps_are_values(
    lane: Connection, address: str, queue: str
) -> None:
    app = make_app(address)

    @step
    async def pack(order: dict[str, int]) -> dict[str, int]:
        return order | {"parcels": 2}

    @app.workflow(name=queue, queue=queue)
    async def ship(order: dict[str, int]) -> list[int]:
        return [(await pack(order))["parcels"]]

    async with running(app):
        run = await lane.start(queue, {"id": 1}, queue=queue)
        assert await run.result(timedelta(seconds=30)) == [2]
    info = await run.info()
    assert (info.input, info.result) == ([{"id": 1}], [2])
    assert [item.result for item in await run.steps()] == [{"id": 1, "parcels": 2}]
