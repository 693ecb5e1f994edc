"""The Python library, on a database and through a server."""

from __future__ import annotations
