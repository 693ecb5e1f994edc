"""One typed call per SQL function: passes arguments, returns rows, translates errors."""

from __future__ import annotations
