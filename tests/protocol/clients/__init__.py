"""Clients that were not written for Laneway: Node's fetch, Python's requests, curl, Go's net/http."""

from __future__ import annotations
