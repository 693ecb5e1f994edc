"""What the broker costs, measured: `python -m benchmarks SCENARIO`."""

from __future__ import annotations
