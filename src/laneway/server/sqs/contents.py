"""Message bodies and attributes: validation, storage and size."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from laneway.server.sqs.attributes import size_limit
from laneway.server.sqs.digests import digest_body
from laneway.server.sqs.errors import Fault, invalid, missing
from laneway.server.sqs.wire import AttributeValue

if TYPE_CHECKING:
    from collections.abc import Mapping

MOST_ATTRIBUTES = 10
_LONGEST_NAME = 256

# Characters that XML 1.0 does not allow.
NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NAME = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*")
_TYPE = re.compile(r"(String|Number|Binary)(\..+)?", re.DOTALL)
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_MOST_DIGITS = 38
_SMALLEST, _LARGEST = Decimal("1e-128"), Decimal("1e126")
_TRACE = "AWSTraceHeader"

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


def read_body(raw: msgspec.Raw) -> Body:
    """Validate a body and return it as a JSON string, unchanged unless it has needless escapes."""
    data = bytes(raw)
    if data[:1] != b'"':
        raise Fault("SerializationException", "MessageBody must be a string.")
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
        raise Fault("SerializationException", "MessageBody is not UTF-8.") from None
    if not content:
        raise missing("MessageBody")
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
        raise invalid(
            f"Number of message attributes [{len(attributes)}] exceeds the allowed maximum "
            f"[{MOST_ATTRIBUTES}]."
        )
    size = 0
    for name, value in attributes.items():
        _check_name(name)
        _check_value(name, value)
        size += len(name.encode()) + len(value.data_type.encode()) + len(value.content)
    return size


def read_trace(attributes: Mapping[str, AttributeValue]) -> str | None:
    for name, value in attributes.items():
        if name != _TRACE:
            raise invalid(f"Message system attribute name '{name}' is invalid.")
        _check_value(name, value)
        if value.data_type != "String":
            raise invalid(f"Message system attribute '{name}' must be a String.")
        return value.string_value
    return None


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
        raise Fault(
            "InvalidMessageContents",
            f"Invalid binary character '#x{ord(found[0]):X}' was found in the message body, the "
            "set of allowed characters is #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | "
            "#x10000 to #x10FFFF",
        )
    return text.encode()


def _check_name(name: str) -> None:
    if not name or len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
        raise invalid(
            "Message (user) attribute name is invalid: it has up to 256 of A-Z, a-z, 0-9, "
            f"underscore, hyphen and period, and no period at an end or after another: '{name}'."
        )
    if name.lower().startswith(("aws.", "amazon.")):
        raise invalid(
            f"Message (user) attribute names beginning with AWS. or Amazon. are reserved: '{name}'."
        )


def _check_value(name: str, value: AttributeValue) -> None:
    kind = value.data_type
    if not kind:
        raise invalid(
            f"The message attribute '{name}' must contain non-empty message attribute type."
        )
    if len(kind) > _LONGEST_NAME or not _TYPE.fullmatch(kind):
        raise invalid(
            f"The message attribute '{name}' has an invalid message attribute type, the set of "
            "supported type prefixes is Binary, Number, and String."
        )
    given = value.binary_value if value.is_binary else value.string_value
    if not given:
        raise invalid(
            f"The message attribute '{name}' must contain non-empty message attribute value for "
            f"message attribute type '{kind}'."
        )
    if (value.string_value if value.is_binary else value.binary_value) is not None:
        raise invalid(f"The message attribute '{name}' has more than one value.")
    if not value.is_binary and NOT_IN_XML.search(given):
        raise Fault(
            "InvalidMessageContents",
            f"Invalid binary character was found in the message attribute '{name}'.",
        )
    if kind.startswith("Number") and not _is_number(given):
        raise invalid(f"Can't cast the value of message (user) attribute '{name}' to a number.")


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
