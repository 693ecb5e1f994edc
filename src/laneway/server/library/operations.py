"""One operation for each of the library's calls."""

from __future__ import annotations

from contextlib import suppress
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from laneway.client.wire import list_shapes
from laneway.domain.errors import Conflict, RunNotFound, WorkerNotFound
from laneway.domain.messages import require_level
from laneway.domain.settings import QueueSettings, name_target_queues
from laneway.server.access import (
    Kind,
    Reach,
    by_token,
    checked,
    every_queue,
    looked_up,
    named,
    nothing,
)
from laneway.server.claims import Claims
from laneway.server.errors import Forbidden
from laneway.server.operations import Operation, Response, Role
from laneway.server.responses import answer_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import msgspec

    from laneway.client.wire import Shape
    from laneway.server.calls import Call
    from laneway.server.responses import Answer


def _make(shape: Shape) -> Operation[None, Any]:
    name = shape.name
    role, reach = DECLARED[name]
    return Operation(
        method="POST",
        path=f"/{name}",
        handler=_HANDLERS.get(name) or _bind(shape),
        summary=f"Run the library's call {name}",
        body=shape.request,
        answers={200: Response(None, "What the call returns.")},
        role=role,
        reach=reach,
        hidden=True,
        tag="library",
    )


def _bind(shape: Shape) -> Callable[[Call[None, Any]], Awaitable[Answer]]:
    method = attrgetter(shape.method)

    async def handle(call: Call[None, Any]) -> Answer:
        return answer_json(200, await method(call.broker)(**_read(shape, call.body)))

    return handle


async def _claim(call: Call[None, Any]) -> Answer:
    """Claim messages; a claim that may wait is a long poll.

    No other consumer shares its token, because the token is the proof of a lease.
    """
    arguments = _read(SHAPES["claim"], call.body)
    async with Claims(call) as claims:
        wait = bool(arguments["wait"])
        claim = call.broker.claim(**arguments, own_token=True)
        return answer_json(200, await claims.make(claim, wait=wait))


async def _push(call: Call[None, Any]) -> Answer:
    """Push messages of the priorities that this server allows."""
    arguments = _read(SHAPES["push"], call.body)
    for message in arguments["messages"]:
        require_level(message.priority, call.service.settings.priority_levels)
    return answer_json(200, await call.broker.push(**arguments))


async def _start_run(call: Call[None, Any]) -> Answer:
    """Start a run of a priority that this server allows."""
    arguments = _read(SHAPES["start_run"], call.body)
    require_level(arguments["priority"], call.service.settings.priority_levels)
    return answer_json(200, await call.broker.workflows.start_run(**arguments))


async def _fire_schedule(call: Call[None, Any]) -> Answer:
    """Push a periodic job's message of a priority that this server allows."""
    arguments = _read(SHAPES["fire_schedule"], call.body)
    require_level(arguments["message"].priority, call.service.settings.priority_levels)
    return answer_json(200, await call.broker.workers.fire_schedule(**arguments))


async def _register_schedule(call: Call[None, Any]) -> Answer:
    """Store a periodic job whose message has a priority that this server allows."""
    arguments = _read(SHAPES["register_schedule"], call.body)
    require_level(arguments["message"].priority, call.service.settings.priority_levels)
    await call.broker.schedules.register(**arguments)
    return answer_json(200, None)


def _read(shape: Shape, body: msgspec.Struct) -> dict[str, Any]:
    arguments = {name: getattr(body, name) for name in body.__struct_fields__}
    for name, turn in shape.turns.items():
        arguments[name] = turn(arguments[name])
    return arguments


async def _find_result(call: Call[None, Any]) -> Answer:
    """Return a message's result, or null if the API key may not use its queue."""
    if not await _may_use_message(call):
        return answer_json(200, None)
    return answer_json(200, await call.broker.workers.find_result(call.body.message))


async def _find_job(call: Call[None, Any]) -> Answer:
    """Return a message and its result, or null if the API key may not use its queue."""
    if not await _may_use_message(call):
        return answer_json(200, None)
    return answer_json(200, await call.broker.workers.find_job(call.body.message))


