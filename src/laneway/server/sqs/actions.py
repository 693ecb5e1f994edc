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

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from laneway.server.sqs.exchange import Exchange
    from laneway.server.sqs.wire import Request, Result


class Action(NamedTuple):
    """One action; its name is that of the request."""

    name: str
    request: type[Request]
    role: Role
    run: Callable[[Exchange, Any], Awaitable[Result | None]]


def _list(role: Role, *pairs: tuple[type[Request], Any]) -> list[Action]:
    return [Action(request.__name__, request, role, run) for request, run in pairs]


ACTIONS: dict[str, Action] = {
    action.name: action
    for action in (
        *_list(
            Role.READ,
            (queues.GetQueueUrl, queues.get_queue_url),
            (queues.ListQueues, queues.list_queues),
            (configuring.GetQueueAttributes, configuring.get_queue_attributes),
            (configuring.ListDeadLetterSourceQueues, configuring.list_source_queues),
            (tags.ListQueueTags, tags.list_queue_tags),
            (moving.ListMessageMoveTasks, moving.list_tasks),
        ),
        *_list(
            Role.WRITE,
            (sending.SendMessage, sending.send_message),
            (sending.SendMessageBatch, sending.send_batch),
            (receiving.ReceiveMessage, receiving.receive_message),
            (settling.DeleteMessage, settling.delete_message),
            (settling.DeleteMessageBatch, settling.delete_batch),
            (settling.ChangeMessageVisibility, settling.change_visibility),
            (settling.ChangeMessageVisibilityBatch, settling.change_batch),
        ),
        *_list(
            Role.ADMIN,
            (queues.CreateQueue, queues.create_queue),
            (queues.DeleteQueue, queues.delete_queue),
            (queues.PurgeQueue, queues.purge_queue),
            (configuring.SetQueueAttributes, configuring.set_queue_attributes),
            (permissions.AddPermission, permissions.add_permission),
            (permissions.RemovePermission, permissions.remove_permission),
            (tags.TagQueue, tags.tag_queue),
            (tags.UntagQueue, tags.untag_queue),
            (moving.StartMessageMoveTask, moving.start_task),
            (moving.CancelMessageMoveTask, moving.cancel_task),
        ),
    )
}
