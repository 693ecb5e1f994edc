"""The streams protocol."""

from __future__ import annotations
