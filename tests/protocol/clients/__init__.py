"""Generic HTTP clients: Node's fetch, Python's requests, curl, Go's net/http."""

from __future__ import annotations
