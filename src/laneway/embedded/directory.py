"""The data directory: its layout, its owner lock, and the cluster inside it.

.laneway/lock           locked by the program while it runs; contains its process id
.laneway/postgres/      PostgreSQL's own files, owned by the account it runs under
.laneway/postgres.log   what the server said
.laneway/socket         names the folder of its socket, while that is elsewhere
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

from laneway.embedded.binaries import SHARED
from laneway.embedded.errors import DataDirectoryInUse, DataDirectoryUnusable

if TYPE_CHECKING:
    from laneway.embedded.account import Account
    from laneway.embedded.binaries import Binaries

_LARGEST_LOG = 16 * 1024 * 1024
_FIRST_BUILTIN_LOCALE = 17


@dataclass(frozen=True, slots=True)
class DataDirectory:
    """Paths below one data directory."""

    root: Path

    @property
    def cluster(self) -> Path:
        """PostgreSQL's files, or a link to them where the server's account cannot enter `root`."""
        return self.root / "postgres"

    @property
    def log(self) -> Path:
        return self.root / "postgres.log"

    @property
    def _socket_note(self) -> Path:
        return self.root / "socket"

    def acquire(self) -> DirectoryLock:
        """Take the owner lock, until released or until this process ends."""
        try:
            self.root.mkdir(mode=0o755, parents=True, exist_ok=True)
            descriptor = os.open(self.root / "lock", os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as error:
            is_file = isinstance(error, FileExistsError)
            denied = (
                f"{error.strerror} as this user" if isinstance(error, PermissionError) else None
            )
            reason = "it is not a directory" if is_file else denied or str(error.strerror)
            raise DataDirectoryUnusable(self.root, reason) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).strip()
            os.close(descriptor)
            raise DataDirectoryInUse(self.root, int(holder) if holder.isdigit() else None) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        return DirectoryLock(descriptor)

    def find_owner(self) -> int | None:
        """Return the process that holds the lock, without taking it; None if none does."""
        try:
            holder = (self.root / "lock").read_text().strip()
        except OSError:
            return None
        return int(holder) if holder.isdigit() and psutil.pid_exists(int(holder)) else None

    def read_socket_folder(self) -> Path | None:
        """Return the last owner's socket folder, if it was killed before removing it."""
        try:
            return Path(self._socket_note.read_text())
        except FileNotFoundError:
            return None

    def note_socket_folder(self, folder: Path | None) -> None:
        """Record the socket folder; None removes the record."""
        if folder is None:
            self._socket_note.unlink(missing_ok=True)
        else:
            self._socket_note.write_text(str(folder))

    def rotate_log(self) -> None:
        if self.log.exists() and self.log.stat().st_size > _LARGEST_LOG:
            self.log.replace(self.log.with_suffix(".log.1"))

    def read_log_tail(self, lines: int = 20) -> str:
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(-min(self.log.stat().st_size, 8192), os.SEEK_END)
            text = log.read().decode(errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def ensure_cluster(self, binaries: Binaries, account: Account | None, *, sync: bool) -> Path:
        """Create the cluster unless it exists; return its real path.

        It is made beside its place and moved there when complete, so a kill leaves none by halves.
        """
        major = binaries.major()
        if self.cluster.exists():
            self._require_made_by(major)
            return self.cluster.resolve()
        home = self._choose_home(account)
        try:
            made = _make_cluster(home, binaries, account, options=_choose_options(major, sync=sync))
            if home != self.root:
                self.cluster.unlink(missing_ok=True)
                self.cluster.symlink_to(made)
        except BaseException:
            if home != self.root:
                shutil.rmtree(home, ignore_errors=True)
            raise
        return made.resolve()

    def _require_made_by(self, major: int) -> None:
        try:
            made_by = (self.cluster / "PG_VERSION").read_text().strip()
        except OSError as error:
            raise DataDirectoryUnusable(
                self.root, f"{self.cluster} contains no PostgreSQL cluster that this user can read"
            ) from error
        if made_by != str(major):
            raise DataDirectoryUnusable(
                self.root,
                f"PostgreSQL {made_by} made it and this is PostgreSQL {major}: "
                "dump it with its own version and restore it into a new directory",
            )

    def _choose_home(self, account: Account | None) -> Path:
        if account is None or account.can_reach(self.root):
            return self.root
        # PostgreSQL refuses to run as root, and e.g. root's home is closed to other accounts.
        SHARED.mkdir(mode=0o755, parents=True, exist_ok=True)
        home = Path(tempfile.mkdtemp(prefix="data-", dir=SHARED))
        home.chmod(0o755)
        return home


@dataclass(frozen=True, slots=True)
class DirectoryLock:
    """Take the file lock. The kernel releases it when this process ends in any way."""

    descriptor: int

    def release(self) -> None:
        os.ftruncate(self.descriptor, 0)
        os.close(self.descriptor)


def _make_cluster(
    home: Path, binaries: Binaries, account: Account | None, *, options: list[str]
) -> Path:
    draft = home / "postgres.draft"
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(mode=0o700)
    if account is not None:
        os.chown(draft, account.uid, account.gid)
    binaries.run("initdb", "--pgdata", str(draft), *options, account=account)
    return draft.rename(home / "postgres")


def _choose_options(major: int, *, sync: bool) -> list[str]:
    options = ["--username", "postgres", "--encoding", "UTF8", "--locale", "C"]
    # The socket directory has mode 0700, so its users are trusted; all others need a password.
    options += ["--auth-local", "trust", "--auth-host", "scram-sha-256"]
    if major >= _FIRST_BUILTIN_LOCALE:
        options += ["--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"]
    if not sync:
        options.append("--no-sync")
    return options
