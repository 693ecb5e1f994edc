"""Laneway: a message broker on PostgreSQL."""

from __future__ import annotations
