"""To come."""

from __future__ import annotations

from typing import Any

from laneway.server.operations import Operation

OPERATIONS: tuple[Operation[Any, Any], ...] = ()
