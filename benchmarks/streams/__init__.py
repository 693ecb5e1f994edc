"""The scenario "streams": the streams protocol over HTTP, by batches, partitions and groups."""

from __future__ import annotations