async def _cancel_job(call: Call[None, Any]) -> Answer:
    """Cancel a message; false if there is none, or if the API key may not use its queue."""
    if not await _may_use_message(call):
        return answer_json(200, False)  # noqa: FBT003 - the answer's body
    return answer_json(200, await call.broker.workers.cancel_job(call.body.message))


async def _may_use_message(call: Call[None, Any]) -> bool:
    if call.identity.pattern is None:
        return True
    (queue,) = await call.broker.messages.locate([call.body.message])
    return queue is not None and call.identity.may_use(queue)


async def _list_workers(call: Call[None, Any]) -> Answer:
    """Return a queue's workers, without those that serve a queue that the API key may not use."""
    workers = await call.broker.workers.list_all(call.body.queue)
    may_use = call.identity.may_use
    return answer_json(200, [each for each in workers if all(map(may_use, each.queues))])


@named
async def _queue(call: Call[Any, Any], /) -> Sequence[str]:
    return (call.body.queue,)


@named
async def _name(call: Call[Any, Any], /) -> Sequence[str]:
    return (call.body.name,)


@named
async def _new_queue(call: Call[Any, Any], /) -> Sequence[str]:
    settings = call.body.settings or QueueSettings()
    targets = name_target_queues(settings.dead_letter_queue, settings.dead_letter_source)
    return (call.body.name, *targets)


@named
async def _changed_queue(call: Call[Any, Any], /) -> Sequence[str]:
    changes = call.body.changes
    targets = name_target_queues(
        changes.get("dead_letter_queue"), changes.get("dead_letter_source")
    )
    return (call.body.name, *targets)


@named
async def _queue_or_all(call: Call[Any, Any], /) -> Sequence[str] | None:
    return None if call.body.queue is None else (call.body.queue,)


@checked
async def _run(call: Call[Any, Any], /) -> None:
    """Refuse a run of a queue that the API key may not use, or whose queue was deleted."""
    run_id = call.body.run_id
    queue = await call.broker.workflows.find_run_queue(run_id)
    if queue is None or not call.identity.may_use(queue):
        raise RunNotFound(run=run_id)


@checked
async def _worker(call: Call[Any, Any], /) -> None:
    """Refuse a worker that serves a queue that the API key may not use."""
    worker_id = call.body.worker_id
    if not await _owns_worker(call, worker_id):
        raise WorkerNotFound(worker=worker_id)


async def _queues_of_new_worker(call: Call[Any, Any], /) -> Sequence[str]:
    return list(call.body.identity.queues)


async def _require_worker_free(call: Call[Any, Any], /) -> None:
    """Refuse a worker without queues, and an id that a worker of other queues has."""
    worker_id = call.body.identity.worker_id
    if not call.body.identity.queues:
        raise Forbidden(
            f'worker "{worker_id}" names no queue, and API key "{call.identity.name}" is limited to '
            f'queues like "{call.identity.pattern}": register the worker for one of them'
        )
    if await _owns_worker(call, worker_id) is False:
        raise Conflict(f'worker id "{worker_id}" is taken: choose another id')


async def _queue_of_new_run(call: Call[Any, Any], /) -> Sequence[str]:
    return (call.body.queue,)


async def _require_run_free(call: Call[Any, Any], /) -> None:
    """Refuse an id that a run in another queue has, without revealing that queue."""
    run_id = call.body.run_id
    with suppress(RunNotFound):
        queue = await call.broker.workflows.find_run_queue(run_id)
        if queue is None or not call.identity.may_use(queue):
            raise Conflict(f'run id "{run_id}" is taken: choose another id')


async def _owns_worker(call: Call[Any, Any], worker_id: str) -> bool | None:
    """Return whether the API key may use all of a worker's queues; None if it does not exist."""
    try:
        queues = await call.broker.workers.find_queues(worker_id)
    except WorkerNotFound:
        return None
    return bool(queues) and all(map(call.identity.may_use, queues))


