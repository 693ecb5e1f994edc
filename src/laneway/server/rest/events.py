"""The route that tells what changes as it happens: server-sent events."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from laneway.activity.updates import Change, refresh
from laneway.server.answers import Stream, encode
from laneway.server.authentication import read_key
from laneway.server.errors import Unauthenticated
from laneway.server.operations import Media, Operation
from laneway.server.reach import filtered
from laneway.server.rest.times import to_unix

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from laneway.activity.updates import Update
    from laneway.domain.activity import Facts
    from laneway.server.calls import Call, Identity

_HEADERS = (
    (b"cache-control", b"no-cache, no-transform"),
    (b"x-accel-buffering", b"no"),
)


class Watch(msgspec.Struct):
    """apiKey: for browsers, whose event streams cannot send headers."""

    api_key: Annotated[str, Meta(max_length=1000)] | None = msgspec.field(
        name="apiKey", default=None
    )


class NewMessage(msgspec.Struct):
    id: str
    type: str
    priority: int
    payload: Raw | None
    created_at: float
    attempt_count: int


class Payload(msgspec.Struct, kw_only=True):
    """force_refresh: there is more to see than is told here. messages: of small batches only."""

    status: str
    count: int
    ids: list[str]
    messages: list[NewMessage] | UnsetType = UNSET
    force_refresh: bool


class QueueUpdate(msgspec.Struct, kw_only=True):
    """What changed, for one who may know; timestamp in ms."""

    type: str
    queue: str | None
    timestamp: int
    payload: Payload


class Hint(msgspec.Struct, kw_only=True):
    count: int
    force_refresh: bool


class QueueHint(msgspec.Struct, kw_only=True):
    """That something changed, for one without a key."""

    type: str
    timestamp: int
    payload: Hint


async def watch_events(call: Call[Watch, None]) -> Stream:
    chunks = tell_updates(call, await _identify(call))
    # The first chunk is empty and proves that what happens from here on is told.
    await anext(chunks)
    return Stream(
        200,
        chunks,
        content_type=b"text/event-stream; charset=utf-8",
        headers=_HEADERS,
        endless=True,
    )


async def tell_updates(
    call: Call[Watch, None], identity: Identity | None
) -> AsyncGenerator[bytes, None]:
    """Return updates as they come, and a ping whenever none has for a while."""
    async with call.service.activity.feed.subscribe() as subscription:
        if any(name == b"last-event-id" for name, _ in call.request.scope["headers"]):
            # It was here before and does not know what it missed.
            subscription.put(refresh(Change.ENQUEUE, None, datetime.now(UTC)))
        yield b""
        while True:
            update = await subscription.take(call.settings.activity.ping)
            if update is None:
                now = _to_ms(datetime.now(UTC))
                yield b'event: ping\nid: %d\ndata: {"timestamp":%d}\n\n' % (now, now)
            elif identity is None:
                yield _frame(update, _hint(update))
            elif update.queue is None or identity.may_use(update.queue):
                yield _frame(update, _show(update))


async def _identify(call: Call[Watch, None]) -> Identity | None:
    """Return who watches, None for one without a valid key."""
    keyring = call.service.keyring
    key = read_key(call.request.headers)
    if key is None and call.parameters.api_key is not None:
        key = call.parameters.api_key.encode()
    try:
        return keyring.recall(key) or await keyring.identify(key)
    except Unauthenticated:
        return None


def _frame(update: Update, value: msgspec.Struct) -> bytes:
    return b"event: queue-update\nid: %d\ndata: %b\n\n" % (_to_ms(update.at), encode(value))


def _show(update: Update) -> QueueUpdate:
    return QueueUpdate(
        type=update.change,
        queue=update.queue,
        timestamp=_to_ms(update.at),
        payload=Payload(
            status=update.status,
            count=update.total,
            ids=[str(message) for message in update.ids],
            messages=[_show_message(facts) for facts in update.messages] or UNSET,
            force_refresh=update.force_refresh,
        ),
    )


def _show_message(facts: Facts) -> NewMessage:
    return NewMessage(
        str(facts.id),
        facts.partition,
        facts.priority,
        None if facts.body is None else Raw(facts.body),
        to_unix(facts.created_at),
        0,
    )


def _hint(update: Update) -> QueueHint:
    return QueueHint(
        type=update.change,
        timestamp=_to_ms(update.at),
        payload=Hint(count=update.total, force_refresh=update.force_refresh),
    )


def _to_ms(moment: datetime) -> int:
    return int(moment.timestamp() * 1000)


OPERATIONS = (
    Operation(
        method="GET",
        path="/queue/events",
        handler=watch_events,
        summary="Watch what changes, as server-sent events",
        parameters=Watch,
        answers={200: Media("text/event-stream")},
        role=None,
        reach=filtered,
        tag="activity",
    ),
)
