"""The actions on a queue's tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from laneway.domain.settings import QueueChanges
from laneway.server.sqs.attributes import SECTION, read_tags
from laneway.server.sqs.texts import Refusal
from laneway.server.sqs.wire import QueueRequest, Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laneway.server.sqs.exchange import Exchange

MOST_TAGS = 50
_LONGEST_KEY = 128
_LONGEST_VALUE = 256
_RESERVED = "aws:"


class TagQueue(QueueRequest, kw_only=True):
    tags: dict[str, str] = msgspec.field(default_factory=dict)


class UntagQueue(QueueRequest, kw_only=True):
    tag_keys: list[str] = msgspec.field(default_factory=list)


class ListQueueTags(QueueRequest, kw_only=True):
    pass


class Tags(Result, kw_only=True):
    tags: dict[str, str] | None = None


async def tag_queue(exchange: Exchange, request: TagQueue) -> None:
    queue = await exchange.get_queue(request)
    if not request.tags:
        raise Refusal.MISSING.fault(parameter="Tags")
    name = exchange.find_owned(queue.name).name
    check_tags(name, {**read_tags(queue), **request.tags})
    await exchange.broker.queues.configure(
        queue.name, QueueChanges(), SECTION, {"tags": dict(request.tags)}
    )


async def untag_queue(exchange: Exchange, request: UntagQueue) -> None:
    queue = await exchange.get_queue(request)
    if not request.tag_keys:
        raise Refusal.TAG_KEY.fault()
    await exchange.broker.queues.configure(
        queue.name, QueueChanges(), SECTION, {"tags": dict.fromkeys(request.tag_keys)}
    )


async def list_queue_tags(exchange: Exchange, request: ListQueueTags) -> Tags:
    queue = await exchange.get_queue(request)
    return Tags(tags=dict(read_tags(queue)) or None)


def check_tags(queue: str, tags: Mapping[str, str]) -> None:
    """Refuse tags that a queue may not have."""
    if len(tags) > MOST_TAGS:
        raise Refusal.TAGS.fault(queue=queue)
    for key, value in tags.items():
        if not 1 <= len(key) <= _LONGEST_KEY:
            raise Refusal.TAG_KEY.fault()
        if key.lower().startswith(_RESERVED):
            raise Refusal.TAG_RESERVED.fault()
        if len(value) > _LONGEST_VALUE:
            raise Refusal.TAG_VALUE.fault()
        if "\0" in key or "\0" in value:
            raise Refusal.TAG_CHARACTER.fault()
