"""Where the server's socket is, and the address that leads there."""

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

# sockaddr_un holds 104 bytes on macOS and 108 on Linux, with the closing zero.
_LONGEST_PATH = 103
# Not the system's own choice of a temporary directory, whose path may be long itself.
_SHORT_PLACE = Path("/tmp")  # noqa: S108 - only private directories are made in it
_PREFIX = "laneway-"


def format_dsn(folder: Path, port: int) -> str:
    """Return a URL that asyncpg and libpq understand."""
    return f"postgresql://postgres@/postgres?host={quote(str(folder))}&port={port}"


def choose_folder(cluster: Path, port: int, account: Account | None) -> Path:
    """Prefer the cluster, unless its path is too long or a URL's list of hosts would split it."""
    is_short = len(f"{cluster}/.s.PGSQL.{port}".encode()) <= _LONGEST_PATH
    is_plain = re.fullmatch(r"[\w/.+~-]+", str(cluster), re.ASCII) is not None
    if is_short and is_plain:
        return cluster
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=_SHORT_PLACE))
    if account is not None:
        shutil.chown(folder, account.uid, account.gid)
    return folder


def remove_folder(folder: Path) -> None:
    """Remove it if it was made for a socket, and leave a cluster alone."""
    if folder.parent == _SHORT_PLACE and folder.name.startswith(_PREFIX):
        shutil.rmtree(folder, ignore_errors=True)
