"""Queues and groups that are created when first named, and may change during a request."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from laneway.domain.errors import QueueChanged, QueueNotFound, TransientConflict
from laneway.server.queen.options import read_stored

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from laneway.domain.queues import Queue
    from laneway.engine import Broker
    from laneway.server.queen.pushes import Item

T = TypeVar("T")

# Attempts before giving up. Queues that change during each of them are a transient conflict.
TRIES = 10


async def retry_if_queues_changed(
    broker: Broker, items: Sequence[Item], call: Callable[[], Awaitable[T]]
) -> T:
    """Run the call again if it relied on cached queues that have changed since."""
    for _ in range(TRIES):
        try:
            return await call()
        except (QueueChanged, QueueNotFound):
            broker.queues.forget({item.queue for item in items})
    raise TransientConflict(
        "the queues were created, deleted or changed during every attempt: retry later"
    )


async def wait_for_queue(broker: Broker, name: str) -> None:
    """Return once a queue of this name exists."""
    while True:
        changed = broker.queues.next_change()
        try:
            await broker.queues.get(name)
        except QueueNotFound:
            await changed
        else:
            changed.cancel()
            return


async def list_stream_queues(
    broker: Broker, *, namespace: str | None = None, task: str | None = None
) -> list[Queue]:
    """Return the queues of a namespace and task, those with higher priority first."""
    found = []
    for queue in await broker.queues.list_all():
        stored = read_stored(queue)
        if namespace is not None and stored.get("namespace") != namespace:
            continue
        if task is not None and stored.get("task") != task:
            continue
        found.append(queue)
    found.sort(key=lambda queue: -read_stored(queue).get("priority", 0))
    return found
