"""The library's calls over HTTP: one operation for each, derived from Backend's signatures."""

from __future__ import annotations

from laneway.client.wire import PREFIX
from laneway.server.library.errors import explain
from laneway.server.library.operations import OPERATIONS
from laneway.server.operations import Surface

SURFACE = Surface(name="library", prefix=PREFIX, operations=OPERATIONS, explain=explain)

__all__ = ["SURFACE"]
