"""Tie a lake to its source database: lane ids and seqs of another would be mixed up with its own."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import uuid4

from laneway.lake.database import open_database
from laneway.lake.errors import LakeForeign

if TYPE_CHECKING:
    from pathlib import Path

_NOTE = "_database"


def check_origin(folder: Path, dsn: str) -> None:
    """Record the database's identity on first use, and refuse any other. Call it under the lake's lock."""
    with open_database(dsn) as database:
        (row,) = database.fetch("select i.id::text as id from laneway.identity i")
    note = folder / _NOTE
    if not note.exists():
        draft = folder / f"{_NOTE}.{uuid4().hex}"
        draft.write_text(row["id"])
        draft.rename(note)
    elif note.read_text().strip() != row["id"]:
        raise LakeForeign(
            f"the lake in {folder} belongs to another database. Use another directory for this"
            f" one, or, if the database was only moved or restored, delete {note}"
        )
