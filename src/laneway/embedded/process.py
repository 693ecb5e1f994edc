"""Start, await and stop one PostgreSQL server process."""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import signal
import subprocess
import sys
from datetime import timedelta
from typing import TYPE_CHECKING

from laneway.embedded.binaries import ENVIRONMENT
from laneway.embedded.errors import EmbeddedError, ServerFailed
from laneway.embedded.parameters import tune
from laneway.embedded.postmaster import end_orphans, read_postmaster, remove_stale_files
from laneway.embedded.sockets import DEFAULT_PORT, choose_folder, remove_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from laneway.embedded.account import Account
    from laneway.embedded.binaries import Binaries
    from laneway.embedded.directory import DataDirectory

START_PATIENCE = timedelta(minutes=5)
STOP_PATIENCE = timedelta(seconds=30)

_TICK = timedelta(milliseconds=20)
_WATCH = timedelta(milliseconds=200)
_PR_SET_PDEATHSIG = 1


class ServerProcess:
    """A server on one cluster: one process at a time, always at the same socket."""

    def __init__(
        self,
        *,
        directory: DataDirectory,
        cluster: Path,
        binaries: Binaries,
        account: Account | None,
        port: int | None,
        settings: Mapping[str, str],
    ) -> None:
        self._directory = directory
        self._cluster = cluster
        self._binaries = binaries
        self._account = account
        self._process: subprocess.Popen[bytes] | None = None
        self.port = port or DEFAULT_PORT
        self.socket_folder = choose_folder(cluster, self.port, account)
        tuned = tune(socket_folder=self.socket_folder, port=self.port, listen=port is not None)
        self._settings = {**tuned, **settings}

    @property
    def pid(self) -> int:
        if self._process is None:
            raise EmbeddedError(f"no server runs in {self._directory.root}")
        return self._process.pid

    async def start(self) -> None:
        """Start the server; return once it accepts connections, after any crash recovery."""
        await asyncio.to_thread(self._clear_the_way)
        self._process = self._spawn()
        try:
            async with asyncio.timeout(START_PATIENCE.total_seconds()):
                await self._wait_until_ready(self._process)
        except TimeoutError:
            raise ServerFailed(
                f"PostgreSQL was not ready after {START_PATIENCE}", self._directory.read_log_tail()
            ) from None

    async def wait_until_dead(self) -> None:
        if self._process is not None:
            await _wait_for_end(self._process, _WATCH)

    async def stop(self) -> None:
        """Shut down fast; if that hangs, harder. The next start recovers from that."""
        if self._process is not None:
            for ending in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
                self._process.send_signal(ending)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(STOP_PATIENCE.total_seconds()):
                        await _wait_for_end(self._process, _TICK)
                    break
            self._process = None
        remove_folder(self.socket_folder)
        self._directory.note_socket_folder(None)

    def _clear_the_way(self) -> None:
        # A killed server leaves its pid file; one that stopped by itself only our record.
        postmaster = read_postmaster(self._cluster)
        left = [
            postmaster.socket_folder if postmaster else None,
            self._directory.read_socket_folder(),
        ]
        end_orphans(self._cluster, patience=STOP_PATIENCE)
        remove_stale_files(self._cluster, self.socket_folder)
        for folder in left:
            if folder is not None and folder != self.socket_folder:
                remove_folder(folder)
        if self.socket_folder != self._cluster:
            self._directory.note_socket_folder(self.socket_folder)
        self._directory.rotate_log()

    def _spawn(self) -> subprocess.Popen[bytes]:
        # Called on the event loop's thread: PDEATHSIG follows the thread that forks.
        command = [self._binaries.program("postgres"), "-D", str(self._cluster)]
        for name, value in self._settings.items():
            command += ["-c", f"{name}={value}"]
        with self._directory.log.open("ab") as log:
            return subprocess.Popen(  # noqa: S603 - our own program, no shell
                command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd="/",
                env=ENVIRONMENT,
                # In a session of its own: Ctrl-C reaches this program only, which stops the server.
                start_new_session=True,
                user=self._account.uid if self._account else None,
                group=self._account.gid if self._account else None,
                extra_groups=[] if self._account else None,
                preexec_fn=_die_with_parent(),  # noqa: PLW1509 - one system call, takes no lock
            )

    async def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> None:
        while True:
            if process.poll() is not None:
                raise ServerFailed(
                    f"PostgreSQL exited with {process.returncode} while starting",
                    self._directory.read_log_tail(),
                )
            postmaster = read_postmaster(self._cluster)
            if postmaster is not None and postmaster.pid == process.pid and postmaster.ready:
                return
            await asyncio.sleep(_TICK.total_seconds())


async def _wait_for_end(process: subprocess.Popen[bytes], interval: timedelta) -> None:
    while process.poll() is None:  # noqa: ASYNC110 - the kernel sets no asyncio.Event
        await asyncio.sleep(interval.total_seconds())


def _die_with_parent() -> Callable[[], None] | None:
    """Have the kernel send the server a fast shutdown when this program ends."""
    if sys.platform != "linux":
        return None
    # Looked up before the fork: little is safe between fork and exec.
    prctl = ctypes.CDLL(None).prctl

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGINT)

    return ask
