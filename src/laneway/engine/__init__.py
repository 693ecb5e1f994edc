"""The broker in one process: pumps, wake-ups and maintenance over PostgreSQL."""

from __future__ import annotations

from laneway.engine.broker import Broker

__all__ = ["Broker"]
