"""The schema of a database: the installer's records and the routines that exist."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    import asyncpg

    from laneway.sql.package import Routine, RoutineKind


@dataclass(frozen=True, slots=True)
class Record:
    """Migrations: (name, checksum) by version. Routines: (kind, checksum) by name.

    bodies: the text of functions as PostgreSQL keeps it; settings: the `set` clauses of functions.
    """

    migrations: Mapping[int, tuple[str, str]]
    routines: Mapping[str, tuple[RoutineKind, str]]
    existing: Mapping[tuple[RoutineKind, str], int]
    bodies: Mapping[str, str]
    settings: Mapping[str, frozenset[tuple[str, str]]]

    @property
    def version(self) -> int:
        return max(self.migrations, default=0)

    def count(self, routine: Routine) -> int:
        """Return how many functions or views with this name exist."""
        return self.existing.get((routine.kind, routine.name), 0)

    def is_current(self, routine: Routine) -> bool:
        noted = self.routines.get(routine.name)
        return (
            noted == (routine.kind, routine.checksum)
            and self.count(routine) == 1
            # PostgreSQL keeps function bodies as written, but not the text of views.
            and (routine.kind == "view" or self._does_as_shipped(routine))
        )

    def _does_as_shipped(self, routine: Routine) -> bool:
        return (
            self.bodies.get(routine.name, "") in routine.text
            and self.settings.get(routine.name) == routine.settings
        )


async def is_bootstrapped(connection: asyncpg.Connection) -> bool:
    return bool(await connection.fetchval(_IS_BOOTSTRAPPED))


async def read_record(connection: asyncpg.Connection) -> Record:
    migrations = await connection.fetch("select version, name, checksum from laneway.migration")
    routines = await connection.fetch("select name, kind, checksum from laneway.routine")
    existing = await connection.fetch(_EXISTING)
    bodies = await connection.fetch(_BODIES)
    return Record(
        migrations={row["version"]: (row["name"], row["checksum"]) for row in migrations},
        routines={row["name"]: (row["kind"], row["checksum"]) for row in routines},
        existing={(row["kind"], row["name"]): row["count"] for row in existing},
        bodies={row["name"]: row["body"] for row in bodies},
        settings={row["name"]: _read_settings(row["settings"]) for row in bodies},
    )


def _read_settings(settings: list[str]) -> frozenset[tuple[str, str]]:
    """Return names and values; an empty list is kept as ""."""
    pairs = (setting.partition("=") for setting in settings)
    return frozenset((name, value.strip('"')) for name, _, value in pairs)


_IS_BOOTSTRAPPED = """
select to_regclass('laneway.migration') is not null and to_regclass('laneway.routine') is not null
"""

_EXISTING = """
select 'function' as kind, p.proname::text as name, count(*)::integer as count
from pg_catalog.pg_proc p where p.pronamespace = 'laneway'::regnamespace group by p.proname
union all
select 'view', c.relname::text, 1
from pg_catalog.pg_class c where c.relnamespace = 'laneway'::regnamespace and c.relkind = 'v'
"""

_BODIES = """
select p.proname::text as name, p.prosrc as body, coalesce(p.proconfig, '{}') as settings
from pg_catalog.pg_proc p where p.pronamespace = 'laneway'::regnamespace
"""
