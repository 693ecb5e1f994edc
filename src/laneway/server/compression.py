"""Compresses large answers for clients that accept gzip."""

from __future__ import annotations

import asyncio
import gzip
import re
from typing import TYPE_CHECKING

from laneway.server.responses import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

# The fastest level: lists of messages already shrink several times.
_LEVEL = 1
_GZIP = re.compile(rb"(?:^|,)\s*(?:gzip|\*)\s*(?:;\s*q=(?P<weight>[0-9.]+)\s*)?(?:,|$)")


def accepts_gzip(headers: Mapping[bytes, bytes]) -> bool:
    found = _GZIP.search(headers.get(b"accept-encoding", b""))
    return found is not None and (found["weight"] is None or found["weight"].strip(b"0.") != b"")


async def compress(answer: Answer) -> Answer:
    """Return the answer compressed, in a thread: the event loop serves other requests meanwhile."""
    body = await asyncio.to_thread(gzip.compress, answer.body, _LEVEL, mtime=0)
    return Answer(
        answer.status,
        body,
        content_type=answer.content_type,
        headers=(*answer.headers, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")),
    )
