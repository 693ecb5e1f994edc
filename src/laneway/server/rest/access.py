"""Which queues the REST routes about queues and lists touch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laneway.server.access import named, named_or_filtered
from laneway.server.rest.leases import locate

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.server.calls import Call


@named
async def queue_in_path(call: Call[Any, Any], /) -> Sequence[str]:
    return (call.parameters.name,)


@named
async def queue_in_query(call: Call[Any, Any], /) -> Sequence[str] | None:
    """Return the queue that the request names, else None for all queues."""
    named = call.parameters.queue_name
    return None if named is None else (named,)


@named_or_filtered
async def queue_shown(call: Call[Any, Any], /) -> Sequence[str]:
    """Return the queue that the request names; without one, the list is filtered."""
    named = call.parameters.queue_name
    return () if named is None else (named,)


async def find_usable(call: Call[Any, Any], ids: Sequence[str]) -> Sequence[int]:
    """Return the positions of the messages that the key may use; it never sees the others."""
    if call.identity.pattern is None:
        return range(len(ids))
    found = await locate(call.broker, ids, look=False)
    return sorted(each.position for each in found if call.identity.may_use(each.queue))


async def choose_queues(call: Call[Any, Any], named: str | None) -> Sequence[str] | None:
    """Return the queues to show: the one named, else all that the key may use (None: no limit)."""
    if named is not None:
        return [named]
    if call.identity.pattern is None:
        return None
    queues = await call.broker.queues.list_all()
    return [queue.name for queue in queues if call.identity.may_use(queue.name)]
