"""Decodes requests into their types, and reports what is invalid in SQS's error format."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import msgspec

from laneway.server.sqs.texts import Refusal

if TYPE_CHECKING:
    from laneway.server.sqs.errors import Fault
    from laneway.server.sqs.wire import Request

_MISSING = re.compile(r"Object missing required field `([^`]+)`(?: - at `\$\.?([^`]*)`)?")
_OTHER_KIND = re.compile(r"Expected `([^`]+)`, got `([^`]+)`")
_ENTRY = re.compile(r"Entries\[([0-9]+)\]")

_KINDS = {"str": "STRING", "bool": "TRUE", "null": "NULL", "int": "NUMBER", "float": "NUMBER"}


class RequestDecoder:
    """Decodes requests. lenient: numbers and flags may be text, as in forms."""

    def __init__(self, kind: type[Request], *, lenient: bool) -> None:
        self._name = kind.__name__
        self._decode = msgspec.json.Decoder(kind, strict=not lenient).decode

    def decode(self, body: bytes) -> Request:
        try:
            return self._decode(body or b"{}")
        except msgspec.ValidationError as error:
            raise self._name_fault(str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise Refusal.NOT_JSON.fault() from None

    def _name_fault(self, reason: str) -> Fault:
        found = _MISSING.match(reason)
        if found is not None:
            place = f"{found[2]}.{found[1]}" if found[2] else found[1]
            return Refusal.MISSING.fault(parameter=_ENTRY.sub(self._number_entry, place))
        found = _OTHER_KIND.match(reason)
        if found is not None and found[1].startswith(("int", "str")):
            return refuse_kind(found[2], wanted=found[1])
        return Refusal.STRUCTURE.fault(reason=reason)

    def _number_entry(self, place: re.Match[str]) -> str:
        """Return the name of a batch's entry in the query protocol, which all errors have."""
        return f"{self._name}RequestEntry.{int(place[1]) + 1}"


def refuse_kind(kind: str, *, wanted: str = "str") -> Fault:
    """Return the error of a value of another type than is wanted, by msgspec's names of types."""
    if kind == "object":
        return Refusal.MAP_UNEXPECTED.fault()
    if kind == "array":
        return Refusal.LIST_UNEXPECTED.fault()
    refusal = Refusal.NOT_AN_INTEGER if wanted.startswith("int") else Refusal.NOT_A_STRING
    return refusal.fault(kind=_KINDS.get(kind, "NUMBER"))
