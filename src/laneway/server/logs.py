"""Log lines: text for people, or JSON objects, one per line, for programs."""

from __future__ import annotations

import logging
import sys
from datetime import UTC, datetime
from typing import Any, Literal, TypeAlias, get_args

import msgspec

from laneway.domain.escapes import escape

# The standard library's levels, by the names that other servers use.
_LEVELS = {
    "trace": logging.DEBUG,
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warn": logging.WARNING,
    "warning": logging.WARNING,
    "error": logging.ERROR,
    "fatal": logging.CRITICAL,
    "critical": logging.CRITICAL,
    "silent": logging.CRITICAL + 1,
}
LEVELS = tuple(_LEVELS)

LogFormat: TypeAlias = Literal["text", "json"]
FORMATS = ("auto", *get_args(LogFormat))

# The fields that a caller may add to the message with `extra`, beside those in a dict `fields`.
_EXTRA = ("request_id", "status", "milliseconds", "worker")


class JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "process": record.process,
        }
        line |= getattr(record, "fields", {})
        for name in _EXTRA:
            value = getattr(record, name, None)
            if value is not None:
                line[name] = value
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


class TextFormatter(logging.Formatter):
    """Escapes control characters in Laneway's log lines, which may contain texts of clients."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        text = super().format(record)
        return escape(text, lines=True) if record.name.split(".")[0] == "laneway" else text


def choose_format(chosen: str) -> LogFormat:
    """Return the format; "auto" is text on a terminal, else JSON."""
    if chosen == "auto":
        return "text" if sys.stderr is not None and sys.stderr.isatty() else "json"
    return "text" if chosen == "text" else "json"


def set_up_logs(level: str, form: LogFormat = "json") -> None:
    """Send the log lines of every logger to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(TextFormatter() if form == "text" else JsonFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(_LEVELS[level])
    # What clients send wrongly is in their responses.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
