"""The broker behind a URL: the library's calls over HTTP."""

from __future__ import annotations

from laneway.client.backend import HttpBackend

__all__ = ["HttpBackend"]
