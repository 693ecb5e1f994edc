"""The tables, columns, indexes and constraints of the schema, as shipped and as found in a database."""

from __future__ import annotations

import json
import re
from importlib.resources import files
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import asyncpg

# Each part of a relation by name, with its definition; the relation itself has no name.
Parts: TypeAlias = "dict[str, str]"
Catalogue: TypeAlias = "Mapping[str, Parts]"

# A segment of the log or of the events; odd numbers are UNLOGGED.
_SEGMENT = re.compile(r"\b(message|event)_(\d+)(?=\b|_)")


class Existing(NamedTuple):
    """The schema of a database. segments: those that must exist, in use or created ahead."""

    relations: Catalogue
    segments: tuple[int, ...]


def load_catalogue() -> Catalogue:
    """Return the shipped schema, which has segments 0 and 1 as patterns for all segments."""
    text = (files("laneway.sql") / "catalogue.json").read_text(encoding="utf-8")
    catalogue: Catalogue = json.loads(text)
    return catalogue


async def read_catalogue(connection: asyncpg.Connection[asyncpg.Record]) -> Existing:
    statement = (files("laneway.sql") / "catalogue.sql").read_text(encoding="utf-8")
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        await connection.execute(_PLAIN_WORDS)
        rows = await connection.fetch(statement)
        relations: dict[str, Parts] = {}
        for relation, part, definition in rows:
            relations.setdefault(relation, {})[part] = definition
        segments = await connection.fetch(_SEGMENTS) if "segment" in relations else []
    return Existing(relations, tuple(row[0] for row in segments))


def expect(shipped: Catalogue, existing: Existing) -> Catalogue:
    """Return the schema a database should have, with all of its segments."""
    expected = {name: parts for name, parts in shipped.items() if _SEGMENT.fullmatch(name) is None}
    for kind, segment in sorted(_list_segments(existing)):
        pattern = shipped.get(f"{kind}_{segment % 2}")
        if pattern is not None:
            expected[f"{kind}_{segment}"] = {
                _number(part, segment): _number(words, segment) for part, words in pattern.items()
            }
    return expected


def generalize(existing: Existing) -> Catalogue:
    """Turn the schema of a fresh installation into the one that ships."""
    return {
        _generalize(name): {
            _generalize(part): _generalize(words) for part, words in sorted(parts.items())
        }
        for name, parts in sorted(existing.relations.items())
    }


def _list_segments(existing: Existing) -> Iterable[tuple[str, int]]:
    """Return the segments that exist, and those that must exist."""
    found = {
        (match[1], int(match[2]))
        for match in map(_SEGMENT.fullmatch, existing.relations)
        if match is not None
    }
    needed = {("message", segment) for segment in existing.segments}
    return found | needed | {("event", segment) for _, segment in needed if segment % 2 == 0}


def _number(text: str, segment: int) -> str:
    return _SEGMENT.sub(lambda match: f"{match[1]}_{segment}", text)


def _generalize(text: str) -> str:
    return _SEGMENT.sub(lambda match: f"{match[1]}_{int(match[2]) % 2}", text)


_PLAIN_WORDS = """
set local search_path = pg_catalog;
set local intervalstyle = postgres;
set local datestyle = iso;
set local timezone = 'UTC';
set local extra_float_digits = 1;
set local bytea_output = hex;
set local quote_all_identifiers = off;
set local standard_conforming_strings = on;
"""

_SEGMENTS = "select segment from laneway.segment where closed_at is null order by segment"
