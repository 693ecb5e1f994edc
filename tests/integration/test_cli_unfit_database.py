"""Servers, databases and roles that Laneway cannot write to, or that limit its statements."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

from laneway.embedded import EmbeddedPostgres
from tests.integration.test_cli import folder, laneway
from tests.pgbouncer import run_pgbouncer
from tests.postgres import THROWAWAY, execute, find_binaries
from tests.protocol.servers import LANEWAY, run_laneway, wait_for_workers

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

__all__ = ["folder"]


@asynccontextmanager
async def make_role(dsn: str) -> AsyncIterator[str]:
    """Yield the name of a role that may do everything in the database."""
    role = f"role_{uuid4().hex[:12]}"
    await execute(dsn, f"create role {role} login superuser")
    try:
        yield role
    finally:
        await execute(dsn, f"drop owned by {role} cascade; drop role {role}")


def name_role(dsn: str, role: str) -> str:
    """Return the DSN of another role on the same database."""
    return urlsplit(dsn)._replace(netloc=f"{role}@").geturl()


@pytest.mark.parametrize("command", ["serve --port 0", "admin install", "key list"])
@pytest.mark.parametrize("scope", ["role", "database", "role in database"])
async def test_read_only_setting_is_reported_with_its_source_and_remedy(
    blank_database: str, folder: Path, command: str, scope: str
) -> None:
    database = urlsplit(blank_database).path[1:]
    async with make_role(blank_database) as role:
        place, alter = {
            "role": (f'for the role "{role}"', f"alter role {role}"),
            "database": (f'for the database "{database}"', f"alter database {database}"),
            "role in database": (
                f'for the role "{role}" in the database "{database}"',
                f"alter role {role} in database {database}",
            ),
        }[scope]
        await execute(blank_database, f"{alter} set default_transaction_read_only = on")
        dsn = name_role(blank_database, role)
        done = await asyncio.to_thread(laneway, *command.split(), cwd=folder, DATABASE_URL=dsn)
        assert done.returncode == 1
        assert f"default_transaction_read_only is on {place}" in done.stderr
        assert len(done.stderr.splitlines()) == 1
        # What it says is what helps.
        change = done.stderr.strip().partition(", run ")[2]
        assert change == f"{alter} reset default_transaction_read_only;"
        await execute(f"{blank_database}&default_transaction_read_only=off", change)
        done = await asyncio.to_thread(laneway, "admin", "install", cwd=folder, DATABASE_URL=dsn)
        assert done.returncode == 0, done.stderr


async def test_sessions_start_without_the_time_limits_of_the_role(
    database: str,
) -> None:
    async with make_role(database) as role:
        for name in (
            "statement_timeout",
            "lock_timeout",
            "idle_session_timeout",
            "idle_in_transaction_session_timeout",
        ):
            await execute(database, f"alter role {role} set {name} = '1ms'")
        async with (
            run_laneway(name_role(database, role)) as server,
            server.client() as api,
        ):
            for number in range(5):
                pushed = await api.post("/queue/message", json={"type": "t", "payload": number})
                assert pushed.status_code == 201, pushed.text
                taken = await api.get("/queue/message", params={"timeout": 20})
                assert taken.json()["payload"] == number
            assert await server.stop() == 0


async def test_time_limit_behind_a_pooler_is_reported(database: str, folder: Path) -> None:
    name = urlsplit(database).path[1:]
    await execute(database, f"alter database {name} set statement_timeout = '5ms'")
    async with run_pgbouncer(database) as pooled:
        settings = {"DATABASE_URL": pooled, "LANEWAY_DATABASE_POOLED": "true"}
        done = await asyncio.to_thread(laneway, "serve", "--port", "0", cwd=folder, **settings)
    assert done.returncode == 1
    assert f'statement_timeout is 5ms for the database "{name}"' in done.stderr
    assert f"alter database {name} reset statement_timeout;" in done.stderr


@pytest.mark.parametrize("begun", [True, False], ids=["at work", "at the start"])
async def test_server_reports_a_read_only_database_and_recovers(
    database: str, *, begun: bool
) -> None:
    name = urlsplit(database).path[1:]
    end = f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}' and pid <> pg_backend_pid()"
    message = {"type": "t", "payload": 1}
    async with run_laneway(database, "--workers", "2") as server, server.client() as api:
        if begun:
            assert (await api.post("/queue/message", json=message)).status_code == 201
        await execute(database, f"alter database {name} set default_transaction_read_only = on")
        await execute(database, end)
        if not begun:
            # Those that replace them start on a database that is read-only.
            for worker in await wait_for_workers(server, 2):
                os.kill(worker, signal.SIGKILL)
        async with asyncio.timeout(60):
            while "default_transaction_read_only is on" not in (
                (await api.post("/queue/message", json=message)).text
            ):
                await asyncio.sleep(0.05)
        await execute(
            f"{database}&default_transaction_read_only=off",
            f"alter database {name} reset default_transaction_read_only",
        )
        await execute(database, end)
        async with asyncio.timeout(30):
            while (await api.post("/queue/message", json=message)).status_code != 201:
                await asyncio.sleep(0.05)
        assert await server.stop() == 0


async def test_standby_is_reported_until_it_is_promoted(folder: Path) -> None:
    settings = {**THROWAWAY, "full_page_writes": "on"}
    data = folder / "data"
    async with EmbeddedPostgres(data, settings=settings, binaries=find_binaries()):
        pass
    (data / "postgres" / "standby.signal").touch()
    async with EmbeddedPostgres(data, settings=settings, binaries=find_binaries()) as standby:
        done = await asyncio.to_thread(
            laneway, "admin", "install", cwd=folder, DATABASE_URL=standby.dsn
        )
        assert done.returncode == 5
        assert "is a standby in recovery" in done.stderr
        log = folder / "log"
        with log.open("wb") as file:
            process = await asyncio.create_subprocess_exec(
                LANEWAY,
                "serve",
                "--port",
                "0",
                cwd=folder,
                env={"PATH": "/usr/bin:/bin", "DATABASE_URL": standby.dsn},
                stderr=file,
            )
        try:
            async with asyncio.timeout(60):
                while "is a standby in recovery" not in log.read_text():
                    await asyncio.sleep(0.05)
                # A failover makes it the primary.
                await execute(standby.dsn, "select pg_promote()")
                while "Laneway listens on" not in log.read_text():
                    assert process.returncode is None, log.read_text()
                    await asyncio.sleep(0.05)
            process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(30):
                assert await process.wait() == 0
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
