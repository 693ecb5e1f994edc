"""The actions on message move tasks: redrive a dead-letter queue, or move it elsewhere."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import TYPE_CHECKING
from uuid import UUID

from laneway.domain.errors import QueueNotFound
from laneway.server.sqs.attributes import FIFO
from laneway.server.sqs.texts import Refusal
from laneway.server.sqs.wire import Request, Result

if TYPE_CHECKING:
    from laneway.domain.moves import MoveTask
    from laneway.domain.queues import Queue
    from laneway.server.sqs.exchange import Exchange

FASTEST = 500
MOST_RESULTS = 10


class StartMessageMoveTask(Request, kw_only=True):
    source_arn: str = ""
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None


class TaskHandle(Result, kw_only=True):
    task_handle: str


class CancelMessageMoveTask(Request, kw_only=True):
    task_handle: str = ""


class Cancelled(Result, kw_only=True):
    approximate_number_of_messages_moved: int


class ListMessageMoveTasks(Request, kw_only=True):
    source_arn: str = ""
    max_results: int | None = None


class TaskInfo(Result, kw_only=True):
    """A move task; only a running task has a handle for its cancellation."""

    status: str
    source_arn: str
    started_timestamp: int
    approximate_number_of_messages_moved: int | None = None
    approximate_number_of_messages_to_move: int | None = None
    task_handle: str | None = None
    destination_arn: str | None = None
    max_number_of_messages_per_second: int | None = None
    failure_reason: str | None = None


class Tasks(Result, kw_only=True):
    results: list[TaskInfo] | None = None


async def start_task(exchange: Exchange, request: StartMessageMoveTask) -> TaskHandle:
    source = await _find(exchange, request.source_arn, "SourceArn")
    rate = request.max_number_of_messages_per_second
    if rate is not None and not 1 <= rate <= FASTEST:
        raise Refusal.RATE.fault()
    queues = await exchange.broker.queues.list_all()
    if not any(queue.settings.dead_letter_queue == source.name for queue in queues):
        raise Refusal.SOURCE.fault()
    target = None
    if request.destination_arn:
        target = await _find(exchange, request.destination_arn, "DestinationArn")
        if target.name == source.name:
            raise Refusal.SAME_QUEUE.fault()
        if target.name.endswith(FIFO) != source.name.endswith(FIFO):
            raise Refusal.OTHER_QUEUE_TYPE.fault()
    elif exchange.identity.pattern is not None:
        raise Refusal.NO_DESTINATION.fault(
            key=exchange.identity.name, pattern=exchange.identity.pattern
        )
    task = await exchange.broker.moves.start(
        source.name, target=None if target is None else target.name, rate=rate
    )
    if task is None:
        raise Refusal.RUNNING.fault()
    return TaskHandle(task_handle=_write_handle(task, request.source_arn))


async def cancel_task(exchange: Exchange, request: CancelMessageMoveTask) -> Cancelled:
    if not request.task_handle:
        raise Refusal.MISSING.fault(parameter="TaskHandle")
    task, arn = _read_handle(request.task_handle)
    if not exchange.identity.may_use(_name(exchange, arn, "SourceArn")):
        # A handle of another queue's task is treated like one of a queue that does not exist.
        raise Refusal.RESOURCE.fault(parameter="SourceArn")
    source = await _find(exchange, arn, "SourceArn")
    # A handle may be forged: it must not end a task of another queue.
    moved = await exchange.broker.moves.cancel(task, queue_id=source.queue_id)
    if moved is None:
        raise Refusal.TASK.fault()
    return Cancelled(approximate_number_of_messages_moved=moved)


async def list_tasks(exchange: Exchange, request: ListMessageMoveTasks) -> Tasks:
    source = await _find(exchange, request.source_arn, "SourceArn")
    most = 1 if request.max_results is None else request.max_results
    if not 1 <= most <= MOST_RESULTS:
        raise Refusal.TASK_RESULTS.fault()
    tasks = await exchange.broker.moves.list_all(source.name, limit=most)
    return Tasks(results=[_show(exchange, task, request.source_arn) for task in tasks] or None)


async def _find(exchange: Exchange, arn: str, parameter: str) -> Queue:
    if not arn:
        raise Refusal.MISSING.fault(parameter=parameter)
    name = _name(exchange, arn, parameter)
    try:
        return await exchange.broker.queues.get(name)
    except QueueNotFound:
        raise Refusal.RESOURCE.fault(parameter=parameter) from None


def _name(exchange: Exchange, arn: str, parameter: str) -> str:
    try:
        return exchange.name_arn(arn, parameter)
    except QueueNotFound:
        raise Refusal.RESOURCE.fault(parameter=parameter) from None


def _show(exchange: Exchange, task: MoveTask, arn: str) -> TaskInfo:
    running = task.status == "RUNNING"
    return TaskInfo(
        status=task.status,
        source_arn=arn,
        started_timestamp=int(task.started_at.timestamp() * 1000),
        approximate_number_of_messages_moved=task.moved,
        approximate_number_of_messages_to_move=task.total,
        task_handle=_write_handle(task.task_id, arn) if running else None,
        destination_arn=exchange.write_arn(task.target)
        if task.target is not None and exchange.identity.may_use(task.target)
        else None,
        max_number_of_messages_per_second=task.rate,
        failure_reason=task.reason,
    )


def _write_handle(task: UUID, arn: str) -> str:
    return b64encode(json.dumps({"taskId": str(task), "sourceArn": arn}).encode()).decode()


def _read_handle(text: str) -> tuple[UUID, str]:
    try:
        content = json.loads(b64decode(text, validate=True))
        return UUID(content["taskId"]), str(content["sourceArn"])
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise Refusal.TASK_HANDLE.fault() from None
