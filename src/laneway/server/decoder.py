"""Decodes bodies and parameters into typed values, and reports what is invalid in them."""

from __future__ import annotations

import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Generic, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from msgspec import inspect

from laneway.server.errors import InvalidInput, Issue, MalformedBody
from laneway.server.operations import B, P

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

# Each route caches the decoded form of queries up to this size, and this many of them.
_SHORT = 200
_MOST_KNOWN = 100
# How operations name the parameter that names a queue. Each that ignores unknown parameters takes all.
_QUEUE_NAMES = ("queue", "queueName", "queue_name")
# msgspec ends its messages with the place: "… - at `$.acks[3].id`".
_PLACE = re.compile(r" - at `\$(?P<place>[^`]*)`$")
_STEP = re.compile(r"\.([^.\[]+)|\[(\d+|\.\.\.)\]")
_MISSING = re.compile(r"^Object missing required field `(?P<name>[^`]+)`")
_UNKNOWN = re.compile(r"^Object contains unknown field `(?P<name>.*)`", re.DOTALL)
_CODES = (
    (re.compile(r">= |> |length >"), "too_small"),
    (re.compile(r"<= |< |length <"), "too_big"),
    (re.compile(r"^Invalid enum value"), "invalid_enum_value"),
    (re.compile(r"matching regex"), "invalid_string"),
)


class NothingMore(msgspec.Struct, forbid_unknown_fields=True):
    """Parameters, or a body, of which any is an error."""


class BodyDecoder(Generic[B]):
    """Decodes bodies; everything it returns is valid UTF-8, raw JSON too.

    A struct of the kind that forbids unknown fields does so for the body; `elsewhere`: names of the
    parameters, for the error.
    """

    def __init__(
        self, kind: type[B], *, optional: bool = False, elsewhere: Sequence[str] = ()
    ) -> None:
        self._decoder = msgspec.json.Decoder(kind)
        self._optional = optional
        self._advise = Advice("body field", list_names(kind), "as a query parameter", elsewhere)
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
            raise InvalidInput([read_issue(str(error), self._advise)]) from None
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            raise MalformedBody("Malformed JSON in request body") from None


class ParametersDecoder(Generic[P]):
    """Decodes paths and queries; caches short queries, because polling clients repeat them.

    A struct that forbids unknown fields does so for the query; `in_path` and `elsewhere`: the names
    of those in the path and of the body's fields, for the error.
    """

    def __init__(
        self, kind: type[P], *, in_path: Collection[str] = (), elsewhere: Sequence[str] = ()
    ) -> None:
        self._kind = kind
        info = inspect.type_info(kind)
        self._strict = isinstance(info, inspect.StructType) and info.forbid_unknown_fields
        known = [name for name in list_names(kind) if name not in in_path]
        self._advise = Advice("query parameter", known, "in the body", elsewhere)
        self._queue_name = next((name for name in known if name in _QUEUE_NAMES), None)
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
        text = query.decode("latin-1")
        values: dict[str, Any] = dict(parse_qsl(text)) if query else {}
        if self._strict and query:
            # An empty one that is unknown is refused too.
            known = self._advise.known
            named = parse_qsl(text, keep_blank_values=True)
            values |= {name: value for name, value in named if name not in known}
        elif self._queue_name is not None and self._queue_name not in values:
            named_queue = next((values[name] for name in _QUEUE_NAMES if name in values), None)
            if named_queue is not None:
                values[self._queue_name] = named_queue
        values.update(path)
        try:
            return msgspec.convert(values, self._kind, strict=False)
        except msgspec.ValidationError as error:
            raise InvalidInput([read_issue(str(error), self._advise)]) from None


class Advice(NamedTuple):
    """What to write about an unknown name.

    what: what was named. known: the names that exist. there: where names of `elsewhere` belong.
    """

    what: str
    known: Sequence[str]
    there: str
    elsewhere: Sequence[str]

    def write(self, name: str) -> str:
        """Return that the name is unknown, and the nearest known one."""
        start = f"Unknown {self.what} `{name}`"
        if name in self.elsewhere:
            return f"{start}: send it {self.there}"
        nearest = _find_nearest(name, self.known)
        if nearest is not None:
            return f"{start}: did you mean `{nearest}`?"
        nearest = _find_nearest(name, self.elsewhere)
        if nearest is not None:
            return f"{start}: did you mean `{nearest}`, {self.there}?"
        if not self.known:
            return f"{start}: the operation takes none"
        return f"{start}: it takes {', '.join(f'`{each}`' for each in self.known)}"


def _find_nearest(name: str, known: Sequence[str]) -> str | None:
    names = {each.lower(): each for each in known}
    nearest = get_close_matches(name.lower(), names, n=1)
    return names[nearest[0]] if nearest else None


def list_names(kind: Any) -> list[str]:
    """Return the names of a struct's fields as they are sent; of anything else, none."""
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return [field.encode_name for field in msgspec.structs.fields(kind)] if is_struct else []


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


def read_issue(text: str, advice: Advice | None = None) -> Issue:
    """Return msgspec's message as an issue. advice: on names that do not exist."""
    path: list[str | int] = []
    place = _PLACE.search(text)
    if place is not None:
        text = text[: place.start()]
        for name, index in _STEP.findall(place["place"]):
            path.append(name or (int(index) if index.isdigit() else index))
    missing = _MISSING.match(text)
    if missing is not None:
        return Issue("invalid_type", [*path, missing["name"]], "Required")
    unknown = _UNKNOWN.match(text)
    if unknown is not None and advice is not None:
        name = unknown["name"]
        return Issue("unrecognized_keys", [*path, name], advice.write(name))
    for pattern, code in _CODES:
        if pattern.search(text):
            return Issue(code, path, text)
    return Issue("invalid_type", path, text)
