"""Batches requests: a call of the database carries all requests that wait when it starts."""

from __future__ import annotations
