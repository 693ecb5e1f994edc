"""The library, used as a person uses it: on a database and on a server."""

from __future__ import annotations
