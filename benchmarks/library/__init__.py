"""The scenario "library": workers, compared with those of procrastinate and pgqueuer."""

from __future__ import annotations
