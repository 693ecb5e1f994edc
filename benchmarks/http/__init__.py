"""What the server costs and carries: requests over loopback beside plain statements, in turns."""

from __future__ import annotations
