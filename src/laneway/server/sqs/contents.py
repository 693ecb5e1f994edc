"""Message bodies and attributes: validation, storage and size."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from laneway.server.sqs.attributes import size_limit
from laneway.server.sqs.decoder import refuse_kind
from laneway.server.sqs.digests import digest_body
from laneway.server.sqs.texts import Refusal
from laneway.server.sqs.wire import AttributeValue

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_ATTRIBUTES = 10
# Bytes of a name or a type that are too many.
_TOO_LONG = 256

# Characters that XML 1.0 does not allow.
NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Letters and digits of any language, although AWS documents only those of English.
_NAME = re.compile(r"[\w.-]+")
_TYPE = re.compile(r"(String|Number|Binary)(\..+)?", re.DOTALL)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MOST_DIGITS = 38
_SMALLEST, _LARGEST = Decimal("1e-128"), Decimal("1e126")
_TRACE = "AWSTraceHeader"
_TRACE_HEADER = b"x-amzn-trace-id"

# By the first character of JSON.
_KINDS = {b"{": "object", b"[": "array", b"t": "bool", b"f": "bool", b"n": "null"}

_decode_text = msgspec.json.Decoder(str).decode


class Moved(msgspec.Struct, omit_defaults=True):
    """What a message keeps when it moves to another queue: id, send time and source.

    received: how often it was received before. key: its former dedup key; the new queue ignores it.
    """

    id: str | None = None
    sent: int | None = None
    source: str | None = None
    received: int = 0
    key: str | None = None


class Kept(msgspec.Struct, omit_defaults=True):
    """What SQS stores beside a body, in the message's headers."""

    attributes: dict[str, AttributeValue] = msgspec.field(default_factory=dict)
    trace: str | None = None


class Headers(msgspec.Struct, omit_defaults=True):
    """The SQS part of a message's headers; the broker writes `moved`."""

    sqs: Kept | None = None
    moved: Moved | None = None


_encode = msgspec.json.Encoder().encode
_decode_headers = msgspec.json.Decoder(Headers).decode


class Body(NamedTuple):
    """A message's body: the stored JSON string, and the digest and size that clients see."""

    text: str
    digest: str
    size: int


def read_body(raw: msgspec.Raw, number: int = 0) -> Body:
    """Validate a body and return it as a JSON string, unchanged unless it has needless escapes.

    number: of the entry in its batch, from 1; 0 for a message alone.
    """
    data = bytes(raw)
    if data[:1] != b'"':
        raise refuse_kind(_KINDS.get(data[:1], "int"))
    try:
        if b"\\" in data:
            text = _decode_text(data)
            content = _check_text(text)
            if len(data) > size_limit(len(content)):
                # Clients escape more than needed: six or more bytes for a letter.
                data = _encode(text)
        else:
            content = data[1:-1]
            if not content.isascii():
                _check_text(content.decode())
    except UnicodeDecodeError:
        raise Refusal.NOT_UTF8.fault() from None
    if not content:
        if number:
            raise Refusal.EMPTY_BODY.fault(number=number)
        raise Refusal.MISSING.fault(parameter="MessageBody")
    return Body(data.decode(), digest_body(content), len(content))


def show_body(text: str) -> str:
    """Return a stored body for a client: a string's content, other JSON as its text."""
    if text[:1] != '"':
        return text
    if "\\" in text:
        try:
            return _decode_text(text)
        except msgspec.DecodeError:
            # JSON allows half of a surrogate pair, which no text has. Other protocols store that.
            return text
    return text[1:-1]


def check_attributes(attributes: Mapping[str, AttributeValue]) -> int:
    """Validate message attributes, and return their part of the message's size."""
    if len(attributes) > MOST_ATTRIBUTES:
        raise Refusal.ATTRIBUTES.fault(count=len(attributes))
    size = 0
    for name, value in attributes.items():
        _check_name(name)
        _check_value(name, value)
        size += len(name.encode()) + len(value.data_type.encode()) + len(value.content)
    return size


