"""The scenario "streams": the streams protocol over HTTP, by batch size, partitions and groups."""

from __future__ import annotations
