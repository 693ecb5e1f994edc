"""The server and the commands through PgBouncer in transaction mode."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from tests.integration.test_cli import folder, laneway
from tests.pgbouncer import run_pgbouncer
from tests.protocol.servers import run_laneway

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["folder"]

# One session for each client, and those parameters that PgBouncer does not know.
SESSIONS = (
    "pool_mode = session\ndefault_pool_size = 50\n"
    "ignore_startup_parameters = jit, default_transaction_isolation, statement_timeout, "
    "client_connection_check_interval, lock_timeout, idle_session_timeout, "
    "idle_in_transaction_session_timeout\n"
)


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_server_with_a_direct_connection_has_every_feature(
    blank_database: str, workers: str
) -> None:
    async with (
        run_pgbouncer(blank_database) as pooled,
        run_laneway(
            pooled,
            "--workers",
            workers,
            LANEWAY_DATABASE_DIRECT_URL=blank_database,
            OVERDUE_CHECK_INTERVAL_MS="100",
        ) as server,
        server.client() as api,
    ):
        for number in range(20):
            pushed = await api.post("/queue/message", json={"type": "t", "payload": number})
            assert pushed.status_code == 201, pushed.text
        # Many at once: statements of different clients mix in the few sessions.
        taken = await asyncio.gather(
            *(api.get("/queue/message", params={"timeout": 20}) for _ in range(20))
        )
        assert sorted(item.json()["payload"] for item in taken) == list(range(20))
        first, *others = [item.json() for item in taken]
        acked = await asyncio.gather(
            *(
                api.post("/queue/ack", json={"id": item["id"], "lock_token": item["lock_token"]})
                for item in others
            )
        )
        assert {item.status_code for item in acked} == {200}
        # Its lease ends at once: what brings it back is maintenance.
        await api.put(
            f"/queue/message/{first['id']}/touch",
            json={"lock_token": first["lock_token"], "extend_seconds": 0.001},
        )
        again = await api.get("/queue/message", params={"timeout": 20})
        assert again.json()["id"] == first["id"]
        assert "LANEWAY_DATABASE_DIRECT_URL" not in server.log


async def test_server_without_a_direct_connection_works_and_reports_missing_features(
    blank_database: str,
) -> None:
    async with (
        run_pgbouncer(blank_database) as pooled,
        run_laneway(pooled, "--database-pooled") as server,
        server.client() as api,
    ):
        assert "Set LANEWAY_DATABASE_DIRECT_URL" in server.log
        waiting = asyncio.ensure_future(api.get("/queue/message", params={"timeout": 20}))
        pushed = await api.post("/queue/message", json={"type": "t", "payload": 1})
        assert (await waiting).json()["id"] == pushed.json()["id"]


@pytest.mark.parametrize("command", ["serve --port 0", "key list", "queue list", "demo"])
async def test_undeclared_pooler_is_reported_with_the_setting_to_use(
    database: str, folder: Path, command: str
) -> None:
    async with run_pgbouncer(database) as pooled:
        done = await asyncio.to_thread(laneway, *command.split(), cwd=folder, DATABASE_URL=pooled)
    assert done.returncode == 1
    assert "set LANEWAY_DATABASE_DIRECT_URL" in done.stderr
    assert len(done.stderr.splitlines()) == 1


async def test_pooler_that_drops_parameters_is_logged(database: str) -> None:
    async with (
        run_pgbouncer(database, SESSIONS) as pooled,
        run_laneway(pooled) as server,
        server.client() as api,
    ):
        assert "LANEWAY_DATABASE_POOLED" in server.log
        pushed = await api.post("/queue/message", json={"type": "t", "payload": 1})
        assert pushed.status_code == 201


@pytest.mark.parametrize("direct", [True, False], ids=["past it", "pooled"])
async def test_commands_work_through_the_pooler(
    blank_database: str, folder: Path, *, direct: bool
) -> None:
    async with run_pgbouncer(blank_database) as pooled:
        settings = {"DATABASE_URL": pooled}
        settings |= (
            {"LANEWAY_DATABASE_DIRECT_URL": blank_database}
            if direct
            else {"LANEWAY_DATABASE_POOLED": "true"}
        )
        for command in (
            "admin install",
            "admin verify",
            "key create --role read",
            "queue create mail",
            "enqueue --queue mail 1",
            "dequeue --queue mail --ack",
            "queue metrics mail",
        ):
            done = await asyncio.to_thread(laneway, *command.split(), cwd=folder, **settings)
            assert done.returncode == 0, (command, done.stderr)


async def test_worker_works_through_the_pooler_of_the_settings(database: str, folder: Path) -> None:
    (folder / "jobs.py").write_text(
        "import os, signal\n"
        "import laneway\n"
        "app = laneway.App()\n"
        "@app.handler('mail')\n"
        "async def handle(message):\n"
        "    os.kill(os.getpid(), signal.SIGTERM)\n"
    )
    async with run_pgbouncer(database) as pooled:
        settings = {"DATABASE_URL": pooled, "LANEWAY_DATABASE_DIRECT_URL": database}
        for command in ("queue create mail", "enqueue --queue mail 1", "worker run jobs:app"):
            done = await asyncio.to_thread(laneway, *command.split(), cwd=folder, **settings)
            assert done.returncode == 0, (command, done.stderr)


def test_pooler_without_a_database_is_refused(folder: Path) -> None:
    done = laneway("queue", "list", cwd=folder, LANEWAY_DATABASE_POOLED="true")
    assert done.returncode == 1
    assert "LANEWAY_DATABASE_POOLED is set without a database" in done.stderr
