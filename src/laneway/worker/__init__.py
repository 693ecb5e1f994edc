"""Worker programs: handlers, periodic jobs and workflows of one App."""

from __future__ import annotations
