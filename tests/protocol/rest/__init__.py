"""The REST protocol."""

from __future__ import annotations
