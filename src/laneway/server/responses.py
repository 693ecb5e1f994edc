"""The answers of operations, and how they are encoded."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from laneway.domain.errors import LanewayError

JSON = b"application/json"

encode = msgspec.json.Encoder().encode


class Answer:
    """A response that is complete in memory."""

    __slots__ = ("body", "content_type", "headers", "status")

    def __init__(
        self,
        status: int,
        body: bytes = b"",
        *,
        content_type: bytes = JSON,
        headers: Sequence[tuple[bytes, bytes]] = (),
    ) -> None:
        self.status = status
        self.body = body
        self.content_type = content_type
        self.headers = headers


class Stream:
    """A response that is sent as it is generated; `chunks` is closed when the client disconnects.

    endless: it never ends by itself, so stopping the server ends it.
    """

    __slots__ = ("chunks", "content_type", "endless", "headers", "status")

    def __init__(
        self,
        status: int,
        chunks: AsyncIterator[bytes],
        *,
        content_type: bytes = JSON,
        headers: Sequence[tuple[bytes, bytes]] = (),
        endless: bool = False,
    ) -> None:
        self.status = status
        self.chunks = chunks
        self.content_type = content_type
        self.headers = headers
        self.endless = endless


def show_wait(error: LanewayError) -> tuple[bytes, bytes]:
    """Return the header with the whole seconds after which to retry: the error's, or one."""
    wait = getattr(error, "retry_after", None)
    seconds = math.ceil(wait.total_seconds()) if wait is not None else 1
    return (b"retry-after", b"%d" % max(seconds, 1))


def answer_json(status: int, value: Any) -> Answer:
    return Answer(status, encode(value))
