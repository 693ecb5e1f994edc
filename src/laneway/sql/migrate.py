"""Install the shipped schema into a database, and verify that a database matches it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import asyncpg

from laneway.sql.catalogue import read_catalogue
from laneway.sql.comparison import (
    NOT_INSTALLED,
    Problem,
    compare_catalogue,
    compare_migrations,
    compare_routines,
)
from laneway.sql.errors import PackageBroken, SchemaTampered, SchemaTooNew
from laneway.sql.package import Package, load_bootstrap, load_package
from laneway.sql.prerequisites import require_supported, require_writable
from laneway.sql.record import is_bootstrapped, read_record

if TYPE_CHECKING:
    from collections.abc import Iterable

    from laneway.sql.package import Migration, Routine, RoutineKind
    from laneway.sql.record import Record

__all__ = ["InstallReport", "Problem", "install", "verify"]

# "laneway" in ASCII. The installers of all versions use this lock.
_INSTALL_LOCK = 0x6C_61_6E_65_77_61_79


@dataclass(frozen=True, slots=True)
class InstallReport:
    """The changes of one install; empty tuples if the database was current."""

    version: int
    migrations: tuple[str, ...] = ()
    applied: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        return bool(self.migrations or self.applied or self.dropped)


async def install(
    connection: asyncpg.Connection, *, package: Package | None = None
) -> InstallReport:
    """Install or upgrade the schema in one transaction: all of it or nothing.

    Concurrent installs wait for each other; the later ones find nothing to do.
    """
    package = package or load_package()
    require_supported(connection)
    async with connection.transaction():
        await require_writable(connection)
        await connection.execute("select pg_advisory_xact_lock($1)", _INSTALL_LOCK)
        await connection.execute(_INSTALL_SETTINGS)
        if not await is_bootstrapped(connection):
            await connection.execute(load_bootstrap())
        record = await read_record(connection)
        _require_same_history(package, record)
        migrations = await _apply_migrations(connection, package.migrations[record.version :])
        applied = await _apply_routines(connection, package)
        dropped = await _drop_removed(connection, package, record)
        if any(routine.name == "rotate" for routine in package.routines):
            # The log needs its first segment before the first push.
            await connection.execute("select laneway.rotate()")
    return InstallReport(package.version, migrations, applied, dropped)


async def verify(
    connection: asyncpg.Connection, *, package: Package | None = None
) -> list[Problem]:
    """Return every difference between the database and the shipped schema."""
    package = package or load_package()
    require_supported(connection)
    if not await is_bootstrapped(connection):
        return [NOT_INSTALLED]
    record = await read_record(connection)
    migrations = list(compare_migrations(package, record))
    problems = [*migrations, *compare_routines(package, record)]
    if package.catalogue is None or migrations:
        # The result of other migrations is unknown here.
        return problems
    told = {problem.subject for problem in problems}
    found = compare_catalogue(package, await read_catalogue(connection))
    return problems + [problem for problem in found if problem.subject not in told]


def _require_same_history(package: Package, record: Record) -> None:
    if record.version > package.version:
        raise SchemaTooNew(record.version, package.version)
    history = Package(migrations=package.migrations[: record.version])
    for problem in compare_migrations(history, record):
        raise SchemaTampered(f"migration {problem.subject} {problem.message}")


async def _apply_migrations(
    connection: asyncpg.Connection, migrations: Iterable[Migration]
) -> tuple[str, ...]:
    for migration in migrations:
        await connection.execute(migration.text)
        await connection.execute(
            _RECORD_MIGRATION, migration.version, migration.name, migration.checksum
        )
    return tuple(map(str, migrations))


async def _apply_routines(connection: asyncpg.Connection, package: Package) -> tuple[str, ...]:
    """Replace stale routines in place, which keeps grants; rebuild where a signature changed."""
    # Read again: a migration may have dropped routines.
    record = await read_record(connection)
    stale = [routine for routine in package.routines if not record.is_current(routine)]
    if not stale:
        return ()
    try:
        async with connection.transaction():
            await _replace(connection, stale)
    except (
        _SignatureMovedError,
        asyncpg.InvalidFunctionDefinitionError,
        asyncpg.InvalidTableDefinitionError,
    ):
        await _rebuild(connection, package, stale, record)
    await connection.executemany(
        _RECORD_ROUTINE, [(routine.name, routine.kind, routine.checksum) for routine in stale]
    )
    return tuple(map(str, stale))


class _SignatureMovedError(Exception):
    """A function was created with a new signature, so the old one still exists."""


async def _replace(connection: asyncpg.Connection, stale: Iterable[Routine]) -> None:
    for routine in stale:
        await connection.execute(routine.text)
    record = await read_record(connection)
    _require_created(stale, record)
    if any(record.count(routine) > 1 for routine in stale):
        raise _SignatureMovedError


async def _rebuild(
    connection: asyncpg.Connection, package: Package, stale: Iterable[Routine], record: Record
) -> None:
    """Drop all views and the stale functions, then create them again."""
    for name, (kind, _) in record.routines.items():
        if kind == "view":
            await _drop(connection, kind, name)
    functions = [routine for routine in stale if routine.kind == "function"]
    for routine in functions:
        await _drop(connection, routine.kind, routine.name)
    rebuilt = (*functions, *package.views)
    for routine in rebuilt:
        await connection.execute(routine.text)
    after = await read_record(connection)
    _require_created(rebuilt, after)
    for routine in rebuilt:
        if after.count(routine) > 1:
            raise PackageBroken(f"{routine.kind}s/{routine.name}.sql creates more than one")


def _require_created(routines: Iterable[Routine], record: Record) -> None:
    for routine in routines:
        if record.count(routine) == 0:
            raise PackageBroken(
                f"{routine.kind}s/{routine.name}.sql does not create laneway.{routine.name}"
            )


async def _drop_removed(
    connection: asyncpg.Connection, package: Package, record: Record
) -> tuple[str, ...]:
    shipped = {routine.name for routine in package.routines}
    removed = [(kind, name) for name, (kind, _) in record.routines.items() if name not in shipped]
    # Views first: views depend on functions, never the reverse.
    removed.sort(key=lambda item: (item[0] == "function", item[1]))
    for kind, name in removed:
        await _drop(connection, kind, name)
        await connection.execute("delete from laneway.routine where name = $1", name)
    return tuple(f"{kind} {name}" for kind, name in removed)


async def _drop(connection: asyncpg.Connection, kind: RoutineKind, name: str) -> None:
    """Drop without cascade: objects that users built on it make the install fail and roll back."""
    if kind == "view":
        await connection.execute(f'drop view if exists laneway."{name}"')
        return
    for row in await connection.fetch(_SIGNATURES, name):
        await connection.execute(f"drop routine {row['signature']}")


# Function bodies may name later functions; an empty search_path forces qualified names.
_INSTALL_SETTINGS = """
set local check_function_bodies = off;
set local search_path = pg_catalog;
set local client_min_messages = warning;
"""

_RECORD_MIGRATION = """
insert into laneway.migration (version, name, checksum) values ($1, $2, $3)
"""

_RECORD_ROUTINE = """
insert into laneway.routine (name, kind, checksum) values ($1, $2, $3)
on conflict (name) do update
set kind = excluded.kind, checksum = excluded.checksum, applied_at = clock_timestamp()
"""

_SIGNATURES = """
select p.oid::regprocedure::text as signature
from pg_catalog.pg_proc p where p.pronamespace = 'laneway'::regnamespace and p.proname = $1
"""
