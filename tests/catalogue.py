"""Write src/laneway/sql/catalogue.json, which verify compares a schema with, from a new database."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import asyncpg

import laneway.sql
from laneway.sql.catalogue import generalize, read_catalogue
from laneway.sql.migrate import install
from tests.postgres import run_server

FILE = Path(laneway.sql.__file__).parent / "catalogue.json"


async def make_catalogue(connection: asyncpg.Connection[asyncpg.Record]) -> str:
    """Return the file's text from a database with a fresh installation."""
    # Only then there are UNLOGGED segments too.
    await connection.execute("""select laneway.create_queue('any', '{"kind": "unlogged"}')""")
    return json.dumps(generalize(await read_catalogue(connection)), indent=1) + "\n"


async def main() -> None:
    async with run_server() as server:
        connection = await asyncpg.connect(server.dsn)
        await install(connection)
        FILE.write_text(await make_catalogue(connection), encoding="utf-8")
        await connection.close()


if __name__ == "__main__":
    asyncio.run(main())