def read_trace(attributes: Mapping[str, AttributeValue]) -> str | None:
    for name, value in attributes.items():
        if name != _TRACE:
            raise Refusal.SYSTEM_ATTRIBUTE.fault(name=name)
        _check_value(name, value)
        if value.data_type != "String":
            raise Refusal.SYSTEM_ATTRIBUTE_TYPE.fault(name=name)
        return value.string_value
    return None


def find_trace(headers: Mapping[bytes, bytes]) -> str | None:
    """Return the trace that the request's headers give to its messages."""
    found = headers.get(_TRACE_HEADER)
    if found is None:
        return None
    trace = found.decode("latin-1")
    return None if NOT_IN_XML.search(trace) else trace or None


def write_headers(
    attributes: Mapping[str, AttributeValue], trace: str | None, moved: Moved | None = None
) -> str | None:
    if not attributes and trace is None and moved is None:
        return None
    kept = Kept(dict(attributes), trace) if attributes or trace else None
    return _encode(Headers(kept, moved)).decode()


def read_headers(text: str | None) -> Headers:
    """Return the SQS part of the headers; what other protocols store is ignored."""
    if text is None:
        return _NO_HEADERS
    try:
        return _decode_headers(text)
    except msgspec.DecodeError:
        return _NO_HEADERS


_NO_HEADERS = Headers()


def _check_text(text: str) -> bytes:
    found = NOT_IN_XML.search(text)
    if found is not None:
        raise Refusal.BODY_CHARACTER.fault(code=ord(found[0]))
    return text.encode()


def _check_name(name: str) -> None:
    if not name:
        raise Refusal.NO_ATTRIBUTE_NAME.fault()
    if len(name.encode("utf-8", "surrogatepass")) >= _TOO_LONG:
        raise Refusal.ATTRIBUTE_NAME_LENGTH.fault()
    if not _NAME.fullmatch(name):
        raise Refusal.ATTRIBUTE_NAME_CHARACTER.fault()
    if name.lower().startswith(("aws.", "amazon.")):
        raise Refusal.ATTRIBUTE_NAME_RESERVED.fault()
    if name[0] == "." or name[-1] == ".":
        raise Refusal.ATTRIBUTE_NAME_END.fault()
    if ".." in name:
        raise Refusal.ATTRIBUTE_NAME_PERIODS.fault()


def _check_value(name: str, value: AttributeValue) -> None:
    if value.string_list_values or value.binary_list_values:
        raise Refusal.ATTRIBUTE_LIST.fault()
    kind = _read_kind(name, value)
    given = value.binary_value if value.is_binary else value.string_value
    if not given:
        raise Refusal.NO_ATTRIBUTE_VALUE.fault(name=name, kind=kind)
    if (value.string_value if value.is_binary else value.binary_value) is not None:
        raise Refusal.ATTRIBUTE_VALUES.fault(name=name)
    if not value.is_binary:
        wrong = NOT_IN_XML.search(given)
        if wrong is not None:
            raise Refusal.ATTRIBUTE_CHARACTER.fault(code=ord(wrong[0]), name=name)
    if kind == "Number" and not _is_number(given):
        raise Refusal.ATTRIBUTE_NUMBER.fault(name=name)


def _read_kind(name: str, value: AttributeValue) -> str:
    """Return the type without its custom suffix."""
    kind = value.data_type
    if not kind:
        if value.string_value is None and value.binary_value is None:
            raise Refusal.NO_ATTRIBUTE.fault(name=name)
        raise Refusal.NO_ATTRIBUTE_TYPE.fault(name=name)
    if len(kind.encode("utf-8", "surrogatepass")) >= _TOO_LONG:
        raise Refusal.ATTRIBUTE_TYPE_LENGTH.fault()
    found = _TYPE.fullmatch(kind)
    if found is None:
        raise Refusal.ATTRIBUTE_TYPE.fault(name=name)
    return found[1]


def _is_number(text: str) -> bool:
    """Return whether the text is an SQS number: 38 digits, from 10^-128 to 10^126."""
    if not _NUMBER.fullmatch(text):
        return False
    try:
        number = Decimal(text).copy_abs()
    except InvalidOperation:
        return False
    digits = "".join(map(str, number.as_tuple().digits)).strip("0")
    return not number or (len(digits) <= _MOST_DIGITS and _SMALLEST <= number <= _LARGEST)
