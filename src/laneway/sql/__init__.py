"""The schema: migrations, functions and views as files, and what installs them."""

from __future__ import annotations
