"""The HTTP server: one ASGI application that speaks several protocols over one broker."""

from __future__ import annotations
