"""The differences between the shipped schema and a database."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from laneway.sql.catalogue import expect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from laneway.sql.catalogue import Existing
    from laneway.sql.package import Package
    from laneway.sql.record import Record

ProblemKind = Literal["missing", "changed", "unknown", "overloaded"]

_REMEDY = "run `laneway admin install`"
_RESTORE = "restore it from a backup"
_REMOVE = "remove it, or keep it in a schema of your own"

# Kinds of relation parts that are reported by name.
_NAMED = ("column ", "constraint ", "index ", "trigger ", "sequence ")


@dataclass(frozen=True, slots=True)
class Problem:
    """One difference between a database and this version of Laneway."""

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


def compare_catalogue(package: Package, existing: Existing) -> Iterator[Problem]:
    """Yield each difference, but only one for a relation that is missing or unknown."""
    if package.catalogue is None:
        return
    expected, found = expect(package.catalogue, existing), existing.relations
    for relation, parts in expected.items():
        if relation not in found:
            yield Problem("missing", _name(relation, _find_kind(parts)), f"is missing: {_RESTORE}")
            continue
        for part, words in parts.items():
            now = found[relation].get(part)
            if now is None:
                yield Problem(
                    "missing", _name(relation, part), f"is missing, it was shipped as: {words}"
                )
            elif now != words:
                yield Problem(
                    "changed", _name(relation, part), f"is: {now}, and was shipped as: {words}"
                )
        for part in sorted(found[relation].keys() - parts.keys()):
            yield Problem("unknown", _name(relation, part), f"is not shipped: {_REMOVE}")
    for relation in sorted(found.keys() - expected.keys()):
        kind = _find_kind(found[relation])
        yield Problem("unknown", _name(relation, kind), f"is not shipped: {_REMOVE}")


def _find_kind(parts: Mapping[str, str]) -> str:
    """Return the definition of the relation itself, the part without a name."""
    return next(part for part in parts if not part.startswith(_NAMED))


def _name(relation: str, part: str) -> str:
    return f"{part} of {relation}" if part.startswith(_NAMED) else f"{part} {relation}"
