"""Stored errors of workflow steps: written as JSON, and restored to be raised again."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from laneway.library.messages import decode_payload
from laneway.library.validation import encode_result
from laneway.worker.tracebacks import describe_failure


def write_failure(error: Exception) -> str | None:
    """Return an error as JSON text; None if it could not be restored from that unchanged."""
    kind, state = type(error), _state_of(error)
    try:
        # The file name of an OSError is not in its args, only in what it is pickled as.
        for arguments in (error.args, error.__reduce__()[1]):
            text = encode_result(
                {
                    "module": kind.__module__,
                    "name": kind.__qualname__,
                    "args": arguments,
                    "state": state,
                    "reason": describe_failure(error),
                }
            )
            made = read_failure(text)
            if (
                type(made) is kind
                and (made.args, _state_of(made)) == (error.args, state)
                and str(made) == str(error)
            ):
                return text
    except Exception:  # noqa: BLE001 - the error's class may raise anything
        return None
    return None


def read_failure(text: str) -> Exception | None:
    """Return the stored error; None if this program cannot restore it."""
    kept = decode_payload(text)
    try:
        kind: Any = import_module(kept["module"])
        for name in kept["name"].split("."):
            kind = getattr(kind, name)
        # Without __init__, which may take other arguments than it stores in args.
        error = kind.__new__(kind, *kept["args"])
        vars(error).update(kept["state"])
    except Exception:  # noqa: BLE001 - as above
        return None
    return error if isinstance(error, Exception) else None


def _state_of(error: BaseException) -> dict[str, Any]:
    return {name: value for name, value in vars(error).items() if name != "__notes__"}
