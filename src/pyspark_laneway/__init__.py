"""Lets Spark find `format("laneway")` by name: it looks for DefaultSource in packages called pyspark_*."""

from __future__ import annotations

from laneway.lake.source import LanewaySource as DefaultSource

__all__ = ["DefaultSource"]
