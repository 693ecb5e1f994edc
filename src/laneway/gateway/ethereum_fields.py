"""The requests for relayers of Ethereum transactions: their fields, and what may be in them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from laneway.gateway.failures import InvalidFields

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Rule: TypeAlias = Callable[[Any], str | None]
    Issues: TypeAlias = list[tuple[str, str]]

SPEEDS = ("safeLow", "average", "fast", "fastest")

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_BYTES = re.compile(r"(?:0x)?(?:[0-9a-fA-F]{2})*")
_SIGNATURE = re.compile(r"(?:0x)?[0-9a-fA-F]{130}")
_DIGITS = re.compile(r"[0-9]{1,78}")


class _Field(NamedTuple):
    """A rule returns what is wrong with a value, None if nothing is."""

    rule: Rule
    required: bool = True


def check_address(value: Any) -> str | None:
    if isinstance(value, str) and _ADDRESS.fullmatch(value):
        return None
    return "is not an Ethereum address: 0x and 40 hexadecimal digits"


def _check_bytes(value: Any) -> str | None:
    if isinstance(value, str) and _BYTES.fullmatch(value):
        return None
    return "is not a string of bytes in hexadecimal digits, with or without 0x"


def _check_signature(value: Any) -> str | None:
    if isinstance(value, str) and _SIGNATURE.fullmatch(value):
        return None
    return "is not a signature: 65 bytes in hexadecimal digits, with or without 0x"


def _check_speed(value: Any) -> str | None:
    return None if value in SPEEDS else f"is not a speed: use {', '.join(SPEEDS)}"


def _limit(bits: int) -> Rule:
    def check_number(value: Any) -> str | None:
        if not isinstance(value, str) or not _DIGITS.fullmatch(value):
            return 'is not a whole number as a string, such as "21000"'
        return f"is larger than 2^{bits} - 1" if int(value) >> bits else None

    return check_number


# A relayer's own limit on gas.
_GAS = _limit(64)
_DIRECT = {
    "to": _Field(check_address),
    "data": _Field(_check_bytes),
    "value": _Field(_limit(256), required=False),
    "gas": _Field(_GAS, required=False),
    "gasLimit": _Field(_GAS, required=False),
    "speed": _Field(_check_speed, required=False),
}
_FORWARD = {
    "from": _Field(check_address),
    "to": _Field(check_address),
    "value": _Field(_limit(256)),
    "gas": _Field(_GAS),
    "nonce": _Field(_limit(256)),
    "deadline": _Field(_limit(48)),
    "data": _Field(_check_bytes),
}


def check_direct(request: Any) -> None:
    """Raise InvalidFields for a request to send a transaction, with every field that is wrong."""
    issues = _find_issues(request, _DIRECT)
    if not issues and request.get("gas") is not None and request.get("gasLimit") is not None:
        issues.append(("gasLimit", "is given beside gas: send one of them"))
    if issues:
        raise InvalidFields(issues)


def check_gasless(request: Any) -> None:
    """Raise InvalidFields for a signed request to a forwarder, with every field that is wrong."""
    inner: Issues = []

    def check_forward(value: Any) -> None:
        inner.extend(_find_issues(value, _FORWARD, "request"))

    fields = {"request": _Field(check_forward), "signature": _Field(_check_signature)}
    issues = inner + _find_issues(request, fields)
    if issues:
        raise InvalidFields(issues)


def _find_issues(value: Any, fields: Mapping[str, _Field], place: str = "") -> Issues:
    if not isinstance(value, dict):
        return [(place, "is not an object")]
    prefix = f"{place}." if place else ""
    issues = [(f"{prefix}{name}", "is unknown") for name in value if name not in fields]
    for name, field in fields.items():
        given = value.get(name)
        if given is None:
            if field.required:
                issues.append((f"{prefix}{name}", "is missing"))
        elif (problem := field.rule(given)) is not None:
            issues.append((f"{prefix}{name}", problem))
    return issues
