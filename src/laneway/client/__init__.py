"""The library's calls over HTTP, to a server at a URL."""

from __future__ import annotations

from laneway.client.backend import HttpBackend

__all__ = ["HttpBackend"]
