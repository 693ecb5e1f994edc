"""The SQS protocol, with its own clients."""

from __future__ import annotations
