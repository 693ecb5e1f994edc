"""Compresses large answers for clients that take them so."""

from __future__ import annotations

import asyncio
import gzip
import re
from typing import TYPE_CHECKING

from laneway.server.responses import Answer

if TYPE_CHECKING:
    from collections.abc import Mapping

# Quick over small: lists of messages shrink several times at the lowest level already.
_LEVEL = 1
_GZIP = re.compile(rb"(?:^|,)\s*(?:gzip|\*)\s*(?:;\s*q=(?P<weight>[0-9.]+)\s*)?(?:,|$)")


def takes_gzip(headers: Mapping[bytes, bytes]) -> bool:
    found = _GZIP.search(headers.get(b"accept-encoding", b""))
    return found is not None and (found["weight"] is None or found["weight"].strip(b"0.") != b"")


async def compress(answer: Answer) -> Answer:
    """Return the answer compressed, by a thread: the loop has others to serve."""
    body = await asyncio.to_thread(gzip.compress, answer.body, _LEVEL, mtime=0)
    return Answer(
        answer.status,
        body,
        content_type=answer.content_type,
        headers=(*answer.headers, (b"content-encoding", b"gzip"), (b"vary", b"Accept-Encoding")),
    )
