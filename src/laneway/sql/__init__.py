"""The schema: migrations, functions and views as SQL files, and their installer."""

from __future__ import annotations
