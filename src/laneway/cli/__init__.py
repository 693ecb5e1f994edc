"""The `laneway` command; the only package that reads the environment."""

from __future__ import annotations
