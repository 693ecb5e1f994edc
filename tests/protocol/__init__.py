"""The protocols, spoken to a server that runs as a person runs it."""

from __future__ import annotations
