"""Worker programs: handlers, periodic jobs and workflows, on one App."""

from __future__ import annotations
