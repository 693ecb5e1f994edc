"""Errors on their way out of a process: pickle does not bring everyone's through."""

from __future__ import annotations

import pickle
import traceback
from typing import Any, NamedTuple

from laneway.worker.policies import describe, read_text


class Failure(NamedTuple):
    """An error that left its process. packed: itself, or a sketch of it, as far as it can be read."""

    packed: bytes
    name: str
    text: str
    trace: str


class Sketch(NamedTuple):
    """An error without what its constructor did."""

    kind: type[BaseException]
    arguments: tuple[Any, ...]
    attributes: dict[str, Any]

    def make(self) -> BaseException:
        error = self.kind.__new__(self.kind, *self.arguments)
        error.__dict__.update(self.attributes)
        return error


def pack(error: BaseException) -> Failure:
    """Return the error itself where it can be pickled and says the same, else what is left of it."""
    kind, text = type(error), read_text(error)
    trace = "".join(traceback.format_exception(error))
    forms = (error, Sketch(kind, error.args, vars(error)), Sketch(kind, (text,), {}))
    for form in forms:
        try:
            packed = pickle.dumps(form)
            copy = _read(packed)
        except Exception:  # noqa: BLE001, S112 - whatever a handler's own kind of error does
            continue
        if type(copy) is kind and describe(copy) == describe(error):
            return Failure(packed, kind.__name__, text, trace)
    return Failure(b"", kind.__name__, text, trace)


def unpack(failure: Failure) -> BaseException:
    """Return the error; one whose class cannot be found here is one of the same name."""
    try:
        error = _read(failure.packed)
    except Exception:  # noqa: BLE001 - as above
        error = type(failure.name, (Exception,), {})(failure.text)
    error.add_note(failure.trace)
    return error


def _read(packed: bytes) -> BaseException:
    form = pickle.loads(packed)  # noqa: S301 - of our own process
    error = form.make() if isinstance(form, Sketch) else form
    if not isinstance(error, BaseException):
        raise TypeError(f"{error!r} is no error")
    return error
