"""The route that tells what changes as it happens: server-sent events."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import UNSET, Meta, Raw, UnsetType

from laneway.activity.updates import Change, Update, refresh
from laneway.server.access import filtered
from laneway.server.calls import Caller, read_key
from laneway.server.errors import Unauthenticated
from laneway.server.operations import Media, Operation
from laneway.server.responses import Stream, encode
from laneway.server.rest.times import to_unix

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

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
    key = _read_key(call)
    identity = await _identify(call, key)
    rooms = call.service.rooms
    call.request.occupy(rooms.hints if identity is None else rooms.events)
    chunks = tell_updates(call, identity, key)
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
    call: Call[Watch, None], identity: Identity | None, key: bytes | None
) -> AsyncGenerator[bytes, None]:
    """Return updates as they come, and a ping whenever none has for a while.

    It ends when its key does. A stream opened without a key ends when the first key is created.
    """
    service = call.service
    async with AsyncExitStack() as stack:
        show = partial(_show_to, identity)
        subscription = await stack.enter_async_context(service.activity.feed.subscribe(show))
        if identity is not None:
            stack.enter_context(service.keyring.watch(Caller(identity, key), subscription.end))
        if b"last-event-id" in call.request.headers:
            # It was here before and does not know what it missed.
            subscription.put(refresh(Change.ENQUEUE, None, datetime.now(UTC)))
        yield b""
        while True:
            update = await subscription.take(call.settings.activity.ping)
            if subscription.ended:
                yield b": the key of this stream is no longer valid\n\n"
                return
            if update is None:
                now = _to_ms(datetime.now(UTC))
                yield b'event: ping\nid: %d\ndata: {"timestamp":%d}\n\n' % (now, now)
            elif identity is None:
                yield _frame(update, _hint(update))
            else:
                yield _frame(update, _show(update))


def _read_key(call: Call[Watch, None]) -> bytes | None:
    key = read_key(call.request.headers)
    if key is None and call.parameters.api_key is not None:
        key = call.parameters.api_key.encode()
    return key


async def _identify(call: Call[Watch, None], key: bytes | None) -> Identity | None:
    """Return who watches, None for one without a valid key, unless nobody may watch so."""
    keyring = call.service.keyring
    try:
        return keyring.recall(key) or await keyring.identify(key)
    except Unauthenticated:
        if call.settings.limits.anonymous_event_streams == 0:
            raise
        return None


def _show_to(identity: Identity | None, update: Update) -> Update | None:
    """Return what one may know of an update; who has no key, that something changed."""
    if identity is None:
        return Update(
            update.change, None, update.at, update.total, force_refresh=update.force_refresh
        )
    return update if update.queue is None or identity.may_use(update.queue) else None


def _frame(update: Update, value: msgspec.Struct) -> bytes:
    # An event's line ends at any of these. In JSON they can only be between tokens, as a space can.
    data = encode(value).replace(b"\n", b" ").replace(b"\r", b" ")
    return b"event: queue-update\nid: %d\ndata: %b\n\n" % (_to_ms(update.at), data)


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
