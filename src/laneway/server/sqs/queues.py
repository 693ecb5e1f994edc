"""The actions on queues: create, find, list, purge, delete."""

from __future__ import annotations

import re
from dataclasses import replace
from time import time
from typing import TYPE_CHECKING

import msgspec

from laneway.domain.errors import QueueExists
from laneway.domain.messages import Status
from laneway.domain.settings import QueueChanges, QueueSettings
from laneway.server.sqs.attributes import (
    DEFAULT_RETENTION,
    FIFO,
    LARGEST_MESSAGE,
    SECTION,
    are_equal,
    check_throughput,
    plan_change,
    read_options,
    read_values,
    show_attributes,
    size_limit,
)
from laneway.server.sqs.configuration import find_target
from laneway.server.sqs.errors import Fault, invalid, missing
from laneway.server.sqs.pages import cut_page
from laneway.server.sqs.tags import check_tags
from laneway.server.sqs.wire import QueueRequest, Request, Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laneway.server.sqs.attributes import Change
    from laneway.server.sqs.exchange import Exchange
    from laneway.server.sqs.owners import Owned

_NAME = re.compile(r"[A-Za-z0-9_-]{1,80}")


class CreateQueue(Request, kw_only=True):
    queue_name: str = ""
    attributes: dict[str, str] = msgspec.field(default_factory=dict)
    # Lower case in AWS's model, unlike every other member.
    tags: dict[str, str] = msgspec.field(name="tags", default_factory=dict)


class QueueUrl(Result, kw_only=True):
    queue_url: str


class GetQueueUrl(Request, kw_only=True):
    queue_name: str = ""
    queue_owner_aws_account_id: str | None = None


class ListQueues(Request, kw_only=True):
    queue_name_prefix: str = ""
    next_token: str | None = None
    max_results: int | None = None


class QueueUrls(Result, kw_only=True):
    queue_urls: list[str] | None = None
    next_token: str | None = None


class DeleteQueue(QueueRequest, kw_only=True):
    pass


class PurgeQueue(QueueRequest, kw_only=True):
    pass


async def create_queue(exchange: Exchange, request: CreateQueue) -> QueueUrl:
    """Create a queue; an existing one with the same attributes stays unchanged."""
    name = request.queue_name
    fifo = _check_name(name, request.attributes)
    attributes = read_values(request.attributes, fifo=fifo, new=True)
    check_throughput(attributes)
    check_tags(request.tags)
    queue = exchange.name_own(name)
    target = await find_target(exchange, queue, attributes)
    pause = exchange.settings.recreate_after
    if pause and await exchange.broker.queues.was_deleted(queue, within=pause):
        raise Fault(
            "QueueDeletedRecently",
            f"You must wait {pause.total_seconds():.0f} seconds after deleting a queue before you "
            "can create another with the same name.",
        )
    try:
        change = plan_change(attributes, target)
        settings = _read_settings(exchange, queue, change, request.tags, fifo=fifo)
        await exchange.broker.queues.create(queue, settings)
    except QueueExists:
        await _require_equal(exchange, queue, attributes)
    return QueueUrl(queue_url=exchange.write_url(queue))


async def get_queue_url(exchange: Exchange, request: GetQueueUrl) -> QueueUrl:
    if not request.queue_name:
        raise missing("QueueName")
    name = exchange.name_own(request.queue_name, request.queue_owner_aws_account_id)
    queue = await exchange.broker.queues.find(name)
    return QueueUrl(queue_url=exchange.write_url(queue.name))


async def list_queues(exchange: Exchange, request: ListQueues) -> QueueUrls:
    names = [
        queue.name
        for queue in await exchange.broker.queues.list_all()
        if _is_listed(exchange.find_owned(queue.name), exchange, request)
        and exchange.identity.may_use(queue.name)
    ]
    page = cut_page(names, request.next_token, request.max_results)
    urls = [exchange.write_url(name) for name in page.names]
    return QueueUrls(queue_urls=urls or None, next_token=page.next_token)


async def delete_queue(exchange: Exchange, request: DeleteQueue) -> None:
    name = exchange.name_queue(request)
    await exchange.broker.queues.delete(name, force=True)
    if exchange.settings.recreate_after:
        await exchange.broker.queues.note_deleted(name)


async def purge_queue(exchange: Exchange, request: PurgeQueue) -> None:
    """Delete ready and in-flight messages, not more often than the pause allows."""
    queue = await exchange.get_queue(request)
    name = exchange.find_owned(queue.name).name
    pause = exchange.settings.purge_after.total_seconds()
    if time() - read_options(queue).get("purged_at", 0) < pause:
        raise Fault(
            "PurgeQueueInProgress",
            f"Only one PurgeQueue operation on {name} is allowed every {pause:.0f} seconds.",
        )
    broker = exchange.broker
    await broker.queues.configure(queue.name, QueueChanges(), SECTION, {"purged_at": int(time())})
    for status in (Status.QUEUED, Status.PROCESSING):
        await broker.messages.purge(queue.name, status=status)


def _is_listed(owned: Owned, exchange: Exchange, request: ListQueues) -> bool:
    return owned.owner == exchange.owner and owned.name.startswith(request.queue_name_prefix)


def _check_name(name: str, attributes: Mapping[str, str]) -> bool:
    """Return whether a queue of this name and with these attributes is FIFO."""
    if not name:
        raise missing("QueueName")
    fifo = attributes.get("FifoQueue") == "true"
    stem = name.removesuffix(FIFO) if fifo else name
    if fifo and stem == name:
        raise invalid("The name of a FIFO queue must end with the .fifo suffix.")
    if not _NAME.fullmatch(stem) or len(name) > 80:  # noqa: PLR2004 - SQS's
        if name.endswith(FIFO):
            raise invalid(
                "The name of a FIFO queue can only include alphanumeric characters, hyphens, or "
                "underscores, must end with .fifo suffix and be 1 to 80 in length."
            )
        raise invalid(
            "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"
        )
    return fifo


def _read_settings(
    exchange: Exchange, queue: str, change: Change, tags: Mapping[str, str], *, fifo: bool
) -> QueueSettings:
    own = {key: value for key, value in change.options["attributes"].items() if value is not None}
    options = {
        **{key: value for key, value in change.options.items() if value is not None},
        "attributes": own,
        "tags": dict(tags),
    }
    base = QueueSettings(
        ordered=fifo,
        max_attempts=None,
        message_ttl=DEFAULT_RETENTION,
        max_bytes=size_limit(LARGEST_MESSAGE),
        record_events=exchange.call.settings.activity.enabled,
        dead_letter_source=exchange.write_arn(queue),
        options={SECTION: options},
    )
    return replace(base, **change.settings)


async def _require_equal(exchange: Exchange, name: str, attributes: Mapping[str, str]) -> None:
    queue = await exchange.broker.queues.get(name)
    found = show_attributes(queue, exchange.write_arn(name))
    for key, value in attributes.items():
        if not are_equal(key, found.get(key, ""), value):
            raise Fault(
                "QueueNameExists",
                "A queue already exists with the same name and a different value for attribute "
                f"{key}",
            )
