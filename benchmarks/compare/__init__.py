"""The command "compare": the cost of a base revision and of this checkout, measured in turns."""

from __future__ import annotations
