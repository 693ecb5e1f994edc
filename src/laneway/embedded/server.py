"""Run one PostgreSQL server for as long as the program runs."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Self

from laneway.embedded.account import choose_account
from laneway.embedded.binaries import Binaries, find_bundled
from laneway.embedded.directory import DataDirectory
from laneway.embedded.errors import DataDirectoryUnusable, EmbeddedError
from laneway.embedded.postmaster import is_running, read_postmaster
from laneway.embedded.process import ServerProcess
from laneway.embedded.sockets import format_dsn

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from laneway.embedded.directory import DirectoryLock

logger = logging.getLogger(__name__)

RESTART_PAUSE = timedelta(seconds=1)


class EmbeddedPostgres:
    """The bundled PostgreSQL on a data directory, owned while the context is open.

    A server that exits is started again. On Linux the server stops even when this program is
    killed; elsewhere, and whatever happens, the next start ends what was left running.
    """

    def __init__(
        self,
        data_dir: Path,
        *,
        settings: Mapping[str, str] | None = None,
        port: int | None = None,
        binaries: Path | None = None,
    ) -> None:
        """port: also listen on 127.0.0.1, for roles with passwords only.

        The settings override the tuned ones; `binaries` names another PostgreSQL's bin directory.
        """
        self._directory = DataDirectory(data_dir.absolute())
        self._settings = dict(settings or {})
        self._port = port
        self._binaries = binaries
        self._lock: DirectoryLock | None = None
        self._server: ServerProcess | None = None
        self._watcher: asyncio.Task[None] | None = None

    @property
    def dsn(self) -> str:
        """The URL for asyncpg and libpq; it stays the same when the server restarts."""
        server = self._require_started()
        return format_dsn(server.socket_folder, server.port)

    @property
    def pid(self) -> int:
        return self._require_started().pid

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the server; return once it accepts connections."""
        if self._lock is not None:
            raise EmbeddedError(f"the database in {self._directory.root} is already started")
        self._lock = self._directory.acquire()
        try:
            self._server = await self._prepare()
            await self._server.start()
        except BaseException:
            await self.stop()
            raise
        self._watcher = asyncio.create_task(self._watch(self._server))

    async def stop(self) -> None:
        """Stop the server and release the directory."""
        if self._watcher is not None:
            self._watcher.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._watcher
            self._watcher = None
        if self._server is not None:
            await self._server.stop()
            self._server = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def _require_started(self) -> ServerProcess:
        if self._server is None:
            raise EmbeddedError(f"the database in {self._directory.root} is not started")
        return self._server

    async def _prepare(self) -> ServerProcess:
        account = choose_account(self._directory.cluster)
        if self._binaries is not None:
            binaries = Binaries(self._binaries)
        else:
            binaries = await asyncio.to_thread(find_bundled, account)
        cluster = await asyncio.to_thread(
            self._directory.ensure_cluster,
            binaries,
            account,
            sync=self._settings.get("fsync") != "off",
        )
        return ServerProcess(
            directory=self._directory,
            cluster=cluster,
            binaries=binaries,
            account=account,
            port=self._port,
            settings=self._settings,
        )

    async def _watch(self, server: ServerProcess) -> None:
        """Restart the server whenever it exits."""
        while True:
            await server.wait_until_dead()
            logger.error(
                "bundled PostgreSQL in %s exited unexpectedly, restarting; its last log lines:\n%s",
                self._directory.root,
                self._directory.read_log_tail(),
            )
            try:
                await server.start()
            except EmbeddedError:
                logger.exception("bundled PostgreSQL failed to start, retrying")
                await asyncio.sleep(RESTART_PAUSE.total_seconds())


def has_database(data_dir: Path) -> bool:
    """Return whether the directory has a cluster, or a program that is creating one. Changes nothing."""
    directory = DataDirectory(data_dir.absolute())
    return directory.cluster.exists() or directory.find_owner() is not None


def find_running(data_dir: Path) -> str | None:
    """Return the DSN of the server running on the directory, in whichever program."""
    directory = DataDirectory(data_dir.absolute())
    cluster = directory.cluster.resolve()
    try:
        postmaster = read_postmaster(cluster)
    except PermissionError:
        raise DataDirectoryUnusable(directory.root, "it belongs to another user") from None
    except NotADirectoryError:
        raise DataDirectoryUnusable(directory.root, "it is not a directory") from None
    if postmaster is None or not postmaster.ready or not is_running(cluster, postmaster):
        return None
    return format_dsn(postmaster.socket_folder, postmaster.port)
