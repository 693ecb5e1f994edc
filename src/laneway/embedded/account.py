"""The operating-system account that the database runs under."""

from __future__ import annotations

import os
import pwd
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from laneway.embedded.errors import NoAccount

if TYPE_CHECKING:
    from pathlib import Path

# The first that exists is used. Create `laneway` for a dedicated account.
CANDIDATES = ("laneway", "postgres", "nobody")


@dataclass(frozen=True, slots=True)
class Account:
    """The unprivileged account that runs the database when the program runs as root."""

    uid: int
    gid: int

    def can_reach(self, path: Path) -> bool:
        """Return whether this account may enter all parent directories and read the path."""
        resolved = path.resolve()
        return self._may(resolved, stat.S_IROTH) and all(
            self._may(folder, stat.S_IXOTH) for folder in resolved.parents
        )

    def _may(self, path: Path, bit_for_others: int) -> bool:
        status = path.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & (bit_for_others << 6))
        if status.st_gid == self.gid:
            return bool(status.st_mode & (bit_for_others << 3))
        return bool(status.st_mode & bit_for_others)


def choose_account(cluster: Path) -> Account | None:
    """Return the account for root; None for an ordinary user, who runs the database directly.

    A cluster that exists keeps the account that owns it.
    """
    if os.geteuid() != 0:
        return None
    if cluster.exists() and (owner := cluster.stat()).st_uid != 0:
        return Account(owner.st_uid, owner.st_gid)
    for name in CANDIDATES:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise NoAccount(CANDIDATES)
