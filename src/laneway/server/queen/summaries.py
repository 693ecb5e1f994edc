"""The routes that sum up queues: by namespace, by task, and in total."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta

from laneway.server.access import filtered
from laneway.server.operations import Operation, Response, Role
from laneway.server.queen.resources import QueueShown, Totals, collect_queues
from laneway.server.responses import Answer, answer_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from laneway.server.calls import Call


class Namespace(msgspec.Struct, kw_only=True):
    """The queues of a namespace."""

    namespace: Annotated[str, Meta(description="Name of the namespace.")]
    queues: Annotated[int, Meta(description="How many queues it has.")]
    partitions: Annotated[int, Meta(description="How many partitions they have.")]
    messages: Annotated[Totals, Meta(description="Messages by state, in the queues' own groups.")]


class Namespaces(msgspec.Struct, kw_only=True):
    """The namespaces."""

    namespaces: Annotated[list[Namespace], Meta(description="The namespaces, by name.")]


class Task(msgspec.Struct, kw_only=True):
    """The queues of a task."""

    task: Annotated[str, Meta(description="Name of the task.")]
    queues: Annotated[int, Meta(description="How many queues it has.")]
    partitions: Annotated[int, Meta(description="How many partitions they have.")]
    messages: Annotated[Totals, Meta(description="Messages by state, in the queues' own groups.")]


class Tasks(msgspec.Struct, kw_only=True):
    """The tasks."""

    tasks: Annotated[list[Task], Meta(description="The tasks, by name.")]


class Overview(msgspec.Struct, kw_only=True):
    """Counts over all queues that the API key may use."""

    queues: Annotated[int, Meta(description="How many queues there are.")]
    partitions: Annotated[int, Meta(description="How many partitions they have.")]
    namespaces: Annotated[int, Meta(description="How many namespaces they have.")]
    tasks: Annotated[int, Meta(description="How many tasks they have.")]
    consumer_groups: Annotated[
        int, Meta(description="How many names of consumer groups they have.")
    ] = msgspec.field(name="consumerGroups")
    messages: Annotated[Totals, Meta(description="Messages by state, in the queues' own groups.")]
    timestamp: Annotated[datetime, Meta(description="When this was counted.")]


async def list_namespaces(call: Call[None, None]) -> Answer:
    found: dict[str, list[QueueShown]] = {}
    for queue in await collect_queues(call):
        if queue.namespace is not None:
            found.setdefault(queue.namespace, []).append(queue)
    return answer_json(
        200,
        Namespaces(
            namespaces=[
                Namespace(namespace=name, **_sum_up(queues))
                for name, queues in sorted(found.items())
            ]
        ),
    )


async def list_tasks(call: Call[None, None]) -> Answer:
    found: dict[str, list[QueueShown]] = {}
    for queue in await collect_queues(call):
        if queue.task is not None:
            found.setdefault(queue.task, []).append(queue)
    return answer_json(
        200,
        Tasks(tasks=[Task(task=name, **_sum_up(queues)) for name, queues in sorted(found.items())]),
    )


async def show_overview(call: Call[None, None]) -> Answer:
    return answer_json(200, make_overview(await collect_queues(call)))


def make_overview(queues: Sequence[QueueShown]) -> Overview:
    return Overview(
        namespaces=len({queue.namespace for queue in queues} - {None}),
        tasks=len({queue.task for queue in queues} - {None}),
        consumer_groups=len({name for queue in queues for name in queue.consumer_groups}),
        timestamp=datetime.now(UTC),
        **_sum_up(queues),
    )


def _sum_up(queues: Sequence[QueueShown]) -> dict[str, Any]:
    return {
        "queues": len(queues),
        "partitions": sum(queue.partitions for queue in queues),
        "messages": Totals(
            total=sum(queue.messages.total for queue in queues),
            pending=sum(queue.messages.pending for queue in queues),
            processing=sum(queue.messages.processing for queue in queues),
            completed=sum(queue.messages.completed for queue in queues),
            dead_letter=sum(queue.messages.dead_letter for queue in queues),
        ),
    }


OPERATIONS: tuple[Operation[Any, Any], ...] = (
    Operation(
        method="GET",
        path="/resources/namespaces",
        handler=list_namespaces,
        summary="List the namespaces",
        description="Returns the namespaces of the queues that the API key may use, with counts.",
        answers={200: Response(Namespaces, "The namespaces.")},
        role=Role.READ,
        reach=filtered,
        tag="resources",
    ),
    Operation(
        method="GET",
        path="/resources/tasks",
        handler=list_tasks,
        summary="List the tasks",
        description="Returns the tasks of the queues that the API key may use, with counts.",
        answers={200: Response(Tasks, "The tasks.")},
        role=Role.READ,
        reach=filtered,
        tag="resources",
    ),
    Operation(
        method="GET",
        path="/resources/overview",
        handler=show_overview,
        summary="Count queues, groups and messages",
        description="Returns counts over all queues that the API key may use.",
        answers={200: Response(Overview, "The counts.")},
        role=Role.READ,
        reach=filtered,
        tag="resources",
    ),
)
