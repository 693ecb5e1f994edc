"""Values, ids, settings and errors."""

from __future__ import annotations
