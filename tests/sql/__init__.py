"""Each SQL function: the good path, the conflict, two sessions racing."""

from __future__ import annotations
