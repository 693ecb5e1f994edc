"""Several parts together, on a real server."""

from __future__ import annotations
