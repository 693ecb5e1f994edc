"""One operation for each of the library's calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laneway.client.wire import list_shapes
from laneway.server.answers import answer_json
from laneway.server.metrics import Traffic
from laneway.server.operations import Operation, Role, every_queue, no_queue

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import msgspec

    from laneway.client.wire import Shape
    from laneway.domain.messages import Delivery
    from laneway.server.answers import Answer
    from laneway.server.calls import Call
    from laneway.server.operations import Reach

_READ = frozenset(
    {
        "ping",
        "browse",
        "follow_queue",
        "metrics",
        "system_stats",
        "get_queue",
        "list_queues",
        "list_workers",
        "list_runs",
        "load_run",
        "load_steps",
        "find_result",
        "verify",
    }
)
_ADMIN = frozenset(
    {
        "install",
        "create_queue",
        "update_queue",
        "delete_queue",
        "create_group",
        "purge",
        "ask_worker",
        "reclaim_worker",
        "reclaim_dead",
        "purge_workers",
        "purge_runs",
    }
)

# Whoever knows a token, or a worker's or run's id, got it by being allowed to.
_BY_SECRET = frozenset(
    {
        "ping",
        "ack",
        "ack_results",
        "nack",
        "release",
        "extend",
        "beat_worker",
        "hold_for_worker",
        "step_worker",
        "load_run",
        "load_steps",
        "drive_run",
        "store_step",
        "end_run",
    }
)
_COUNTED = {
    "push": Traffic.PUSHED,
    "ack": Traffic.ACKED,
    "ack_results": Traffic.ACKED,
}


def _make(shape: Shape) -> Operation[None, Any]:
    name = shape.name
    role = Role.READ if name in _READ else Role.ADMIN if name in _ADMIN else Role.WRITE
    return Operation(
        method="POST",
        path=f"/{name}",
        handler=_claim if name == "claim" else _bind(shape),
        summary=f"The library's call {name}",
        body=shape.request,
        answers={200: None},
        role=role,
        reach=_find_reach(shape),
        hidden=True,
        tag="library",
    )


def _bind(shape: Shape) -> Callable[[Call[None, Any]], Awaitable[Answer]]:
    counted = _COUNTED.get(shape.name)

    async def handle(call: Call[None, Any]) -> Answer:
        arguments = _read(shape, call.body)
        answer = await getattr(call.broker, shape.name)(**arguments)
        if counted is not None:
            given = arguments.get("messages") or arguments.get("receipts") or ()
            lost = 0 if counted is Traffic.PUSHED else len(answer)
            call.service.metrics.count_messages(counted, len(given) - lost)
        return answer_json(200, answer)

    return handle


async def _claim(call: Call[None, Any]) -> Answer:
    """Wait for as long as the client does; what comes after it has gone is given back."""
    arguments = _read(SHAPES["claim"], call.body)
    claim = call.broker.claim(**arguments)
    deliveries: list[Delivery]
    if arguments["wait"]:
        deliveries = await call.attend(claim, otherwise=[])
    else:
        deliveries = await claim
    if deliveries and call.is_gone():
        await call.broker.release([delivery.receipt for delivery in deliveries])
        call.leave()
    call.service.metrics.count_messages(Traffic.DELIVERED, len(deliveries))
    return answer_json(200, deliveries)


def _read(shape: Shape, body: msgspec.Struct) -> dict[str, Any]:
    arguments = {name: getattr(body, name) for name in body.__struct_fields__}
    for name, turn in shape.turns.items():
        arguments[name] = turn(arguments[name])
    return arguments


def _find_reach(shape: Shape) -> Reach:
    if shape.name in _BY_SECRET:
        return no_queue
    fields = shape.request.__struct_fields__
    if shape.name == "register_worker":
        return _queues_of_worker
    if "queue" in fields:
        return _named("queue")
    return _named("name") if shape.name in _QUEUES_BY_NAME else every_queue


_QUEUES_BY_NAME = frozenset({"create_queue", "update_queue", "delete_queue", "get_queue"})


def _named(field: str) -> Reach:
    async def reach(call: Call[Any, Any], /) -> Sequence[str] | None:
        name = getattr(call.body, field)
        return None if name is None else (name,)

    return reach


async def _queues_of_worker(call: Call[Any, Any], /) -> Sequence[str] | None:
    queues: Sequence[str] = call.body.identity.queues
    return queues


SHAPES = list_shapes()
OPERATIONS = tuple(map(_make, SHAPES.values()))
