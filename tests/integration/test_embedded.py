"""The bundled PostgreSQL keeps its data whatever process is killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import asyncpg
import psutil
import pytest

from laneway.embedded import EmbeddedPostgres, find_running
from laneway.embedded.account import Account, choose_account
from laneway.embedded.binaries import SHARED, find_bundled
from laneway.embedded.directory import DataDirectory
from laneway.embedded.errors import (
    DataDirectoryInUse,
    DataDirectoryUnusable,
    EmbeddedError,
    NoAccount,
    ServerFailed,
)
from tests.postgres import find_binaries, open_directory

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to change its account")

# Runs a server until it is told to stop, or killed. Imports come before the change of account,
# which may not be allowed to read them.
PROGRAM = """
import asyncio, concurrent.futures.thread, os, sys
from pathlib import Path
import asyncpg
import asyncpg.pgproto.pgproto
from laneway.embedded import EmbeddedPostgres

async def main(data_dir, binaries):
    binaries = Path(binaries) if binaries else None
    async with EmbeddedPostgres(Path(data_dir), binaries=binaries) as server:
        connection = await asyncpg.connect(server.dsn)
        await connection.execute("create table if not exists kept (n integer)")
        await connection.execute("insert into kept values (1)")
        await connection.close()
        print(os.getpid(), server.pid, flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)

data_dir, binaries, uid, gid = sys.argv[1:]
if uid:
    os.setgroups([]); os.setgid(int(gid)); os.setuid(int(uid))
