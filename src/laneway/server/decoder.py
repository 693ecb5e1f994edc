"""Decodes bodies and parameters into typed values, and reports what is invalid in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Generic
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect

from laneway.server.errors import InvalidInput, Issue, MalformedBody
from laneway.server.operations import B, P

if TYPE_CHECKING:
    from collections.abc import Mapping

# Each route caches the decoded form of queries up to this size, and this many of them.
_SHORT = 200
_MOST_KNOWN = 100
# msgspec ends its messages with the place: "… - at `$.acks[3].id`".
_PLACE = re.compile(r" - at `\$(?P<place>[^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]+)`")
_CODES = (
    (re.compile(r">= |> |length >"), "too_small"),
    (re.compile(r"<= |< |length <"), "too_big"),
    (re.compile(r"^Invalid enum value"), "invalid_enum_value"),
    (re.compile(r"matching regex"), "invalid_string"),
)


class BodyDecoder(Generic[B]):
    """Decodes bodies; everything it returns is valid UTF-8, raw JSON too."""

    def __init__(self, kind: type[B], *, optional: bool = False) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._optional = optional
        # msgspec checks the encoding only of what it decodes, not of raw JSON.
        self._checks_text = _has_raw_part(inspect.type_info(kind))

    def decode(self, body: bytes) -> B:
        if not body and self._optional:
            body = b"{}"
        try:
            if self._checks_text and not body.isascii():
                body.decode()
            return self._decoder.decode(body)
        except msgspec.ValidationError as error:
            raise InvalidInput([read_issue(str(error))]) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise MalformedBody("Malformed JSON in request body") from None


class ParametersDecoder(Generic[P]):
    """Decodes paths and queries; caches short queries, because polling clients repeat them."""

    def __init__(self, kind: type[P]) -> None:
        self._kind = kind
        self._known: dict[bytes, P] = {}

    def decode(self, query: bytes, path: Mapping[str, str]) -> P:
        """Return the parameters; an empty one counts as not given, and the last of several counts.

        The returned value may be shared by several calls: do not change it.
        """
        if path or len(query) > _SHORT:
            return self._read(query, path)
        known = self._known.get(query)
        if known is None:
            known = self._read(query, path)
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[query] = known
        return known

    def _read(self, query: bytes, path: Mapping[str, str]) -> P:
        values: dict[str, Any] = dict(parse_qsl(query.decode("latin-1"))) if query else {}
        values.update(path)
        try:
            return msgspec.convert(values, self._kind, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidInput([read_issue(str(error))]) from None


def _has_raw_part(kind: Any) -> bool:
    """Return whether a value of this kind may contain raw JSON."""
    seen: set[type[Any]] = set()
    left = [kind]
    while left:
        each = left.pop()
        match each:
            case inspect.RawType():
                return True
            case (
                inspect.StructType(cls=cls, fields=fields)
                | inspect.DataclassType(cls=cls, fields=fields)
                | inspect.NamedTupleType(cls=cls, fields=fields)
                | inspect.TypedDictType(cls=cls, fields=fields)
            ) if cls not in seen:
                seen.add(cls)
                left += [field.type for field in fields]
            case inspect.UnionType(types=kinds) | inspect.TupleType(item_types=kinds):
                left += kinds
            case (
                inspect.ListType(item_type=item)
                | inspect.VarTupleType(item_type=item)
                | inspect.DictType(value_type=item)
                | inspect.Metadata(type=item)
            ):
                left.append(item)
            case _:
                pass
    return False


def read_issue(text: str) -> Issue:
    """Return msgspec's message as an issue."""
    path: list[str | int] = []
    place = _PLACE.search(text)
    if place is not None:
        text = text[: place.start()]
        for name, index in _STEP.findall(place["place"]):
            path.append(name or (int(index) if index.isdigit() else index))
    missing = _MISSING.match(text)
    if missing is not None:
        return Issue("invalid_type", [*path, missing["name"]], "Required")
    for pattern, code in _CODES:
        if pattern.search(text):
            return Issue(code, path, text)
    return Issue("invalid_type", path, text)
