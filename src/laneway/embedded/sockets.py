"""The folder of the server's socket, and the URL that uses it."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

if TYPE_CHECKING:
    from laneway.embedded.account import Account

DEFAULT_PORT = 5432

# sockaddr_un has 104 bytes on macOS and 108 on Linux, including the final zero.
_LONGEST_PATH = 103
# Not the system's temporary directory, whose path may be too long.
_SHORT_PLACE = Path("/tmp")  # noqa: S108 - only private directories are made in it
_PREFIX = "laneway-"


def format_dsn(folder: Path, port: int) -> str:
    """Return the URL for asyncpg and libpq."""
    return f"postgresql://postgres@/postgres?host={quote(str(folder))}&port={port}"


def choose_folder(cluster: Path, port: int, account: Account | None) -> Path:
    """Return the cluster's folder, unless its path is too long or contains a comma."""
    is_short = len(f"{cluster}/.s.PGSQL.{port}".encode()) <= _LONGEST_PATH
    is_plain = re.fullmatch(r"[\w/.+~-]+", str(cluster), re.ASCII) is not None
    if is_short and is_plain:
        return cluster
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_SHORT_PLACE))
    if account is not None:
        shutil.chown(folder, account.uid, account.gid)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove the folder if it was created for a socket; never a cluster."""
    if folder.parent == _SHORT_PLACE and folder.name.startswith(_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
