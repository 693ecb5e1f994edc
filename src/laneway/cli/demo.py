"""The demonstration that `laneway demo` shows."""

from __future__ import annotations

import typer

from laneway.cli.database import open_connection
from laneway.sql.migrate import install


async def run_demo(dsn: str) -> None:
    async with open_connection(dsn) as connection:
        report = await install(connection)
        version = await connection.fetchval("show server_version")
    typer.echo(f"PostgreSQL {version}, schema version {report.version}")