asyncio.run(main(data_dir, binaries))
"""


class Program:
    """Another program that owns an embedded server."""

    def __init__(self, data_dir: Path, account: Account | None = None) -> None:
        binaries = find_binaries()
        self.process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                PROGRAM,
                str(data_dir),
                str(binaries or (find_bundled(account).folder if account else "")),
                str(account.uid) if account else "",
                str(account.gid) if account else "",
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(self.process.communicate()[1])
        self.server_pid = int(line.split()[1])

    def end(self, number: signal.Signals | None = None) -> None:
        if number is not None:
            self.process.send_signal(number)
        self.process.communicate(timeout=60)


@pytest.fixture
def data_dir() -> Iterator[Path]:
    with open_directory() as folder:
        yield folder / "data"


def embed(data_dir: Path) -> EmbeddedPostgres:
    return EmbeddedPostgres(data_dir, binaries=find_binaries())


@contextlib.asynccontextmanager
async def connected(dsn: str) -> AsyncIterator[asyncpg.Connection[asyncpg.Record]]:
    connection = await asyncpg.connect(dsn)
    try:
        yield connection
    finally:
        await connection.close()


async def count_kept(server: EmbeddedPostgres) -> int:
    async with connected(server.dsn) as connection:
        return int(await connection.fetchval("select count(*) from kept"))


def wait_for_end(pid: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        # A container's first process may not reap orphans: a zombie has ended.
        while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
            with contextlib.suppress(psutil.TimeoutExpired):
                process.wait(0.05)


async def test_server_runs_tuned_and_stops_with_the_context(data_dir: Path) -> None:
    async with embed(data_dir) as server:
        pid = server.pid
        async with connected(server.dsn) as connection:
            assert await connection.fetchval("show jit") == "off"
            assert await connection.fetchval("show synchronous_commit") == "on"
            assert await connection.fetchval("show fsync") == "on"
            assert await connection.fetchval("show max_wal_size") == "4GB"
            assert await connection.fetchval("show listen_addresses") == ""
            assert await connection.fetchval("show server_encoding") == "UTF8"
        assert find_running(data_dir) == server.dsn
    assert not psutil.pid_exists(pid)
    assert find_running(data_dir) is None


async def test_restart_keeps_the_data(data_dir: Path) -> None:
    async with embed(data_dir) as server, connected(server.dsn) as connection:
        await connection.execute("create table kept as select 1 as n")
    async with embed(data_dir) as server:
        assert await count_kept(server) == 1


async def test_settings_override_the_tuned_ones(data_dir: Path) -> None:
    settings = {"max_connections": "17", "fsync": "off"}
    async with (
        EmbeddedPostgres(data_dir, settings=settings, binaries=find_binaries()) as server,
        connected(server.dsn) as connection,
    ):
        assert await connection.fetchval("show max_connections") == "17"


async def test_libpq_understands_the_url(data_dir: Path) -> None:
    psql = (find_binaries() or find_bundled(None).folder) / "psql"
    async with embed(data_dir) as server:
        answer = subprocess.check_output([psql, server.dsn, "-Atc", "select 6 * 7"], text=True)
    assert answer == "42\n"


async def test_invalid_setting_fails_with_the_message_of_the_server(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir, settings={"no_such": "1"}, binaries=find_binaries())
    with pytest.raises(ServerFailed, match="no_such"):
        await server.start()
    async with embed(data_dir):
        pass


async def test_using_a_server_that_is_not_started_is_an_error(data_dir: Path) -> None:
    with pytest.raises(EmbeddedError, match="not started"):
        _ = embed(data_dir).dsn


async def test_killed_server_is_started_again(data_dir: Path) -> None:
    async with embed(data_dir) as server:
        dsn, pid = server.dsn, server.pid
        async with connected(dsn) as connection:
            await connection.execute("create table kept as select 1 as n")
        os.kill(pid, signal.SIGKILL)
        async with asyncio.timeout(60):
            while not await _answers(dsn):
                await asyncio.sleep(0.05)
        assert server.pid != pid
        assert await count_kept(server) == 1


async def test_program_starts_again_after_it_was_killed_with_its_server(data_dir: Path) -> None:
    program = Program(data_dir)
    server_pid = program.server_pid
    backends = psutil.Process(server_pid).children()
    os.kill(server_pid, signal.SIGSTOP)
    program.end(signal.SIGKILL)
    os.kill(server_pid, signal.SIGKILL)
    async with embed(data_dir) as server:
        assert await count_kept(server) == 1
    for backend in backends:
        await asyncio.to_thread(wait_for_end, backend.pid)


async def test_server_stops_when_its_program_is_killed(data_dir: Path) -> None:
    program = Program(data_dir)
    program.end(signal.SIGKILL)
    await asyncio.to_thread(wait_for_end, program.server_pid)
    async with embed(data_dir) as server:
        assert await count_kept(server) == 1


async def test_server_stops_when_its_program_is_terminated(data_dir: Path) -> None:
    program = Program(data_dir)
    program.end(signal.SIGTERM)
    await asyncio.to_thread(wait_for_end, program.server_pid)


async def test_next_start_stops_an_orphaned_server(data_dir: Path) -> None:
    async with embed(data_dir) as server, connected(server.dsn) as connection:
        await connection.execute("create table kept as select 1 as n")
    orphan = _start_orphan(data_dir)
    try:
        async with embed(data_dir) as server:
            assert await count_kept(server) == 1
            assert orphan.wait(timeout=30) == 0
    finally:
        orphan.kill()
        orphan.wait()


async def test_stale_pid_of_another_process_is_ignored(data_dir: Path) -> None:
    async with embed(data_dir) as server, connected(server.dsn) as connection:
        await connection.execute("create table kept as select 1 as n")
    cluster = (data_dir / "postgres").resolve()
    owner = cluster.stat()
    bystander = subprocess.Popen(
        ["sleep", "600"],
        user=owner.st_uid if os.geteuid() == 0 else None,
        cwd="/",
    )
    try:
        stale = f"{bystander.pid}\n{cluster}\n1700000000\n5432\n{cluster}\n\n 1 2\nready   \n"
        (cluster / "postmaster.pid").write_text(stale)
        (cluster / ".s.PGSQL.5432.lock").write_text(stale)
        assert find_running(data_dir) is None
        async with embed(data_dir) as server:
            assert await count_kept(server) == 1
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


async def test_second_program_is_refused_with_the_pid_of_the_first(data_dir: Path) -> None:
    program = Program(data_dir)
    try:
        with pytest.raises(DataDirectoryInUse) as caught:
            await embed(data_dir).start()
        assert str(data_dir) in str(caught.value)
        assert f"process {program.process.pid}" in str(caught.value)
        assert caught.value.holder == program.process.pid
    finally:
        program.end()
    async with embed(data_dir) as server:
        assert await count_kept(server) == 1


async def test_refused_second_start_does_not_affect_the_server(data_dir: Path) -> None:
    async with embed(data_dir) as server:
        with pytest.raises(DataDirectoryInUse):
            await embed(data_dir).start()
        assert await _answers(server.dsn)


async def test_long_and_odd_paths_work(data_dir: Path) -> None:
    odd = data_dir / ("deep" * 20) / "söme, dir @ho me"
    async with embed(odd) as server:
        folder = _find_socket_folder(odd)
        assert await _answers(server.dsn)
        assert folder.exists()
    assert not folder.exists()


async def test_socket_of_a_killed_program_is_removed_by_the_next_start(data_dir: Path) -> None:
    deep = data_dir / ("deep" * 20)
    program = Program(deep)
    left = _find_socket_folder(deep)
    program.end(signal.SIGKILL)
    await asyncio.to_thread(wait_for_end, program.server_pid)
    assert left.parent == Path("/tmp")  # noqa: S108 - where it is made, for its path is short
    async with embed(deep):
        assert _find_socket_folder(deep).exists()
        assert not left.exists()
    assert not (deep / "socket").exists()


async def test_incomplete_cluster_is_recreated(data_dir: Path) -> None:
    draft = data_dir / "postgres.draft"
    draft.mkdir(parents=True)
    (draft / "PG_VERSION").write_text("18\n")
    async with embed(data_dir) as server:
        assert await _answers(server.dsn)
    assert not draft.exists()


async def test_cluster_of_another_version_is_refused(data_dir: Path) -> None:
    async with embed(data_dir):
        pass
    (data_dir / "postgres" / "PG_VERSION").write_text("9.6\n")
    with pytest.raises(DataDirectoryUnusable, match=r"PostgreSQL 9\.6 made it"):
        await embed(data_dir).start()


async def test_network_needs_a_password(data_dir: Path) -> None:
    server = EmbeddedPostgres(data_dir, port=_free_port(), binaries=find_binaries())
    async with server:
        port = int(server.dsn.partition("port=")[2])
        async with connected(server.dsn) as connection:
            await connection.execute("create role guest login password 'word'")
        with pytest.raises(asyncpg.InvalidPasswordError):
            await asyncpg.connect(f"postgresql://guest:no@127.0.0.1:{port}/postgres", ssl=False)
        async with connected(f"postgresql://guest:word@127.0.0.1:{port}/postgres?sslmode=disable"):
            pass


@as_root
async def test_root_runs_the_server_under_another_account(data_dir: Path) -> None:
    async with embed(data_dir) as server:
        assert psutil.Process(server.pid).uids().effective != 0
        assert (data_dir / "postgres").stat().st_mode & 0o777 == 0o700


@as_root
async def test_ordinary_user_runs_the_server_as_themselves(data_dir: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    data_dir.mkdir()
    os.chown(data_dir, nobody.pw_uid, nobody.pw_gid)
    program = Program(data_dir, Account(nobody.pw_uid, nobody.pw_gid))
    try:
        assert psutil.Process(program.server_pid).uids().effective == nobody.pw_uid
        assert (data_dir / "lock").stat().st_uid == nobody.pw_uid
    finally:
        program.end()


@as_root
def test_unreachable_directory_is_reported(data_dir: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    data_dir.mkdir(mode=0o700)
    with pytest.raises(AssertionError, match=r"DataDirectoryUnusable.* Permission denied as this"):
        Program(data_dir / "below", Account(nobody.pw_uid, nobody.pw_gid))


def test_file_in_place_of_the_data_directory_is_refused(data_dir: Path) -> None:
    data_dir.touch()
    with pytest.raises(DataDirectoryUnusable, match="it is not a directory"):
        DataDirectory(data_dir).acquire()


@as_root
async def test_root_runs_below_a_directory_closed_to_others(data_dir: Path) -> None:
    data_dir.mkdir(mode=0o700)
    try:
        async with embed(data_dir) as server, connected(server.dsn) as connection:
            await connection.execute("create table kept as select 1 as n")
        async with embed(data_dir) as server:
            assert await count_kept(server) == 1
            assert find_running(data_dir) == server.dsn
    finally:
        home = (data_dir / "postgres").resolve().parent
        assert home.parent == SHARED
        shutil.rmtree(home)


@as_root
async def test_installation_closed_to_the_account_is_copied(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = data_dir.parent / "shared"
    monkeypatch.setattr("laneway.embedded.binaries.SHARED", shared)
    monkeypatch.setattr("laneway.embedded.binaries._is_usable", lambda *_: False)
    for _ in range(2):
        async with EmbeddedPostgres(data_dir) as server:
            assert Path(psutil.Process(server.pid).exe()).is_relative_to(shared)
            assert await _answers(server.dsn)
    assert [path.name[:11] for path in shared.iterdir()] == ["postgresql-"]


@as_root
def test_root_without_an_account_gets_instructions(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("laneway.embedded.account.CANDIDATES", ("no-such-account",))
    with pytest.raises(NoAccount, match="useradd --system no-such-account"):
        choose_account(data_dir)


async def _answers(dsn: str) -> bool:
    try:
        async with connected(dsn) as connection:
            return bool(await connection.fetchval("select true"))
    except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError):
        return False


def _start_orphan(data_dir: Path) -> subprocess.Popen[bytes]:
    """Start a server on the cluster as a program that was killed would have left it."""
    cluster = (data_dir / "postgres").resolve()
    owner = cluster.stat()
    account = Account(owner.st_uid, owner.st_gid) if os.geteuid() == 0 else None
    binaries = find_binaries() or find_bundled(account).folder
    orphan = subprocess.Popen(
        [binaries / "postgres", "-D", cluster, "-c", "listen_addresses=", "-k", cluster],
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
        cwd="/",
        stderr=subprocess.DEVNULL,
    )
    while find_running(data_dir) is None:
        assert orphan.poll() is None
    return orphan


def _free_port() -> int:

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _find_socket_folder(data_dir: Path) -> Path:
    dsn = find_running(data_dir)
    assert dsn is not None
    return Path(dsn.partition("host=")[2].partition("&")[0])
