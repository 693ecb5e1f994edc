"""The routes that export messages to a file and import them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any

import msgspec
from msgspec import Meta
from starlette.datastructures import Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser

from laneway.server.access import named_in_body, require_queues
from laneway.server.decoder import read_issue
from laneway.server.errors import InvalidInput, MalformedBody
from laneway.server.operations import Media, Operation, Response, Role
from laneway.server.responses import Answer, Stream, answer_json, encode
from laneway.server.rest.access import choose_queues, queue_shown
from laneway.server.rest.enqueues import NewMessage, list_producers, read_message
from laneway.server.rest.filters import Filters
from laneway.server.rest.objects import show_message
from laneway.server.rest.states import STATES
from laneway.server.rest.wire import (
    QUEUE_NOT_FOUND,
    Attempts,
    MessageObject,
    MessageType,
    QueueName,
    Seconds,
)

if TYPE_CHECKING:
    from laneway.domain.messages import StoredMessage
    from laneway.server.calls import Call
    from laneway.server.lease_tokens import LeaseTokens

MULTIPART = "multipart/form-data"
FORM = Media(
    MULTIPART,
    {
        "type": "object",
        "required": ["file"],
        "properties": {
            "file": {
                "type": "string",
                "format": "binary",
                "contentMediaType": "application/json",
                "description": "A JSON array of messages: an export, or messages in the format of `POST /api/queue/batch`.",
            }
        },
    },
)
NO_FILE = "No file uploaded or invalid file"
NOT_JSON = "Invalid JSON content"


class ImportedMessage(NewMessage, kw_only=True):
    """A message as for enqueuing, or as an export writes it: both names of a field count."""

    type: MessageType = "default"
    queue_name: QueueName | None = None
    ack_timeout_seconds: Seconds | None = None
    max_attempts_exported: Attempts | None = msgspec.field(name="max_attempts", default=None)


class Imported(msgspec.Struct):
    """The messages that were imported."""

    message: Annotated[str, Meta(description="What happened, in words for people.")]
    count: Annotated[int, Meta(description="How many messages were enqueued.")]


_decoder = msgspec.json.Decoder(list[ImportedMessage] | ImportedMessage)


async def export_messages(call: Call[Filters, None]) -> Stream:
    wanted = call.parameters
    parts = call.broker.listings.iterate(
        await choose_queues(call, wanted.queue_name),
        STATES[wanted.queue_type],
        wanted.read(),
        sort=wanted.sort_by,
        descending=wanted.descending,
    )
    # Read the first part before the answer begins, so that errors of the request are still
    # reported.
    first: Sequence[StoredMessage] = await anext(parts, [])
    tokens = await call.service.find_lease_tokens()
    stamp = datetime.now(UTC).strftime("%Y-%m-%dT%H-%M-%S")
    name = f'attachment; filename="{wanted.queue_type}-queue-export-{stamp}.json"'
    return Stream(
        200, _write(first, parts, tokens), headers=((b"content-disposition", name.encode()),)
    )


async def import_messages(call: Call[None, None]) -> Answer:
    messages = _read_messages(await _read_file(call))
    default = call.settings.queue
    items = []
    for index, message in enumerate(messages):
        queue = message.queue or message.queue_name or default
        require_queues(call.identity, (queue,))
        items.append((queue, read_message(_merge(message), call.settings, (index,))))
    pushed = await call.broker.push_each(items, producers=list_producers(messages))
    count = len(pushed)
    return answer_json(200, Imported(f"Imported {count} messages successfully", count))


async def _write(
    first: Sequence[StoredMessage],
    rest: AsyncIterator[Sequence[StoredMessage]],
    tokens: LeaseTokens,
) -> AsyncIterator[bytes]:
    """Yield one JSON array."""
    yield b"[" + _write_part(first, tokens)
    async for part in rest:
        yield b"," + _write_part(part, tokens)
    yield b"]"


def _write_part(messages: Sequence[StoredMessage], tokens: LeaseTokens) -> bytes:
    return b",".join([encode(show_message(message, tokens)) for message in messages])


async def _read_file(call: Call[Any, Any]) -> bytes:
    headers = Headers(raw=call.request.exchange.headers)
    if not headers.get("content-type", "").lower().startswith(MULTIPART):
        raise MalformedBody(NO_FILE)
    body = await call.read()

    async def stream() -> AsyncGenerator[bytes, None]:
        yield body

    try:
        form = await MultiPartParser(headers, stream(), max_files=1).parse()
    except (MultiPartException, KeyError, ValueError):
        raise MalformedBody(NO_FILE) from None
    try:
        file = form.get("file")
        if not isinstance(file, UploadFile):
            raise MalformedBody(NO_FILE)
        return await file.read()
    finally:
        await form.close()


def _read_messages(text: bytes) -> Sequence[ImportedMessage]:
    try:
        read = _decoder.decode(text)
    except msgspec.ValidationError as error:
        raise InvalidInput([read_issue(str(error))]) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise MalformedBody(NOT_JSON) from None
    return read if isinstance(read, list) else [read]


def _merge(message: ImportedMessage) -> NewMessage:
    message.ack_timeout = message.ack_timeout or message.ack_timeout_seconds
    message.max_attempts = message.max_attempts or message.max_attempts_exported
    return message


OPERATIONS = (
    Operation(
        method="GET",
        path="/queue/{queueType}/export",
        handler=export_messages,
        summary="Export the messages of one state as a file",
        description=(
            "Returns all messages that match the filters as one JSON array, sent while it is "
            "read. Between batches the export keeps no transaction or lock open in the database. "
            "Messages that change during the export may or may not be in it. `POST "
            "/api/queue/import` accepts the file."
        ),
        parameters=Filters,
        answers={
            200: Response(
                list[MessageObject],
                "The messages, sorted as `sortBy` and `sortOrder` say. By another field than "
                "`created_at`, the newest 10,000 come first, sorted, and then the others by age.",
            ),
            404: QUEUE_NOT_FOUND,
        },
        role=Role.READ,
        reach=queue_shown,
    ),
    Operation(
        method="POST",
        path="/queue/import",
        handler=import_messages,
        summary="Import the messages of a file, all or none",
        description=(
            "Enqueues the messages of an export, or of a file in the format of `POST "
            "/api/queue/batch`. Each message goes to its `queue`, else its `queue_name`, else "
            "the default queue. All messages are enqueued in one transaction, or none."
        ),
        body=FORM,
        answers={200: Response(Imported, "All messages are enqueued."), 404: QUEUE_NOT_FOUND},
        role=Role.WRITE,
        reach=named_in_body,
    ),
)
