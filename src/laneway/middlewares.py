"""Middlewares for tracing and metrics; add them with `App.middleware`."""

from __future__ import annotations

from laneway.worker.middlewares import Metrics, Timing, trace

__all__ = ["Metrics", "Timing", "trace"]
