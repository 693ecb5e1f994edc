"""What steps failed with, as it is kept and raised again."""

from __future__ import annotations

import sys
from typing import Any

from laneway.library.messages import decode_payload
from laneway.library.validation import encode_result


def write_failure(error: Exception) -> str | None:
    """Return an error as JSON text; None where it could not be raised again as it is."""
    kind, state = type(error), _state_of(error)
    kept = {
        "module": kind.__module__,
        "name": kind.__qualname__,
        "args": error.args,
        "state": state,
    }
    try:
        text = encode_result(kept)
        made = read_failure(text)
        same = (
            type(made) is kind
            and (made.args, _state_of(made)) == (error.args, state)
            and str(made) == str(error)
        )
    except Exception:  # noqa: BLE001 - whatever somebody's own kind of error does
        return None
    return text if same else None


def read_failure(text: str) -> Exception | None:
    """Return the error that was kept; None where this program does not have its class."""
    kept = decode_payload(text)
    kind: Any = sys.modules.get(kept["module"])
    for name in kept["name"].split("."):
        kind = getattr(kind, name, None)
    if not isinstance(kind, type) or not issubclass(kind, Exception):
        return None
    # Without its own __init__, which may want other arguments than it keeps.
    error: Exception = kind.__new__(kind, *kept["args"])
    error.args = tuple(kept["args"])
    vars(error).update(kept["state"])
    return error


def list_causes(error: BaseException) -> list[BaseException]:
    """Return an error with all that it was raised for, or is a group of."""
    found: list[BaseException] = []
    left: list[BaseException | None] = [error]
    while left:
        item = left.pop()
        if item is None or any(item is other for other in found):
            continue
        found.append(item)
        left += (item.__cause__, item.__context__)
        if isinstance(item, BaseExceptionGroup):
            left += item.exceptions
    return found


def _state_of(error: BaseException) -> dict[str, Any]:
    return {name: value for name, value in vars(error).items() if name != "__notes__"}
