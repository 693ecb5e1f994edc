"""Behaviours of Laneway, proved on real PostgreSQL."""

from __future__ import annotations
