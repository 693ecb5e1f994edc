"""The `laneway` command, run as a program."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from laneway.cli.database import open_database
from laneway.cli.database_url import Environment
from laneway.cli.errors import DatabaseNotReady
from laneway.cli.execution import find_code
from laneway.cli.known_settings import SETTINGS
from laneway.embedded import EmbeddedPostgres, find_running
from laneway.embedded.directory import DataDirectory
from tests.postgres import execute, find_binaries, open_directory

if TYPE_CHECKING:
    from collections.abc import Iterator

LANEWAY = Path(sys.executable).with_name("laneway")

# A command that works until it is told to stop.
ENDLESS = """
import asyncio
from pathlib import Path
import typer
from laneway.cli.database import open_database
from laneway.cli.database_url import Environment
from laneway.cli.execution import execute

async def command(data_dir):
    async with open_database(Environment(), data_dir, create=True):
        print("open", flush=True)
        await asyncio.Event().wait()

def main(data_dir: Path):
    execute(command(data_dir))

typer.run(main)
"""


WORKFLOW = """
import laneway
app = laneway.App()

@app.workflow()
async def greet():
    return "hello"
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_directory() as made:
        yield made


def laneway(*arguments: str, cwd: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [LANEWAY, *arguments],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "COLUMNS": "200", **environment},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


