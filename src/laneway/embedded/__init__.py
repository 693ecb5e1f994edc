"""The bundled PostgreSQL: created, tuned, started, watched and stopped with the program."""

from __future__ import annotations

from laneway.embedded.server import EmbeddedPostgres, find_running, has_database

__all__ = ["EmbeddedPostgres", "find_running", "has_database"]
