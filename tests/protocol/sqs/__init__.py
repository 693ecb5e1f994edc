"""The SQS protocol, as its own clients see it."""

from __future__ import annotations
