"""The route that streams changes as they happen: server-sent events."""

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
from laneway.server.operations import Media, Operation, Response
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
    """Parameters of the event stream."""

    api_key: Annotated[
        Annotated[str, Meta(max_length=1000)] | None,
        Meta(
            description="API key, for browsers: their event streams cannot send headers. Elsewhere, use "
            "the header."
        ),
    ] = msgspec.field(name="apiKey", default=None)


class NewMessage(msgspec.Struct):
    id: str
    type: str
    priority: int
    payload: Raw | None
    created_at: float
    attempt_count: int


class Payload(msgspec.Struct, kw_only=True):
    """The changed messages.

    force_refresh: the update leaves out details. messages: only of small batches.
    """

    status: str
    count: int
    ids: list[str]
    messages: list[NewMessage] | UnsetType = UNSET
    force_refresh: bool


class QueueUpdate(msgspec.Struct, kw_only=True):
    """A change, for a caller who may see it; timestamp in milliseconds."""

    type: str
    queue: str | None
    timestamp: int
    payload: Payload


class Hint(msgspec.Struct, kw_only=True):
    count: int
    force_refresh: bool


class QueueHint(msgspec.Struct, kw_only=True):
    """A change without details, for a caller without a key; timestamp in milliseconds."""

    type: str
    timestamp: int
    payload: Hint


async def watch_events(call: Call[Watch, None]) -> Stream:
    key = _read_key(call)
    identity = await _identify(call, key)
    rooms = call.service.rooms
    call.request.occupy(rooms.hints if identity is None else rooms.events)
    chunks = stream_updates(call, identity, key)
    # The first chunk is empty. After it, the stream reports every change.
    await anext(chunks)
    return Stream(
        200,
        chunks,
        content_type=b"text/event-stream; charset=utf-8",
        headers=_HEADERS,
        endless=True,
    )


async def stream_updates(
    call: Call[Watch, None], identity: Identity | None, key: bytes | None
) -> AsyncGenerator[bytes, None]:
    """Yield updates as they come, and a ping whenever there is none for a while.

    The stream ends when its key is revoked. A stream opened without a key ends when the first key
    is created.
    """
    service = call.service
    async with AsyncExitStack() as stack:
        show = partial(_show_to, identity)
        subscription = await stack.enter_async_context(service.activity.feed.subscribe(show))
        if identity is not None:
            stack.enter_context(service.keyring.watch(Caller(identity, key), subscription.end))
        if b"last-event-id" in call.request.headers:
            # The client reconnects and does not know what it missed.
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
    """Return the caller, None for one without a valid key; raise if such streams are disabled."""
    keyring = call.service.keyring
    try:
        return keyring.recall(key) or await keyring.identify(key)
    except Unauthenticated:
        if call.settings.limits.anonymous_event_streams == 0:
            raise
        return None


def _show_to(identity: Identity | None, update: Update) -> Update | None:
    """Return what the caller may see of an update; without a key, only that something changed."""
    if identity is None:
        return Update(
            update.change, None, update.at, update.total, force_refresh=update.force_refresh
        )
    return update if update.queue is None or identity.may_use(update.queue) else None


def _frame(update: Update, value: msgspec.Struct) -> bytes:
    # Line breaks end a line of an event. In JSON they occur only between tokens, where a space will
    # do.
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
        summary="Watch changes as server-sent events",
        description=(
            "Streams an event whenever messages or queues change, and a ping while nothing "
            "does. An update with `force_refresh` leaves out details: load the lists again. "
            "Where a key is required, a stream without one shows only the type, time and size "
            "of each change. The stream ends when its key is revoked; a client that "
            "reconnects first gets an update with `force_refresh`."
        ),
        parameters=Watch,
        answers={
            200: Response(
                Media("text/event-stream"),
                "An endless stream of events named `queue-update` and `ping`, with JSON data.",
            )
        },
        role=None,
        reach=filtered,
        tag="activity",
    ),
)
