"""AddPermission and RemovePermission: statements of a queue's policy, stored but not enforced."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import msgspec

from laneway.domain.settings import QueueChanges
from laneway.engine.pumps.conflicts import retry_conflicts
from laneway.server.sqs.attributes import SECTION, read_own
from laneway.server.sqs.owners import find_partition
from laneway.server.sqs.texts import Refusal
from laneway.server.sqs.wire import QueueRequest

if TYPE_CHECKING:
    from laneway.domain.queues import Queue
    from laneway.server.sqs.exchange import Exchange

MOST_ACTIONS = 7

_LABEL = re.compile(r"[A-Za-z0-9_-]{1,80}")
_ACCOUNT = re.compile(r"[0-9]{12}")
_ACTIONS = frozenset(
    {
        "*",
        "ChangeMessageVisibility",
        "DeleteMessage",
        "GetQueueAttributes",
        "GetQueueUrl",
        "ListDeadLetterSourceQueues",
        "PurgeQueue",
        "ReceiveMessage",
        "SendMessage",
    }
)
_OWNERS_ACTIONS = frozenset(
    {
        "AddPermission",
        "CancelMessageMoveTask",
        "CreateQueue",
        "DeleteQueue",
        "ListMessageMoveTasks",
        "ListQueueTags",
        "ListQueues",
        "RemovePermission",
        "SetQueueAttributes",
        "StartMessageMoveTask",
        "TagQueue",
        "UntagQueue",
    }
)


class AddPermission(QueueRequest, kw_only=True):
    label: str = ""
    aws_account_ids: list[str] = msgspec.field(default_factory=list)
    actions: list[str] = msgspec.field(default_factory=list)


class RemovePermission(QueueRequest, kw_only=True):
    label: str = ""


async def add_permission(exchange: Exchange, request: AddPermission) -> None:
    await retry_conflicts(lambda: _add(exchange, request))


async def remove_permission(exchange: Exchange, request: RemovePermission) -> None:
    await retry_conflicts(lambda: _remove(exchange, request))


async def _add(exchange: Exchange, request: AddPermission) -> None:
    queue = await exchange.get_queue(request)
    _check(request)
    arn = exchange.write_arn(queue.name)
    policy = _read_policy(queue, arn)
    if any(_is_named(statement, request.label) for statement in policy["Statement"]):
        raise Refusal.LABEL_EXISTS.fault(value=request.label)
    partition = find_partition(exchange.find_owned(queue.name).owner.region)
    accounts = [f"arn:{partition}:iam::{each}:root" for each in request.aws_account_ids]
    policy["Statement"].append(
        {
            "Sid": request.label,
            "Effect": "Allow",
            "Principal": {"AWS": _list(accounts)},
            "Action": _list([f"SQS:{action}" for action in request.actions]),
            "Resource": arn,
        }
    )
    await _store(exchange, queue, policy)


async def _remove(exchange: Exchange, request: RemovePermission) -> None:
    queue = await exchange.get_queue(request)
    if not request.label:
        raise Refusal.MISSING.fault(parameter="Label")
    policy = _read_policy(queue, exchange.write_arn(queue.name))
    left = [item for item in policy["Statement"] if not _is_named(item, request.label)]
    if len(left) == len(policy["Statement"]):
        raise Refusal.LABEL_UNKNOWN.fault(value=request.label)
    await _store(exchange, queue, {**policy, "Statement": left} if left else None)


def _check(request: AddPermission) -> None:
    if not request.label:
        raise Refusal.MISSING.fault(parameter="Label")
    if not _LABEL.fullmatch(request.label):
        raise Refusal.LABEL.fault(value=request.label)
    if not request.actions:
        raise Refusal.MISSING.fault(parameter="Actions")
    accounts = request.aws_account_ids
    if not accounts or not all(map(_ACCOUNT.fullmatch, accounts)):
        raise Refusal.PRINCIPAL.fault(value=", ".join(accounts))
    if len(request.actions) > MOST_ACTIONS:
        raise Refusal.ACTIONS.fault(count=len(request.actions))
    for action in request.actions:
        if action in _OWNERS_ACTIONS:
            raise Refusal.OWNERS_ACTION.fault(action=action)
        if action not in _ACTIONS:
            raise Refusal.ACTION_NAME.fault(action=action)


def _list(items: list[str]) -> str | list[str]:
    """Return the items as AWS writes them in a policy: a single one as a string."""
    return items[0] if len(items) == 1 else items


def _read_policy(queue: Queue, arn: str) -> dict[str, Any]:
    text = read_own(queue).get("Policy")
    if not text:
        return {"Version": "2008-10-17", "Id": f"{arn}/SQSDefaultPolicy", "Statement": []}
    policy: dict[str, Any] = json.loads(text)
    statements = policy.get("Statement", [])
    return {**policy, "Statement": statements if isinstance(statements, list) else [statements]}


def _is_named(statement: Any, label: str) -> bool:
    """Return whether the statement has the label; a policy may contain any JSON."""
    return isinstance(statement, dict) and statement.get("Sid") == label


async def _store(exchange: Exchange, queue: Queue, policy: dict[str, Any] | None) -> None:
    """Store the policy, unless the queue was changed since it was read."""
    text = None if policy is None else json.dumps(policy, separators=(",", ":"))
    options = {"attributes": {"Policy": text}}
    await exchange.broker.queues.configure(
        queue.name, QueueChanges(), SECTION, options, seen=queue.updated_at
    )
