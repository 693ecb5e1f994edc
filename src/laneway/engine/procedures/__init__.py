"""One typed call per SQL function, thin: arguments in, rows out, errors translated."""

from __future__ import annotations
