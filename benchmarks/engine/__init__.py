"""What the SQL functions cost, beside plain statements on the same server in the same minute."""

from __future__ import annotations
