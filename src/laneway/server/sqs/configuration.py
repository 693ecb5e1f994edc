"""The actions on a queue's attributes, and the list of a dead-letter queue's sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from laneway.domain.errors import QueueNotFound
from laneway.server.sqs.attributes import (
    COUNTS,
    FIFO,
    READABLE,
    SECTION,
    allows_source,
    check_throughput,
    is_fifo,
    plan_change,
    read_redrive,
    read_values,
    show_attributes,
)
from laneway.server.sqs.pages import cut_page
from laneway.server.sqs.texts import Refusal
from laneway.server.sqs.wire import QueueRequest, Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laneway.domain.queues import Queue
    from laneway.server.sqs.exchange import Exchange


class GetQueueAttributes(QueueRequest, kw_only=True):
    attribute_names: list[str] = msgspec.field(default_factory=list)


class QueueAttributes(Result, kw_only=True):
    attributes: dict[str, str] | None = None


class SetQueueAttributes(QueueRequest, kw_only=True):
    attributes: dict[str, str] = msgspec.field(default_factory=dict)


class ListDeadLetterSourceQueues(QueueRequest, kw_only=True):
    next_token: str | None = None
    max_results: int | None = None


class SourceUrls(Result, kw_only=True):
    queue_urls: list[str] = msgspec.field(name="queueUrls")
    next_token: str | None = None


async def get_queue_attributes(exchange: Exchange, request: GetQueueAttributes) -> QueueAttributes:
    queue = await exchange.get_queue(request)
    wanted = set(request.attribute_names)
    unknown = sorted(wanted - READABLE)
    if unknown:
        raise Refusal.ATTRIBUTE.fault(name=unknown[0])
    everything = "All" in wanted
    shown = show_attributes(queue, exchange.write_arn(queue.name))
    if everything or wanted & set(COUNTS):
        shown |= await _count(exchange, queue)
    chosen = {name: value for name, value in shown.items() if everything or name in wanted}
    return QueueAttributes(attributes=chosen or None)


async def set_queue_attributes(exchange: Exchange, request: SetQueueAttributes) -> None:
    queue = await exchange.get_queue(request)
    if not request.attributes:
        raise Refusal.MISSING.fault(parameter="Attribute.Name")
    attributes = read_values(request.attributes, fifo=is_fifo(queue), new=False)
    check_throughput({**show_attributes(queue, ""), **attributes})
    target = await find_target(exchange, queue.name, attributes)
    change = plan_change(attributes, target)
    if "RedrivePolicy" in attributes:
        change.settings["dead_letter_source"] = exchange.write_arn(queue.name)
        # Messages that are dead letters under the previous policy go to its target.
        await exchange.broker.dead_letters.redrive_by_policy(queue.name)
    await exchange.broker.queues.configure(queue.name, change.settings, SECTION, change.options)


async def list_source_queues(exchange: Exchange, request: ListDeadLetterSourceQueues) -> SourceUrls:
    queue = await exchange.get_queue(request)
    names = [
        source.name
        for source in await exchange.broker.queues.list_all()
        if source.settings.dead_letter_queue == queue.name
        and exchange.identity.may_use(source.name)
    ]
    page = cut_page(names, request.next_token, request.max_results)
    urls = [exchange.write_url(name) for name in page.names]
    return SourceUrls(queue_urls=urls, next_token=page.next_token)


async def find_target(exchange: Exchange, name: str, attributes: Mapping[str, str]) -> str | None:
    """Return the target of the redrive policy; refuse one that is missing or does not fit.

    Both names are those in Laneway.
    """
    text = attributes.get("RedrivePolicy")
    if not text:
        return None
    arn = read_redrive(text).arn
    try:
        wanted = exchange.name_arn(arn, "deadLetterTargetArn")
    except QueueNotFound:
        raise Refusal.REDRIVE_TARGET.fault(value=text) from None
    if exchange.find_owned(wanted).owner != exchange.find_owned(name).owner:
        raise Refusal.REDRIVE_OWNER.fault(value=text)
    # Check this before the look-up, so that the error does not reveal other queues.
    exchange.require_queue(wanted)
    try:
        target = await exchange.broker.queues.get(wanted)
    except QueueNotFound:
        raise Refusal.REDRIVE_TARGET.fault(value=text) from None
    if is_fifo(target) != name.endswith(FIFO):
        raise Refusal.REDRIVE_TYPE.fault(value=text)
    if not allows_source(target, exchange.write_arn(name)):
        raise Refusal.REDRIVE_REFUSED.fault(value=text)
    return wanted


async def _count(exchange: Exchange, queue: Queue) -> dict[str, str]:
    counts = (await exchange.broker.statistics.counts(queue.name))[0]
    delayed = await exchange.broker.statistics.count_delayed(queue.name)
    visible = max(counts.queued - delayed, 0)
    return dict(zip(COUNTS, map(str, (visible, counts.processing, delayed)), strict=True))
