"""Validation of payloads and headers before they are encoded and sent."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from laneway.domain.errors import (
    InvalidMessage,
    InvalidPayload,
    InvalidSetting,
    MessageTooLarge,
)
from laneway.library.messages import encode_payload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from collections.abc import Set as AbstractSet

# The default `max_bytes` of a queue.
LARGEST_PAYLOAD = 16_777_216

# JSON's own types, which are checked without conversion.
_PLAIN = (str, int, float, dict, list, tuple, type(None))
_TEXTS = frozenset({str})


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadRules:
    """Limits of payloads.

    max_bytes: of the payload's JSON text. max_header_bytes: of the headers' JSON text. max_depth: of
    nested objects and arrays. max_string: characters of a string. forbidden_keys: names that no
    object may have at any depth. required_keys: names that the payload, then an object, must have.
    """

    max_bytes: int = LARGEST_PAYLOAD
    max_header_bytes: int = 65_536
    max_depth: int = 64
    max_string: int = LARGEST_PAYLOAD
    forbidden_keys: frozenset[str] = frozenset()
    required_keys: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_header_bytes", "max_depth", "max_string"):
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise InvalidSetting(f"{name} is {size!r}: set 1 or more")
        for name in ("forbidden_keys", "required_keys"):
            keys = getattr(self, name)
            # A str would be read as a set of letters.
            if not isinstance(keys, set | frozenset) or not all(
                isinstance(key, str) for key in keys
            ):
                raise InvalidSetting(
                    f'{name} is {keys!r}: use a set of strings, such as {{"password"}}'
                )

    def write(self, payload: object, *, index: int | None = None) -> str:
        """Return a payload as JSON text."""
        self.check(payload, index=index)
        body = encode_payload(payload, index=index)
        self.check_size(body, index=index)
        return body

    def check(self, payload: object, *, index: int | None = None) -> None:
        """Raise InvalidPayload for the first rule that the payload breaks."""
        for problem, place in self._walk(payload, "$", self.forbidden_keys):
            raise InvalidPayload(problem, place=place, index=index)
        if self.required_keys:
            plain = payload if isinstance(payload, dict) else _simplify(payload)
            missing = self.required_keys - (_spell(plain) if isinstance(plain, dict) else set())
            if missing:
                raise InvalidPayload(f"lacks {', '.join(sorted(missing))}", index=index)

    def check_size(self, body: str, *, index: int | None = None) -> None:
        size = _measure(body, self.max_bytes)
        if size is not None:
            raise InvalidPayload(f"is {size} bytes: at most {self.max_bytes}", index=index)

    def write_headers(self, headers: object) -> str | None:
        """Return headers as JSON text, or None. forbidden_keys does not apply to headers."""
        if headers is None:
            return None
        if not isinstance(headers, Mapping):
            raise InvalidMessage(
                f'headers is a {type(headers).__name__}: use a mapping, such as {{"trace": "7f"}}'
            )
        for problem, place in self._walk(dict(headers), "headers", frozenset()):
            raise InvalidMessage(f"{place} {problem}")
        text = encode_payload(dict(headers))
        size = _measure(text, self.max_header_bytes)
        if size is not None:
            raise MessageTooLarge(
                f"headers of {size} bytes are too large ({self.max_header_bytes} at most): put large "
                "values into the payload"
            )
        return text

    def _walk(
        self, payload: object, root: str, forbidden: frozenset[str]
    ) -> Iterator[tuple[str, str]]:
        """Yield each problem and its place. Not recursive, since the depth may be the problem."""
        stack: list[tuple[Any, int, str]] = [(payload, 1, root)]
        while stack:
            value, depth, place = stack.pop()
            if not isinstance(value, _PLAIN):
                try:
                    value = _simplify(value)
                except _NotJson as error:
                    yield str(error), place
                    return
            if not isinstance(value, dict | list | tuple):
                problem = self._find_problem(value)
                if problem is not None:
                    yield problem, place
            elif depth > self.max_depth:
                yield f"is nested more than {self.max_depth} deep", place
                return
            elif isinstance(value, dict):
                for key in _spell(value) & forbidden if forbidden else ():
                    yield "has a forbidden key", f"{place}.{key}"
                stack += [(item, depth + 1, f"{place}.{key}") for key, item in value.items()]
            else:
                stack += [
                    (item, depth + 1, f"{place}[{number}]") for number, item in enumerate(value)
                ]

    def _find_problem(self, value: object) -> str | None:
        if isinstance(value, str) and len(value) > self.max_string:
            return f"has {len(value)} characters: at most {self.max_string}"
        if isinstance(value, float) and not math.isfinite(value):
            return f"is {value}, which JSON does not have"
        return None


# For values other than producers' payloads: anything that JSON can represent.
_ANYTHING = PayloadRules(max_depth=sys.maxsize, max_string=sys.maxsize)


def encode_result(value: object) -> str:
    """Return a handler's result or a workflow's arguments as JSON text."""
    text = encode_payload(value)
    # NaN and infinity are encoded as null.
    if "null" in text:
        _ANYTHING.check(value)
    return text


def _measure(text: str, most: int) -> int | None:
    """Return a text's size in bytes if it is larger than `most`, else None."""
    # A character takes at most four bytes.
    if len(text) * 4 <= most:
        return None
    size = len(text.encode())
    return size if size > most else None


def _spell(value: dict[Any, Any]) -> AbstractSet[str]:
    """Return an object's keys as they will be in JSON, where enums and numbers become strings."""
    if _TEXTS.issuperset(map(type, value)):
        return value.keys()
    return (_simplify(dict.fromkeys(value)) or {}).keys()


def _simplify(value: object) -> Any:
    """Convert a value such as a dataclass, a set or a date to JSON's own types."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_read_raw)
    except (TypeError, ValueError, RecursionError):
        # The encoder reports the error.
        return None


class _NotJson(Exception):
    """A msgspec.Raw with invalid JSON, which the encoder would pass through."""


def _read_raw(value: object) -> object:
    """Decode a msgspec.Raw."""
    if not isinstance(value, msgspec.Raw):
        raise TypeError
    try:
        return msgspec.json.decode(value)
    except (ValueError, RecursionError) as error:
        raise _NotJson(f"is a msgspec.Raw with invalid JSON: {error}") from error
