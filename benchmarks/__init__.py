"""Benchmarks of the broker: `python -m benchmarks SCENARIO`."""

from __future__ import annotations
