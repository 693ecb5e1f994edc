"""The scenario "library": workers beside those of procrastinate and pgqueuer."""

from __future__ import annotations
