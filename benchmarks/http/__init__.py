"""The scenario "http": requests over loopback, compared in turns with plain statements."""

from __future__ import annotations
