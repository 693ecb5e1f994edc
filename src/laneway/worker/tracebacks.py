"""Texts of errors as they are stored with an attempt: a summary and a bounded traceback."""

from __future__ import annotations

import os
import traceback
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from laneway.domain.escapes import replace_unstorable
from laneway.worker.policies import Reject, RetryAfter, describe

if TYPE_CHECKING:
    from typing import TypeAlias

    ExcInfo: TypeAlias = tuple[type[BaseException], BaseException, TracebackType | None]

MOST_CHARACTERS = 4000
MOST_FRAMES = 50
# Of one frame, or of the message of one error.
_MOST_OF_PART = 1000

_OWN_CODE = str(Path(__file__).parent.parent) + os.sep


def describe_failure(error: BaseException) -> str:
    """Return an error as it is stored: its description, then its traceback, if it has one.

    Reject and RetryAfter have none, because the handler raises them on purpose.
    """
    summary = describe(error)
    trace = "" if isinstance(error, Reject | RetryAfter) else format_traceback(error)
    return f"{summary}\n{trace}" if trace else summary


def format_traceback(error: BaseException) -> str:
    """Return the traceback without frames of this package; "" if no frame is left.

    A long one keeps its end, where the error was raised, and only the beginning of long messages.
    """
    try:
        found = traceback.TracebackException.from_exception(error, limit=-MOST_FRAMES)
        _remove_own_frames(found)
        text = "".join(map(_shorten, found.format())).rstrip()
    except Exception:  # noqa: BLE001 - a handler's own error class may raise anything
        return ""
    if 'File "' not in text:
        return ""
    if len(text) > MOST_CHARACTERS:
        text = "(shortened)\n" + text[-MOST_CHARACTERS:].partition("\n")[2]
    return replace_unstorable(text)


def _shorten(part: str) -> str:
    return part if len(part) <= _MOST_OF_PART else part[:_MOST_OF_PART] + "…\n"


def make_exc_info(error: BaseException | str) -> ExcInfo | None:
    """Return what a log line takes as `exc_info`; None if there is no traceback to write."""
    if not isinstance(error, BaseException) or not format_traceback(error):
        return None
    if not _is_encodable(error):
        return None
    return type(error), error, _without_own_frames(error.__traceback__)


def _is_encodable(error: BaseException) -> bool:
    """Return whether the text of an error has no unpaired surrogates."""
    try:
        "".join(traceback.format_exception(error)).encode()
    except Exception:  # noqa: BLE001 - as above
        return False
    return True


def _without_own_frames(trace: TracebackType | None) -> TracebackType | None:
    links = []
    while trace is not None:
        links.append(trace)
        trace = trace.tb_next
    for link in reversed(links):
        frame = link.tb_frame
        if not frame.f_code.co_filename.startswith(_OWN_CODE):
            trace = TracebackType(trace, frame, link.tb_lasti, link.tb_lineno)
    return trace


def _remove_own_frames(found: traceback.TracebackException) -> None:
    found.stack[:] = [frame for frame in found.stack if not frame.filename.startswith(_OWN_CODE)]
    for other in (found.__cause__, found.__context__, *(found.exceptions or ())):
        if other is not None:
            _remove_own_frames(other)