@pytest.mark.bundled
def test_demo_without_settings_runs_on_the_embedded_database(folder: Path) -> None:
    done = laneway("demo", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert "PostgreSQL 18" in done.stdout
    assert (folder / ".laneway" / "postgres").is_dir()
    assert find_running(folder / ".laneway") is None


@pytest.mark.bundled
@pytest.mark.parametrize(
    "command",
    [
        "queue list",
        "queue create mail",
        "enqueue 1",
        "dequeue",
        "key create --role admin",
        "worker list",
        "admin install",
        "benchmark",
        "lake run",
    ],
)
def test_command_without_a_database_fails_and_writes_nothing(folder: Path, command: str) -> None:
    done = laneway(*command.split(), cwd=folder)
    assert (done.returncode, done.stdout) == (1, "")
    assert "laneway: no database: none is configured" in done.stderr
    assert f"no bundled PostgreSQL in {folder / '.laneway'}" in done.stderr
    assert "laneway serve" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert list(folder.iterdir()) == []


@pytest.mark.bundled
def test_command_uses_the_database_that_serve_left_in_the_directory(folder: Path) -> None:
    assert laneway("demo", cwd=folder).returncode == 0
    assert laneway("queue", "create", "mail", cwd=folder).returncode == 0
    assert "mail" in laneway("queue", "list", cwd=folder).stdout
    (folder / "below").mkdir()
    assert laneway("queue", "list", cwd=folder / "below").returncode == 1


@pytest.mark.bundled
def test_worker_without_a_database_creates_one(folder: Path) -> None:
    (folder / "jobs.py").write_text(WORKFLOW)
    with subprocess.Popen(
        [LANEWAY, "worker", "run", "jobs:app"],
        cwd=folder,
        env={"PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
        text=True,
    ) as worker:
        started = laneway("workflow", "start", "greet", "--wait", "60", cwd=folder)
        while started.returncode and worker.poll() is None:
            started = laneway("workflow", "start", "greet", "--wait", "60", cwd=folder)
        assert started.stdout.strip() == '"hello"'
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    assert find_running(folder / ".laneway") is None


@pytest.mark.bundled
@pytest.mark.parametrize("command", ["demo", "url", "lake run"])
def test_command_that_needs_a_database_refuses_a_server(folder: Path, command: str) -> None:
    (folder / ".env").write_text("SERVER_URL=http://127.0.0.1:1\n")
    done = laneway(*command.split(), cwd=folder)
    assert done.returncode == 1
    assert "works on a database only, and SERVER_URL in .env configures a server" in done.stderr
    assert [item.name for item in folder.iterdir()] == [".env"]


@pytest.mark.bundled
def test_settings_and_their_places_are_shown(folder: Path) -> None:
    (folder / ".env").write_text("LANEWAY_PORT=3002\nSECRET_KEY=hush\n")
    (folder / "laneway.toml").write_text("max_attempts = 7\n")
    variables = {"LANEWAY_QUEUE_NAME": "jobs", "WORKERS": "4"}
    done = laneway("config", "--log-level", "error", "--format", "json", cwd=folder, **variables)
    shown = {item["setting"]: (item["value"], item["from"]) for item in json.loads(done.stdout)}
    assert shown["log_level"] == ("error", "--log-level")
    assert shown["queue_name"] == ("jobs", "environment variable LANEWAY_QUEUE_NAME")
    assert shown["port"] == ("3002", "LANEWAY_PORT in .env")
    assert shown["secret_key"] == shown["api_key"] == ("********", "SECRET_KEY in .env")
    assert shown["max_attempts"] == ("7", "max_attempts in laneway.toml")
    assert shown["workers"] == ("1", "default")
    assert "hush" not in done.stdout
    assert done.stderr == (
        "laneway: environment variable WORKERS is not read since version 0.3.0: set LANEWAY_WORKERS"
        " instead, or ignore this if it belongs to another program\n"
    )


@pytest.mark.bundled
def test_module_is_the_command(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "laneway", "queue", "list", "-h"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "List queues with their counts and rates." in done.stdout


async def test_install_and_verify_use_the_given_database(blank_database: str, folder: Path) -> None:
    assert laneway("admin", "verify", cwd=folder, DATABASE_URL=blank_database).returncode == 1
    done = laneway("admin", "install", cwd=folder, DATABASE_URL=blank_database)
    assert done.returncode == 0, done.stderr
    assert "schema is at version" in done.stdout
    done = laneway("admin", "verify", cwd=folder, DATABASE_URL=blank_database)
    assert done.stdout == "schema is as shipped\n"
    assert not (folder / ".laneway").exists()


async def test_schema_difference_is_printed_and_exits_with_1(database: str, folder: Path) -> None:
    await execute(database, "insert into laneway.routine values ('gone', 'function', 'checksum')")
    done = laneway("admin", "verify", cwd=folder, DATABASE_URL=database)
    assert done.returncode == 1
    assert done.stdout == ("function gone is no longer shipped: run `laneway admin install`\n")


async def test_url_command_prints_the_url_of_the_running_database(folder: Path) -> None:
    data_dir = folder / "data"
    done = laneway("url", "--data-dir", str(data_dir), cwd=folder)
    assert done.returncode == 1
    assert "bundled PostgreSQL is not running" in done.stderr
    async with EmbeddedPostgres(data_dir, binaries=find_binaries()) as server:
        done = laneway("url", "--data-dir", str(data_dir), cwd=folder)
        assert done.stdout.strip() == server.dsn
        # One that runs for long does not rely on another program's database.
        done = laneway("serve", "--port", "0", "--data", str(data_dir), cwd=folder)
        assert done.returncode == 1
        assert f"{data_dir} is in use by process {os.getpid()}" in done.stderr


@pytest.mark.bundled
async def test_command_waits_for_a_database_that_another_command_starts(folder: Path) -> None:
    found: list[str] = []

    async def command(done: asyncio.Event) -> None:
        async with open_database(Environment(), folder, create=True) as dsn:
            await execute(dsn, "select 1")
            found.append(dsn)
            await done.wait()

    async with asyncio.timeout(100), asyncio.TaskGroup() as group:
        done = asyncio.Event()
        for _ in range(2):
            group.create_task(command(done))
        while len(found) < 2:
            await asyncio.sleep(0.02)
        done.set()
    assert found[0] == found[1]
    assert find_running(folder) is None


@pytest.mark.bundled
async def test_command_starts_the_database_after_another_command_has_stopped_it(
    folder: Path,
) -> None:
    async def command() -> None:
        async with open_database(Environment(), folder, create=True) as dsn:
            await execute(dsn, "select 1")

    lock = DataDirectory(folder).acquire()
    waiting = asyncio.create_task(command())
    # It has met the lock by the time that another task comes to its turn.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    lock.release()
    await waiting


@pytest.mark.bundled
async def test_command_gives_up_on_a_database_that_does_not_start(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laneway.cli.database.PATIENCE", timedelta(0))
    lock = DataDirectory(folder).acquire()
    with pytest.raises(
        DatabaseNotReady, match=f"process {os.getpid()} uses .* try again"
    ) as caught:
        async with open_database(Environment(), folder):
            pass
    assert find_code(caught.value) == 5
    lock.release()


@pytest.mark.bundled
def test_invalid_variable_is_one_line_on_stderr(folder: Path) -> None:
    done = laneway("demo", cwd=folder, POSTGRES_PORT="many")
    assert done.returncode == 1
    assert done.stderr.startswith("laneway: environment variable POSTGRES_PORT")
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.bundled
def test_unreachable_server_is_reported_without_its_password(folder: Path) -> None:
    url = "postgresql://me:secret@127.0.0.1:1/mail"
    done = laneway("admin", "verify", cwd=folder, DATABASE_URL=url)
    assert done.returncode == 5
    assert "PostgreSQL server at 127.0.0.1:1 unreachable" in done.stderr
    assert "secret" not in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.bundled
@pytest.mark.parametrize(
    ("place", "words"),
    [
        (
            "postgresql://me@nowhere.invalid/x",
            "at nowhere.invalid unreachable: host name not found",
        ),
        ("postgresql://me@127.0.0.1:1/x", "connection refused. Check the host and port"),
        (
            "http://nowhere.invalid:3001",
            "server at nowhere.invalid port 3001 unreachable: host name",
        ),
        ("http://127.0.0.1:1", "connection refused. Check the host and port in the server's URL"),
    ],
)
def test_unreachable_address_says_what_to_check(folder: Path, place: str, words: str) -> None:
    name = "DATABASE_URL" if place.startswith("postgresql") else "SERVER_URL"
    for command in ("queue list", "admin install"):
        done = laneway(*command.split(), cwd=folder, **{name: place})
        assert (done.returncode, len(done.stderr.splitlines())) == (5, 1)
        assert words in done.stderr
        assert "later" not in done.stderr


@pytest.mark.bundled
async def test_port_of_another_program_says_what_to_check(folder: Path) -> None:
    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as other:
        port = other.sockets[0].getsockname()[1]
        url = f"postgresql://me@127.0.0.1:{port}/x"
        done = await asyncio.to_thread(laneway, "queue", "list", cwd=folder, DATABASE_URL=url)
    assert (done.returncode, len(done.stderr.splitlines())) == (5, 1)
    assert "another program may listen there" in done.stderr


async def test_wrong_database_or_user_says_what_to_check(database: str, folder: Path) -> None:
    parts = urlsplit(database)
    for wrong, words in (
        (parts._replace(path="/nowhere"), 'database "nowhere" does not exist (3D000). Check the'),
        (parts._replace(netloc="nobody@"), 'role "nobody" does not exist (28000). Check the user'),
    ):
        done = await asyncio.to_thread(
            laneway, "queue", "list", cwd=folder, DATABASE_URL=wrong.geturl()
        )
        assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
        assert words in done.stderr


async def test_every_command_uses_the_database_in_the_settings_file(
    database: str, folder: Path
) -> None:
    (folder / "laneway.toml").write_text(f'database_url = "{database}"\n')
    assert laneway("url", cwd=folder).stdout.strip() == database
    made = laneway("key", "create", "--role", "read", cwd=folder)
    assert made.returncode == 0, made.stderr
    (folder / "laneway.toml").unlink()
    listed = laneway("key", "list", "--database-url", database, cwd=folder)
    assert "read" in listed.stdout
    assert not (folder / ".laneway").exists()


@pytest.mark.bundled
def test_command_line_imports_no_heavy_modules(folder: Path) -> None:
    """Each start would cost twice as much with them."""
    heavy = {"asyncpg", "jwt", "rich.console", "starlette", "laneway.engine", "laneway.embedded"}
    done = subprocess.run(
        [sys.executable, "-c", "import sys, laneway.cli.main; print(*sys.modules)"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    assert heavy.isdisjoint(done.stdout.split())


@pytest.mark.bundled
@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://me@there:many/x", "DATABASE_URL cannot be used: a port must be a number"),
        ("postgresql://me@127.0.0.1:1/x?sslmode=perhaps", "`sslmode` parameter must be one of"),
    ],
)
def test_invalid_url_is_one_line_on_stderr(folder: Path, url: str, words: str) -> None:
    done = laneway("serve", "--port", "0", cwd=folder, DATABASE_URL=url)
    assert done.returncode == 1
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.bundled
@pytest.mark.parametrize("command", ["serve --port 0", "queue list", "key list", "url", "config"])
@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:ge@heim@127.0.0.1:1/x",
        "postgresql://me:ge/heim@127.0.0.1:1/x",
        "postgresql://me:12?ge=heim@127.0.0.1:1/x",
        "postgresql://me:[geheim]@127.0.0.1:1/x",
        "postgresql://me:geheim",
        "host=127.0.0.1 password=geheim",
    ],
)
def test_no_command_prints_part_of_a_password(folder: Path, command: str, url: str) -> None:
    done = laneway(*command.split(), cwd=folder, DATABASE_URL=url)
    assert "heim" not in done.stdout + done.stderr
    if command != "config":
        assert done.returncode == 1
        assert "DATABASE_URL cannot be used: " in done.stderr
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.bundled
@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SERVER_URL", "postgresql://me:geheim@db/x"),
        ("POSTGRES_HOST", "postgresql://me:geheim@db/x"),
        ("POSTGRES_HOST", "me:geheim@db"),
    ],
)
def test_url_in_another_variable_is_not_printed(folder: Path, variable: str, value: str) -> None:
    done = laneway("queue", "list", cwd=folder, **{variable: value})
    assert done.returncode == 1
    assert variable in done.stderr
    assert "geheim" not in done.stderr


