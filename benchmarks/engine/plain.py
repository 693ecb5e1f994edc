"""The baseline for storing messages: a table with one index."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.engine.site import Connection

TABLE = (
    "create table plain (id bigint generated always as identity primary key, body json not null)"
)


@dataclass(frozen=True, slots=True)
class PlainTable:
    connection: Connection

    @classmethod
    async def create(cls, connection: Connection) -> Self:
        await connection.execute(TABLE)
        return cls(connection)

    async def insert_many(self, bodies: Sequence[str]) -> None:
        await self.connection.execute(
            "insert into plain (body) select e from json_array_elements($1::json) e",
            f"[{','.join(bodies)}]",
        )

    async def insert_one(self, body: str) -> None:
        await self.connection.execute("insert into plain (body) values ($1)", body)