_NEW_WORKER = Reach(Kind.NAMED, _queues_of_new_worker, _require_worker_free)
_NEW_RUN = Reach(Kind.NAMED, _queue_of_new_run, _require_run_free)

# Every call of Backend, with its role and the queues that it uses.
DECLARED: dict[str, tuple[Role, Reach]] = {
    "ping": (Role.READ, nothing),
    "install": (Role.ADMIN, every_queue),
    "verify": (Role.READ, every_queue),
    "create_key": (Role.ADMIN, every_queue),
    "revoke_key": (Role.ADMIN, every_queue),
    "list_keys": (Role.ADMIN, every_queue),
    "push": (Role.WRITE, _queue),
    "claim": (Role.WRITE, _queue),
    "ack": (Role.WRITE, by_token),
    "ack_results": (Role.WRITE, by_token),
    "nack": (Role.WRITE, by_token),
    "release": (Role.WRITE, by_token),
    "extend": (Role.WRITE, by_token),
    "extend_any": (Role.WRITE, _queue),
    "archive_held": (Role.WRITE, _queue),
    "find_result": (Role.READ, looked_up),
    "find_job": (Role.READ, looked_up),
    "cancel_job": (Role.WRITE, looked_up),
    "create_queue": (Role.ADMIN, _new_queue),
    "update_queue": (Role.ADMIN, _changed_queue),
    "delete_queue": (Role.ADMIN, _name),
    "get_queue": (Role.READ, _name),
    "list_queues": (Role.READ, every_queue),
    "create_group": (Role.ADMIN, _queue),
    "list_groups": (Role.READ, _queue),
    "delete_group": (Role.ADMIN, _queue),
    "seek_group": (Role.ADMIN, _queue),
    "list_failures": (Role.READ, _queue),
    "browse_dead_letters": (Role.READ, _queue),
    "redrive_dead_letters": (Role.WRITE, _queue),
    "purge_dead_letters": (Role.ADMIN, _queue),
    "purge": (Role.ADMIN, _queue),
    "hasten": (Role.WRITE, _queue),
    "replay": (Role.WRITE, _queue),
    "browse": (Role.READ, _queue),
    "metrics": (Role.READ, _queue_or_all),
    "follow_queue": (Role.READ, _queue),
    "system_stats": (Role.READ, every_queue),
    "register_worker": (Role.WRITE, _NEW_WORKER),
    "beat_worker": (Role.WRITE, _worker),
    "hold_for_worker": (Role.WRITE, _worker),
    "step_worker": (Role.WRITE, _worker),
    "ask_worker": (Role.ADMIN, every_queue),
    "list_workers": (Role.READ, _queue_or_all),
    "reclaim_worker": (Role.ADMIN, every_queue),
    "reclaim_dead": (Role.ADMIN, every_queue),
    "purge_workers": (Role.ADMIN, every_queue),
    "fire_schedule": (Role.WRITE, _queue),
    "register_schedule": (Role.WRITE, _queue),
    "list_schedules": (Role.READ, _queue_or_all),
    "pause_schedule": (Role.ADMIN, _queue),
    "run_schedule": (Role.WRITE, _queue),
    "start_run": (Role.WRITE, _NEW_RUN),
    "load_run": (Role.READ, _run),
    "load_steps": (Role.READ, _run),
    "drive_run": (Role.WRITE, _run),
    "store_step": (Role.WRITE, _run),
    "end_run": (Role.WRITE, _run),
    "await_steps": (Role.WRITE, _run),
    "complete_step": (Role.WRITE, _run),
    "ask_run": (Role.WRITE, _run),
    "list_runs": (Role.READ, every_queue),
    "purge_runs": (Role.ADMIN, every_queue),
}
_HANDLERS = {
    "claim": _claim,
    "find_result": _find_result,
    "find_job": _find_job,
    "cancel_job": _cancel_job,
    "fire_schedule": _fire_schedule,
    "list_workers": _list_workers,
    "push": _push,
    "register_schedule": _register_schedule,
    "start_run": _start_run,
}

SHAPES = list_shapes()
OPERATIONS = tuple(map(_make, SHAPES.values()))
