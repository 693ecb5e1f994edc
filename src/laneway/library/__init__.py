"""The roles that Python programs use: Producer, Consumer, Admin, on one Connection."""

from __future__ import annotations
