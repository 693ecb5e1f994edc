"""The scenario "engine": the cost of the SQL functions, compared with plain statements."""

from __future__ import annotations
