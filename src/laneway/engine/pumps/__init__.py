"""Requests ride together: a call starts when a connection is free and takes what has gathered."""

from __future__ import annotations
