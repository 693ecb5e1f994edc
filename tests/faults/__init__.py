"""What is killed, cut off or late, and still comes out right."""

from __future__ import annotations
