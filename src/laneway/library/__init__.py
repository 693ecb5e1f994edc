"""The Python library: Producer, Consumer and Admin on one Connection."""

from __future__ import annotations
