"""Errors sent from a handler process to its worker, also those that pickle cannot copy."""

from __future__ import annotations

import pickle
from typing import Any, NamedTuple

from laneway.worker.policies import describe, read_text
from laneway.worker.tracebacks import format_traceback


class Failure(NamedTuple):
    """An error from a handler process. packed: the pickled error or its `Sketch`; may be empty."""

    packed: bytes
    name: str
    text: str
    trace: str


class Sketch(NamedTuple):
    """An error's class, arguments and attributes, to restore it without calling its constructor."""

    kind: type[BaseException]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]

    def make(self) -> BaseException:
        error = self.kind.__new__(self.kind, *self.arguments)
        error.__dict__.update(self.attributes)
        return error


def pack(error: BaseException) -> Failure:
    """Pack an error as completely as possible, and so that the copy has the same description."""
    kind, text = type(error), read_text(error)
    trace = format_traceback(error)
    forms = (error, Sketch(kind, error.args, vars(error)), Sketch(kind, (text,), {}))
    for form in forms:
        try:
            packed = pickle.dumps(form)
            copy = _read(packed)
        except Exception:  # noqa: BLE001, S112 - a handler's own error class may raise anything
            continue
        if type(copy) is kind and describe(copy) == describe(error):
            return Failure(packed, kind.__name__, text, trace)
    return Failure(b"", kind.__name__, text, trace)


def unpack(failure: Failure) -> BaseException:
    """Return the error. If its class cannot be found here, use a new class of the same name."""
    try:
        error = _read(failure.packed)
    except Exception:  # noqa: BLE001 - as above
        error = type(failure.name, (Exception,), {})(failure.text)
    if failure.trace:
        error.add_note(failure.trace)
    return error


def _read(packed: bytes) -> BaseException:
    form = pickle.loads(packed)  # noqa: S301 - of our own process
    error = form.make() if isinstance(form, Sketch) else form
    if not isinstance(error, BaseException):
        raise TypeError(f"{error!r} is not an exception")
    return error
