"""Read and checksum the SQL files that ship with Laneway."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

from laneway.sql.catalogue import load_catalogue
from laneway.sql.errors import PackageBroken

if TYPE_CHECKING:
    from collections.abc import Iterator
    from importlib.resources.abc import Traversable

    from laneway.sql.catalogue import Catalogue

RoutineKind = Literal["function", "view"]

_MIGRATION_NAME = re.compile(r"(?P<version>\d{3,})_(?P<name>[a-z0-9_]+)")
_COMMENT = re.compile(r"^--.*$", re.MULTILINE)
_BODY = re.compile(r"\bas\s+['$]|\breturn\b")
_SETTING = re.compile(r"\bset (\w+) = ('[^']*'|\w+)")
_ROUTINE_NAME = re.compile(r"[a-z][a-z0-9_]*")


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the schema, `migrations/NNN_name.sql`. Never edit a released one."""

    version: int
    name: str
    text: str = field(repr=False)

    @property
    def checksum(self) -> str:
        return _checksum(self.text)

    def __str__(self) -> str:
        return f"{self.version:03d}_{self.name}"


@dataclass(frozen=True, slots=True)
class Routine:
    """One function or view, in a file with its name; replaced whenever its text changes.

    folder: the subject that a function belongs to, the name of its folder; empty for a view.
    """

    kind: RoutineKind
    name: str
    text: str = field(repr=False)
    folder: str = ""

    @property
    def checksum(self) -> str:
        return _checksum(self.text)

    @property
    def settings(self) -> frozenset[tuple[str, str]]:
        """The function's `set` clauses."""
        head = _BODY.split(_COMMENT.sub("", self.text), maxsplit=1)[0]
        return frozenset((name, value.strip("'")) for name, value in _SETTING.findall(head))

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


@dataclass(frozen=True, slots=True)
class Package:
    """All SQL in the order it is applied. catalogue: the resulting schema."""

    migrations: tuple[Migration, ...] = ()
    functions: tuple[Routine, ...] = ()
    views: tuple[Routine, ...] = ()
    catalogue: Catalogue | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        versions = [migration.version for migration in self.migrations]
        if versions != list(range(1, len(versions) + 1)):
            raise PackageBroken(f"migrations must be numbered 1, 2, 3… without gaps: {versions}")
        names = [routine.name for routine in self.routines]
        if doubled := {name for name in names if names.count(name) > 1}:
            raise PackageBroken(f"a function and a view share a name: {sorted(doubled)}")

    @property
    def version(self) -> int:
        return len(self.migrations)

    @property
    def routines(self) -> tuple[Routine, ...]:
        return self.functions + self.views


def load_package() -> Package:
    root = files("laneway.sql")
    return Package(
        migrations=tuple(_read_migrations(root / "migrations")),
        functions=tuple(_read_functions(root / "functions")),
        views=tuple(_read_routines(root / "views", "view")),
        catalogue=load_catalogue(),
    )


def load_bootstrap() -> str:
    return _read(files("laneway.sql") / "bootstrap.sql")


def _read_migrations(folder: Traversable) -> Iterator[Migration]:
    for file in _sql_files(folder):
        match = _MIGRATION_NAME.fullmatch(file.name.removesuffix(".sql"))
        if match is None:
            raise PackageBroken(f"migrations/{file.name} is not named NNN_name.sql")
        yield Migration(int(match["version"]), match["name"], _read(file))


def _read_functions(root: Traversable) -> Iterator[Routine]:
    """Read the functions by subject, the public `api` first."""
    folders = [folder for folder in root.iterdir() if folder.is_dir()]
    for folder in sorted(folders, key=lambda folder: (folder.name != "api", folder.name)):
        yield from _read_routines(folder, "function", subject=folder.name)


def _read_routines(
    folder: Traversable, kind: RoutineKind, *, subject: str = ""
) -> Iterator[Routine]:
    for file in _sql_files(folder):
        name = file.name.removesuffix(".sql")
        if _ROUTINE_NAME.fullmatch(name) is None:
            raise PackageBroken(f"{kind}s/{file.name} is not named after a {kind}")
        yield Routine(kind, name, _read(file), subject)


def _sql_files(folder: Traversable) -> list[Traversable]:
    if not folder.is_dir():
        return []
    found = [file for file in folder.iterdir() if file.name.endswith(".sql")]
    return sorted(found, key=lambda file: file.name)


def _read(file: Traversable) -> str:
    # A checkout with CRLF line ends must not change checksums.
    return file.read_text(encoding="utf-8").replace("\r\n", "\n")


def _checksum(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
