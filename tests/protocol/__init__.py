"""The protocols, spoken to a running server."""

from __future__ import annotations
