"""PostgreSQL settings of the bundled server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_MEBIBYTE = 1024 * 1024
_LARGEST_BUFFERS = 1024
_SMALLEST_BUFFERS = 32


def tune(*, socket_folder: Path, port: int, listen: bool) -> Mapping[str, str]:
    """Return the settings. By default a confirmed commit survives a crash of the machine."""
    return {
        "listen_addresses": "127.0.0.1" if listen else "",
        "port": str(port),
        "unix_socket_directories": str(socket_folder),
        "unix_socket_permissions": "0700",
        "max_connections": "100",
        # A push to many lanes takes one lock for each.
        "max_locks_per_transaction": "256",
        "shared_buffers": f"{_choose_buffers(psutil.virtual_memory().total)}MB",
        "synchronous_commit": "on",
        "max_wal_size": "4GB",
        "checkpoint_timeout": "15min",
        "random_page_cost": "1.1",
        # JIT compilation costs more than our statements take.
        "jit": "off",
        # Small tables that change often are vacuumed early, before dead rows slow them down.
        "autovacuum_naptime": "10s",
        "autovacuum_vacuum_scale_factor": "0.05",
        "autovacuum_analyze_scale_factor": "0.05",
        "autovacuum_vacuum_cost_limit": "2000",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "%m [%p] %q%u@%d ",
    }


def _choose_buffers(memory: int) -> int:
    """Return shared_buffers in MiB: an eighth of the memory, within bounds."""
    return max(_SMALLEST_BUFFERS, min(memory // 8 // _MEBIBYTE, _LARGEST_BUFFERS))
