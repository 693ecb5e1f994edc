"""The actions on queues: create, find, list, purge, delete."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import timedelta
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
    is_true,
    plan_change,
    read_options,
    read_values,
    show_attributes,
    size_limit,
)
from laneway.server.sqs.configuration import find_target
from laneway.server.sqs.pages import cut_page
from laneway.server.sqs.tags import check_tags
from laneway.server.sqs.texts import Refusal
from laneway.server.sqs.wire import QueueRequest, Request, Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laneway.server.sqs.attributes import Change
    from laneway.server.sqs.exchange import Exchange
    from laneway.server.sqs.owners import Owned

LONGEST_NAME = 80

_NAME = re.compile(r"[A-Za-z0-9_-]+")


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
    fifo = is_true(request.attributes.get("FifoQueue", ""))
    attributes = read_values(request.attributes, fifo=fifo, new=True)
    _check_name(name, fifo=fifo)
    check_throughput(attributes)
    check_tags(name, request.tags)
    queue = exchange.name_own(name)
    target = await find_target(exchange, queue, attributes)
    pause = exchange.settings.recreate_after
    if pause and await exchange.broker.queues.was_deleted(queue, within=pause):
        raise Refusal.DELETED_RECENTLY.fault(seconds=pause.total_seconds())
    try:
        change = plan_change(attributes, target)
        settings = _read_settings(exchange, queue, change, request.tags, fifo=fifo)
        await exchange.broker.queues.create(queue, settings)
    except QueueExists:
        await _require_equal(exchange, queue, attributes)
    return QueueUrl(queue_url=exchange.write_url(queue))


async def get_queue_url(exchange: Exchange, request: GetQueueUrl) -> QueueUrl:
    if not request.queue_name:
        raise Refusal.NO_NAME.fault()
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
    """Delete ready and in-flight messages and deduplication ids, at most once in the pause."""
    queue = await exchange.get_queue(request)
    name = exchange.find_owned(queue.name).name
    pause = exchange.settings.purge_after.total_seconds()
    if time() - read_options(queue).get("purged_at", 0) < pause:
        raise Refusal.PURGED_RECENTLY.fault(queue=name, seconds=pause)
    broker = exchange.broker
    await broker.queues.configure(queue.name, QueueChanges(), SECTION, {"purged_at": int(time())})
    # First: a message that is sent meanwhile may stay, and then its id must, too.
    await broker.queues.forget_dedup_keys(queue.name)
    for status in (Status.QUEUED, Status.PROCESSING):
        await broker.messages.purge(queue.name, status=status)


def _is_listed(owned: Owned, exchange: Exchange, request: ListQueues) -> bool:
    return owned.owner == exchange.owner and owned.name.startswith(request.queue_name_prefix)


def _check_name(name: str, *, fifo: bool) -> None:
    if not name:
        raise Refusal.EMPTY_NAME.fault()
    stem = name.removesuffix(FIFO) if fifo else name
    if _NAME.fullmatch(stem) and len(name) <= LONGEST_NAME and (stem != name) == fifo:
        return
    raise (Refusal.FIFO_NAME if fifo else Refusal.NAME).fault()


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
        backoff=timedelta(0),
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
            raise Refusal.EXISTS.fault(name=key)