@pytest.mark.bundled
def test_secret_of_another_type_is_not_printed(folder: Path) -> None:
    (folder / "laneway.toml").write_text('secret_key = ["geheim"]\n')
    done = laneway("config", cwd=folder)
    assert done.returncode == 1
    assert "geheim" not in done.stderr


@pytest.mark.bundled
def test_data_directory_that_is_a_file_is_one_line_on_stderr(folder: Path) -> None:
    (folder / "file").touch()
    for command in (["serve", "--port", "0"], ["url"]):
        done = laneway(*command, "--data", "file", cwd=folder)
        assert done.returncode == 1
        assert done.stderr.endswith("is unusable: it is not a directory\n")
        assert len(done.stderr.splitlines()) == 1


@pytest.mark.bundled
def test_help_and_settings_are_not_cut_in_a_narrow_terminal(folder: Path) -> None:
    helped = laneway("serve", "--help", cwd=folder, COLUMNS="80").stdout
    shown = laneway("config", cwd=folder, COLUMNS="80").stdout
    for setting in SETTINGS:
        assert setting.flag in helped
        assert f" {setting.name} " in shown
    assert "--data" in helped
    assert "[default: 3001]" in helped


@pytest.mark.bundled
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)], ids=["term", "int"]
)
def test_signal_stops_the_command_and_its_database(
    folder: Path, number: signal.Signals, code: int
) -> None:
    data_dir = folder / "data"
    program = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, str(data_dir)], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "open\n"
    program.send_signal(number)
    program.communicate(timeout=60)
    assert find_running(data_dir) is None
    assert "database system is shut down" in (data_dir / "postgres.log").read_text()
    assert program.returncode == code
