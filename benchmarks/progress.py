"""Prints on standard error what is being measured, and how far it is."""

from __future__ import annotations

import sys
import time

_REPEAT_SECONDS = 10.0


class Progress:
    """One line, updated in place, on a terminal; elsewhere a new line every ten seconds at most."""

    def __init__(self) -> None:
        self._terminal = sys.stderr.isatty()
        self._title = ""
        self._shown_at = 0.0

    def begin(self, title: str) -> None:
        self._title = title
        self._show("")

    def step(self, what: str, done: float, total: float) -> None:
        if self._terminal or time.monotonic() - self._shown_at >= _REPEAT_SECONDS:
            self._show(f"{what} {done:,.0f} of {total:,.0f}")

    def say(self, what: str) -> None:
        self._show(what)

    def end(self, summary: str) -> None:
        self._show(summary)
        if self._terminal:
            print(file=sys.stderr)

    def _show(self, text: str) -> None:
        line = f"{self._title}: {text}" if text else self._title
        print(
            f"\r\x1b[K{line}" if self._terminal else line,
            file=sys.stderr,
            flush=True,
            end="" if self._terminal else "\n",
        )
        self._shown_at = time.monotonic()
