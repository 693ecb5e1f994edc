"""The server's processes: what postmaster.pid tells, and how those of a dead program are ended."""

from __future__ import annotations

import contextlib
import signal
import time
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psutil

_POLL = timedelta(milliseconds=20)


@dataclass(frozen=True, slots=True)
class Postmaster:
    """The contents of a cluster's postmaster.pid, complete once the server has its sockets."""

    pid: int
    port: int
    socket_folder: Path
    ready: bool


def read_postmaster(cluster: Path) -> Postmaster | None:
    """None while there is no file or the server has not yet finished writing it."""
    try:
        lines = (cluster / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return None
    # pid, data directory, start time, port, socket directory, listen address, shared memory, state
    match [line.strip() for line in lines]:
        case [pid, _, _, port, folder, _, _, state]:
            return Postmaster(int(pid), int(port), Path(folder), ready=state == "ready")
        case _:
            return None


def is_running(cluster: Path, postmaster: Postmaster) -> bool:
    """Whether the process of that number is still this cluster's server and not a later one."""
    return any(process.pid == postmaster.pid for process in _find_processes(cluster))


def end_orphans(cluster: Path, *, patience: timedelta) -> None:
    """End whatever a killed program or a killed postmaster has left running on the cluster.

    The caller holds the directory's lock, so no living program owns these processes.
    """
    orphans = _find_processes(cluster)
    pids = {process.pid for process in orphans}
    for process in orphans:
        with contextlib.suppress(psutil.NoSuchProcess):
            # The postmaster is the one whose parent is outside; it tells its children itself.
            if process.ppid() not in pids:
                process.send_signal(signal.SIGINT)
    for process in _await_end(cluster, patience):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _await_end(cluster, patience)


def remove_stale_files(cluster: Path, socket_folder: Path) -> None:
    """Forget a server that is gone.

    PostgreSQL itself keeps the files, and refuses to start, when a later process has its number:
    the rule rather than the exception in a container that starts anew with the same few numbers.
    """
    (cluster / "postmaster.pid").unlink(missing_ok=True)
    for path in socket_folder.glob(".s.PGSQL.*"):
        path.unlink(missing_ok=True)


def _await_end(cluster: Path, patience: timedelta) -> list[psutil.Process]:
    """Return what is still there after that time; a zombie is gone, whoever should reap it."""
    deadline = time.monotonic() + patience.total_seconds()
    while (left := _find_processes(cluster)) and time.monotonic() < deadline:
        time.sleep(_POLL.total_seconds())
    return left


def _find_processes(cluster: Path) -> list[psutil.Process]:
    # Every process of a server works in its cluster's directory; a person's shell may, too.
    return [
        process
        for process in psutil.process_iter(["name", "cwd"])
        if process.info["cwd"] == str(cluster)
        and (process.info["name"] or "").startswith("postgres")
    ]
