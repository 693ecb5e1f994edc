"""Turns a request's members into its typed form, and says in SQS's words what is wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from laneway.server.sqs.errors import Fault, missing

if TYPE_CHECKING:
    from laneway.server.sqs.wire import Request

_MISSING = re.compile(r"Object missing required field `([^`]+)`(?: - at `\$\.?([^`]*)`)?")


class RequestDecoder:
    """lenient: numbers and flags may come as text, as in forms."""

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
            raise Fault("SerializationException", "The request's body is not JSON.") from None
