"""The HTTP server: one application that speaks several protocols over one broker."""

from __future__ import annotations
