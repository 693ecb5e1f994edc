"""The server's processes: read postmaster.pid, and end processes that a dead program left."""

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
    """The contents of a cluster's postmaster.pid, complete once the server listens."""

    pid: int
    port: int
    socket_folder: Path
    ready: bool


def read_postmaster(cluster: Path) -> Postmaster | None:
    """Return the contents, or None while the file is missing or incomplete."""
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
    """Return whether the process with that pid is still this cluster's server."""
    return any(process.pid == postmaster.pid for process in _find_processes(cluster))


def end_orphans(cluster: Path, *, patience: timedelta) -> None:
    """End processes that a killed program or postmaster left running on the cluster.

    The caller has the directory's lock, so no running program owns these processes.
    """
    orphans = _find_processes(cluster)
    pids = {process.pid for process in orphans}
    for process in orphans:
        with contextlib.suppress(psutil.NoSuchProcess):
            # The postmaster is the process whose parent is not in the set; it ends its children.
            if process.ppid() not in pids:
                process.send_signal(signal.SIGINT)
    for process in _await_end(cluster, patience):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()
    _await_end(cluster, patience)


def remove_stale_files(cluster: Path, socket_folder: Path) -> None:
    """Remove the files of a server that is gone.

    PostgreSQL itself keeps the files, and refuses to start, when a later process has its number:
    the rule rather than the exception in a container that starts anew with the same few numbers.
    """
    (cluster / "postmaster.pid").unlink(missing_ok=True)
    for path in socket_folder.glob(".s.PGSQL.*"):
        path.unlink(missing_ok=True)


def _await_end(cluster: Path, patience: timedelta) -> list[psutil.Process]:
    """Return the processes still running after the timeout; zombies do not count."""
    deadline = time.monotonic() + patience.total_seconds()
    while (left := _find_processes(cluster)) and time.monotonic() < deadline:
        time.sleep(_POLL.total_seconds())
    return left


def _find_processes(cluster: Path) -> list[psutil.Process]:
    # All server processes have the cluster as working directory; so may a user's shell.
    return [
        process
        for process in psutil.process_iter(["name", "cwd"])
        if process.info["cwd"] == str(cluster)
        and (process.info["name"] or "").startswith("postgres")
    ]
