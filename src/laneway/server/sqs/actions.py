"""Every action of SQS: its request, the role that it requires, and its handler."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from laneway.domain.keys import Role
from laneway.server.sqs import (
    acks,
    configuration,
    move_tasks,
    permissions,
    queues,
    receives,
    sends,
    tags,
)
from laneway.server.sqs.access import Reach, by_arns, by_name, by_url, filtered, looked_up

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from laneway.server.sqs.exchange import Exchange
    from laneway.server.sqs.wire import Request, Result


class Action(NamedTuple):
    """One action of SQS, by the name that requests give."""

    name: str
    request: type[Request]
    role: Role
    reach: Reach
    run: Callable[[Exchange, Any], Awaitable[Result | None]]


def _list(role: Role, *rows: tuple[type[Request], Reach, Any]) -> list[Action]:
    return [Action(request.__name__, request, role, reach, run) for request, reach, run in rows]


ACTIONS: dict[str, Action] = {
    action.name: action
    for action in (
        *_list(
            Role.READ,
            (queues.GetQueueUrl, by_name, queues.get_queue_url),
            (queues.ListQueues, filtered, queues.list_queues),
            (configuration.GetQueueAttributes, by_url, configuration.get_queue_attributes),
            (configuration.ListDeadLetterSourceQueues, by_url, configuration.list_source_queues),
            (tags.ListQueueTags, by_url, tags.list_queue_tags),
            (move_tasks.ListMessageMoveTasks, by_arns, move_tasks.list_tasks),
        ),
        *_list(
            Role.WRITE,
            # Clients call this first. It leaves an existing queue unchanged.
            (queues.CreateQueue, by_name, queues.create_queue),
            (sends.SendMessage, by_url, sends.send_message),
            (sends.SendMessageBatch, by_url, sends.send_batch),
            (receives.ReceiveMessage, by_url, receives.receive_message),
            (acks.DeleteMessage, by_url, acks.delete_message),
            (acks.DeleteMessageBatch, by_url, acks.delete_batch),
            (acks.ChangeMessageVisibility, by_url, acks.change_visibility),
            (acks.ChangeMessageVisibilityBatch, by_url, acks.change_batch),
        ),
        *_list(
            Role.ADMIN,
            (queues.DeleteQueue, by_url, queues.delete_queue),
            (queues.PurgeQueue, by_url, queues.purge_queue),
            (configuration.SetQueueAttributes, by_url, configuration.set_queue_attributes),
            (permissions.AddPermission, by_url, permissions.add_permission),
            (permissions.RemovePermission, by_url, permissions.remove_permission),
            (tags.TagQueue, by_url, tags.tag_queue),
            (tags.UntagQueue, by_url, tags.untag_queue),
            (move_tasks.StartMessageMoveTask, by_arns, move_tasks.start_task),
            (move_tasks.CancelMessageMoveTask, looked_up, move_tasks.cancel_task),
        ),
    )
}
