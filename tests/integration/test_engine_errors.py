"""Errors name what they are about, whether Python or the database found it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from laneway.domain import errors
from laneway.domain.messages import OutgoingMessage
from laneway.domain.settings import EngineSettings, MaintenanceSettings
from laneway.domain.workers import WorkerIdentity
from laneway.engine import Broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine

QUIET = EngineSettings(maintenance=MaintenanceSettings(enabled=False))
MINUTE = timedelta(minutes=1)
WORKER = WorkerIdentity("w", "worker", "host", 1, ["jobs", "nowhere"], MINUTE)


@pytest.fixture
async def broker(database: str) -> AsyncIterator[Broker]:
    async with Broker(database, QUIET) as broker:
        await broker.queues.create("jobs")
        await broker.push("jobs", [OutgoingMessage("1")])
        yield broker


NO_QUEUE: dict[str, Callable[[Broker], Coroutine[Any, Any, object]]] = {
    "push": lambda broker: broker.push("nowhere", [OutgoingMessage("1")]),
    "claim": lambda broker: broker.claim("nowhere"),
    "update": lambda broker: broker.queues.update("nowhere", {"max_attempts": 1}),
    "delete": lambda broker: broker.queues.delete("nowhere"),
    "rename": lambda broker: broker.queues.rename("nowhere", "somewhere"),
    "create group": lambda broker: broker.groups.create("nowhere", "readers"),
    "subscribe": lambda broker: broker.subscriptions.subscribe("nowhere", "readers"),
    "metrics": lambda broker: broker.statistics.metrics("nowhere"),
    "move from": lambda broker: broker.moves.start("nowhere", target="jobs", rate=None),
    "move to": lambda broker: broker.moves.start("jobs", target="nowhere", rate=None),
    "register": lambda broker: broker.workers.register(WORKER),
    "start run": lambda broker: broker.workflows.start_run(
        "r", name="flow", queue="nowhere", arguments="[]"
    ),
}


@pytest.mark.parametrize("call", NO_QUEUE.values(), ids=NO_QUEUE.keys())
async def test_missing_queue_is_named(
    broker: Broker, call: Callable[[Broker], Coroutine[Any, Any, object]]
) -> None:
    with pytest.raises(errors.QueueNotFound) as raised:
        await call(broker)
    assert raised.value.queue == "nowhere"
    assert str(raised.value).startswith('queue "nowhere" not found. ')


async def test_other_errors_name_what_they_are_about(broker: Broker) -> None:
    await broker.groups.create("jobs", "readers")
    await broker.queues.create("other")
    cases: list[tuple[Coroutine[Any, Any, object], type[errors.LanewayError], dict[str, object]]]
    cases = [
        (broker.queues.create("jobs"), errors.QueueExists, {"queue": "jobs"}),
        (broker.queues.rename("other", "jobs"), errors.QueueExists, {"queue": "jobs"}),
        (broker.queues.delete("jobs"), errors.QueueNotEmpty, {"queue": "jobs"}),
        (
            broker.claim("jobs", group="nobody"),
            errors.GroupNotFound,
            {"queue": "jobs", "group": "nobody"},
        ),
        (
            broker.groups.create("jobs", "readers"),
            errors.GroupExists,
            {"queue": "jobs", "group": "readers"},
        ),
        (
            broker.workers.record_heartbeat("nobody", handled=0, failed=0),
            errors.WorkerNotFound,
            {"worker": "nobody"},
        ),
        (broker.workflows.load_run("none"), errors.RunNotFound, {"run": "none"}),
    ]
    for call, kind, data in cases:
        with pytest.raises(kind) as raised:
            await call
        assert {name: getattr(raised.value, name) for name in data} == data
