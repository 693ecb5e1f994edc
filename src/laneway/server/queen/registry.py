"""Queues and groups that appear when they are first named."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from laneway.domain.errors import QueueExists, QueueNotFound
from laneway.server.queen.options import make_settings, name_parts, read_stored

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laneway.domain.queues import Queue
    from laneway.domain.settings import Start
    from laneway.engine import Broker
    from laneway.server.calls import Call


async def find_or_make_queue(call: Call[Any, Any], name: str) -> Queue:
    """Return the queue as it is remembered; one that is new is made with the defaults."""
    try:
        return await call.broker.find_queue(name)
    except QueueNotFound:
        settings = make_settings(name_parts(name), record_events=call.settings.activity.enabled)
        try:
            return await call.broker.create_queue(name, settings)
        except QueueExists:
            return await call.broker.get_queue(name)


async def find_or_make_queues(call: Call[Any, Any], names: Iterable[str]) -> dict[str, Queue]:
    return {name: await find_or_make_queue(call, name) for name in names}


async def wait_for_queue(broker: Broker, name: str) -> None:
    """Return once there is a queue of that name."""
    while True:
        changed = broker.next_change()
        try:
            await broker.get_queue(name)
        except QueueNotFound:
            await changed
        else:
            changed.cancel()
            return


def choose_start(mode: str | None, since: datetime | None) -> Start:
    """Return where a group begins at first contact."""
    if since is not None:
        return since
    return "new" if mode in {"new", "new-only"} else "all"


async def list_stream_queues(
    broker: Broker, *, namespace: str | None = None, task: str | None = None
) -> list[Queue]:
    """Return the queues of a namespace and task, those of higher priority first."""
    found = []
    for queue in await broker.list_queues():
        stored = read_stored(queue)
        if namespace is not None and stored.get("namespace") != namespace:
            continue
        if task is not None and stored.get("task") != task:
            continue
        found.append(queue)
    found.sort(key=lambda queue: -read_stored(queue).get("priority", 0))
    return found
