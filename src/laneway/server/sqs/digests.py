"""The MD5 digests by which clients verify what they sent and received."""

from __future__ import annotations

from hashlib import md5
from struct import Struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from laneway.server.sqs.wire import AttributeValue

_LENGTH = Struct(">I").pack
_TEXT, _BINARY = b"\x01", b"\x02"


def digest_body(body: bytes) -> str:
    return md5(body, usedforsecurity=False).hexdigest()


def digest_attributes(attributes: Mapping[str, AttributeValue]) -> str:
    """Return the digest of names, types and raw values, sorted by name."""
    total = md5(usedforsecurity=False)
    for name in sorted(attributes):
        value = attributes[name]
        total.update(_measure(name.encode()))
        total.update(_measure(value.data_type.encode()))
        total.update(_BINARY if value.is_binary else _TEXT)
        total.update(_measure(value.content))
    return total.hexdigest()


def _measure(part: bytes) -> bytes:
    return _LENGTH(len(part)) + part
