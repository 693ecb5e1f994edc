"""The differences between what is shipped and what a database has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

    from laneway.sql.package import Package
    from laneway.sql.record import Record

ProblemKind = Literal["missing", "changed", "unknown", "overloaded"]

_REMEDY = "run `laneway admin install`"


@dataclass(frozen=True, slots=True)
class Problem:
    """One way in which a database differs from what this Laneway ships."""

    kind: ProblemKind
    subject: str
    message: str


NOT_INSTALLED = Problem("missing", "schema laneway", f"is not installed: {_REMEDY}")


def compare_migrations(package: Package, record: Record) -> Iterator[Problem]:
    for migration in package.migrations:
        applied = record.migrations.get(migration.version)
        if applied is None:
            yield Problem("missing", str(migration), f"is not applied: {_REMEDY}")
        elif applied != (migration.name, migration.checksum):
            yield Problem(
                "changed",
                str(migration),
                f"was applied as {applied[0]} with another text: restore the file and put the "
                "change into a new migration",
            )
    for version, (name, _) in sorted(record.migrations.items()):
        if version > package.version:
            yield Problem(
                "unknown", f"{version:03d}_{name}", "was applied by a newer Laneway: upgrade this"
            )


def compare_routines(package: Package, record: Record) -> Iterator[Problem]:
    for routine in package.routines:
        count = record.count(routine)
        if routine.name not in record.routines or count == 0:
            yield Problem("missing", str(routine), f"is not in the database: {_REMEDY}")
        elif count > 1:
            yield Problem("overloaded", str(routine), f"has {count} signatures: {_REMEDY}")
        elif not record.is_current(routine):
            yield Problem("changed", str(routine), f"is not the one shipped: {_REMEDY}")
    shipped = {routine.name for routine in package.routines}
    for name, (kind, _) in sorted(record.routines.items()):
        if name not in shipped:
            yield Problem("unknown", f"{kind} {name}", f"is no longer shipped: {_REMEDY}")
