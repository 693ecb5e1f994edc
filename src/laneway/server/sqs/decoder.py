"""Decodes requests into their types, and reports what is invalid in SQS's error format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from laneway.server.sqs.errors import Fault, missing

if TYPE_CHECKING:
    from laneway.server.sqs.wire import Request

_MISSING = re.compile(r"Object missing required field `([^`]+)`(?: - at `\$\.?([^`]*)`)?")


class RequestDecoder:
    """Decodes requests. lenient: numbers and flags may be text, as in forms."""

    def __init__(self, kind: type[Request], *, lenient: bool) -> None:
        self._decode = msgspec.json.Decoder(kind, strict=not lenient).decode

    def decode(self, body: bytes) -> Request:
        try:
            return self._decode(body or b"{}")
        except msgspec.ValidationError as error:
            found = _MISSING.match(str(error))
            if found is not None:
                place = f"{found[2]}.{found[1]}" if found[2] else found[1]
                raise missing(place) from None
            raise Fault("SerializationException", str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Fault("SerializationException", "The request body is not valid JSON.") from None
