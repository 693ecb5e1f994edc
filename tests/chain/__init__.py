"""Tests on a blockchain."""

from __future__ import annotations

import sys

_depth = sys.getrecursionlimit()
import eth_account  # noqa: E402 - see below

# One of its packages raises the limit so far that tests of deep nesting would end the process.
sys.setrecursionlimit(_depth)

__all__ = ["eth_account"]
