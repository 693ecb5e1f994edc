"""The actions on a queue's tags."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from laneway.domain.settings import QueueChanges
from laneway.server.sqs.attributes import SECTION, read_tags
from laneway.server.sqs.errors import invalid, missing
from laneway.server.sqs.wire import QueueRequest, Result

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laneway.server.sqs.exchange import Exchange

MOST_TAGS = 50
_LONGEST_KEY = 128
_LONGEST_VALUE = 256


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
        raise missing("Tags")
    check_tags(request.tags)
    if len({**read_tags(queue), **request.tags}) > MOST_TAGS:
        raise invalid(f"Too many tags added for queue {exchange.find_owned(queue.name).name}.")
    await exchange.broker.queues.configure(
        queue.name, QueueChanges(), SECTION, {"tags": dict(request.tags)}
    )


async def untag_queue(exchange: Exchange, request: UntagQueue) -> None:
    queue = await exchange.get_queue(request)
    if not request.tag_keys:
        raise invalid("Tag keys must be between 1 and 128 characters in length.")
    await exchange.broker.queues.configure(
        queue.name, QueueChanges(), SECTION, {"tags": dict.fromkeys(request.tag_keys)}
    )


async def list_queue_tags(exchange: Exchange, request: ListQueueTags) -> Tags:
    queue = await exchange.get_queue(request)
    return Tags(tags=dict(read_tags(queue)) or None)


def check_tags(tags: Mapping[str, str]) -> None:
    if len(tags) > MOST_TAGS:
        raise invalid(f"Too many tags: a queue has at most {MOST_TAGS}.")
    for key, value in tags.items():
        if not 1 <= len(key) <= _LONGEST_KEY:
            raise invalid(f"Tag keys must be between 1 and {_LONGEST_KEY} characters in length.")
        if len(value) > _LONGEST_VALUE:
            raise invalid(f"Tag values must be at most {_LONGEST_VALUE} characters in length.")
        if "\0" in key or "\0" in value:
            raise invalid("Tags must not contain null characters.")
