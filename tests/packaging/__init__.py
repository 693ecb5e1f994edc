"""Contents of a release."""

from __future__ import annotations
