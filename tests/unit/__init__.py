"""Pure code: no database, no process."""

from __future__ import annotations
