"""What a payload must keep to, checked before anything is written."""

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

MIB = 1_048_576

# JSON's own kinds, which are looked at as they are.
_PLAIN = (str, int, float, dict, list, tuple, type(None))
_TEXTS = frozenset({str})


@dataclass(frozen=True, slots=True, kw_only=True)
class PayloadRules:
    """max_bytes: of the JSON text; max_header_bytes: of the headers'. max_string: characters of a text.

    forbidden_keys: in no object, however deep. required_keys: of the payload itself, which must
    then be an object.
    """

    max_bytes: int = MIB
    max_header_bytes: int = 65_536
    max_depth: int = 64
    max_string: int = MIB
    forbidden_keys: frozenset[str] = frozenset()
    required_keys: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        for name in ("max_bytes", "max_header_bytes", "max_depth", "max_string"):
            size = getattr(self, name)
            if not isinstance(size, int) or isinstance(size, bool) or size < 1:
                raise InvalidSetting(f"{name} is {size!r}: set 1 or more")
        for name in ("forbidden_keys", "required_keys"):
            keys = getattr(self, name)
            # A text is a set of its letters, which would forbid nothing.
            if not isinstance(keys, set | frozenset) or not all(
                isinstance(key, str) for key in keys
            ):
                raise InvalidSetting(f'{name} are {keys!r}: give a frozenset, as {{"password"}}')

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
        """Return headers as JSON text, None for none; their keys are the caller's own affair."""
        if headers is None:
            return None
        if not isinstance(headers, Mapping):
            raise InvalidMessage(
                f'the headers are a {type(headers).__name__}: give a mapping, as {{"trace": "7f"}}'
            )
        for problem, place in self._walk(dict(headers), "headers", frozenset()):
            raise InvalidMessage(f"{place} {problem}")
        text = encode_payload(dict(headers))
        size = _measure(text, self.max_header_bytes)
        if size is not None:
            raise MessageTooLarge(
                f"the headers are {size} bytes: at most {self.max_header_bytes}, and what is larger "
                "belongs into the payload"
            )
        return text

    def _walk(
        self, payload: object, root: str, forbidden: frozenset[str]
    ) -> Iterator[tuple[str, str]]:
        """Yield what is wrong and where; without recursion, since depth is what is in question."""
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


# For what is no producer's: all that JSON has.
_ANYTHING = PayloadRules(max_depth=sys.maxsize, max_string=sys.maxsize)


def encode_result(value: object) -> str:
    """Return JSON text of what is kept as it is: a result, or a workflow's arguments."""
    text = encode_payload(value)
    # As which NaN and infinity are written.
    if "null" in text:
        _ANYTHING.check(value)
    return text


def _measure(text: str, most: int) -> int | None:
    """Return how many bytes a text has, where that is too many."""
    # A character takes at most four bytes.
    if len(text) * 4 <= most:
        return None
    size = len(text.encode())
    return size if size > most else None


def _spell(value: dict[Any, Any]) -> AbstractSet[str]:
    """Return an object's keys as they will be in the JSON, where an enum or a number is a text."""
    if _TEXTS.issuperset(map(type, value)):
        return value.keys()
    return (_simplify(dict.fromkeys(value)) or {}).keys()


def _simplify(value: object) -> Any:
    """Return as JSON's own kinds what is something else, such as a dataclass, a set or a date."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=_read_raw)
    except (TypeError, ValueError, RecursionError):
        # What cannot be written is told when it is.
        return None


class _NotJson(Exception):
    """JSON that was written already, and is none: nothing else would notice."""


def _read_raw(value: object) -> object:
    """Return what JSON says that is written already."""
    if not isinstance(value, msgspec.Raw):
        raise TypeError
    try:
        return msgspec.json.decode(value)
    except (ValueError, RecursionError) as error:
        raise _NotJson(f"is a msgspec.Raw that is no JSON: {error}") from error
