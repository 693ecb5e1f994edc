"""Every action of SQS: what it takes, who may call it, and what carries it out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from laneway.domain.keys import Role
from laneway.server.sqs import (
    configuring,
    moving,
    permissions,
    queues,
    receiving,
    sending,
    settling,
    tags,
)
from laneway.server.sqs.access import Reach, by_arns, by_name, by_url, filtered, looked_up

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from laneway.server.sqs.exchange import Exchange
    from laneway.server.sqs.wire import Request, Result


class Action(NamedTuple):
    """One action; its name is that of the request."""

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
            (configuring.GetQueueAttributes, by_url, configuring.get_queue_attributes),
            (configuring.ListDeadLetterSourceQueues, by_url, configuring.list_source_queues),
            (tags.ListQueueTags, by_url, tags.list_queue_tags),
            (moving.ListMessageMoveTasks, by_arns, moving.list_tasks),
        ),
        *_list(
            Role.WRITE,
            # What clients do first: a queue that is there is left as it is.
            (queues.CreateQueue, by_name, queues.create_queue),
            (sending.SendMessage, by_url, sending.send_message),
            (sending.SendMessageBatch, by_url, sending.send_batch),
            (receiving.ReceiveMessage, by_url, receiving.receive_message),
            (settling.DeleteMessage, by_url, settling.delete_message),
            (settling.DeleteMessageBatch, by_url, settling.delete_batch),
            (settling.ChangeMessageVisibility, by_url, settling.change_visibility),
            (settling.ChangeMessageVisibilityBatch, by_url, settling.change_batch),
        ),
        *_list(
            Role.ADMIN,
            (queues.DeleteQueue, by_url, queues.delete_queue),
            (queues.PurgeQueue, by_url, queues.purge_queue),
            (configuring.SetQueueAttributes, by_url, configuring.set_queue_attributes),
            (permissions.AddPermission, by_url, permissions.add_permission),
            (permissions.RemovePermission, by_url, permissions.remove_permission),
            (tags.TagQueue, by_url, tags.tag_queue),
            (tags.UntagQueue, by_url, tags.untag_queue),
            (moving.StartMessageMoveTask, by_arns, moving.start_task),
            (moving.CancelMessageMoveTask, looked_up, moving.cancel_task),
        ),
    )
}
