"""What a release ships."""

from __future__ import annotations
