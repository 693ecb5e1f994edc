"""Handles of jobs, which are messages: wait for a handler's result, read its progress, cancel it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from laneway.domain.errors import JobCancelled, JobFailed, ResultNotFound
from laneway.domain.jobs import CANCELLED
from laneway.domain.messages import Status
from laneway.library.waiting import Seen, wait_for_end

if TYPE_CHECKING:
    from datetime import timedelta

    from laneway.domain.backend import Backend
    from laneway.domain.ids import MessageId
    from laneway.domain.jobs import JobInfo
    from laneway.domain.messages import Progress


class Job:
    """A handle of one message of a queue's default group."""

    def __init__(self, backend: Backend, message_id: MessageId) -> None:
        self._id = message_id
        self._backend = backend

    @property
    def id(self) -> MessageId:
        return self._id

    async def info(self) -> JobInfo:
        """Return the message's status, its handler's progress and its result."""
        found = await self._backend.workers.find_job(self.id)
        if found is None:
            raise ResultNotFound(message=str(self.id))
        return found

    async def progress(self) -> Progress | None:
        """Return what the handler has reported; None if it is not running or reports nothing."""
        return (await self.info()).progress

    async def result(self, timeout: timedelta | None = None) -> Any:
        """Wait for the handler's result; the handler needs `keep_results`.

        Raises JobFailed if the message was dead-lettered, JobCancelled if it was cancelled,
        ResultNotFound if it was acked without a result, TimeoutError if none of that happened in
        time. A timeout of zero checks once. It keeps waiting while the database or server is
        unreachable.
        """
        return _read_end(self.id, await wait_for_end(self._look, f"job {self.id}", timeout))

    async def cancel(self) -> bool:
        """Dead-letter the message with the reason "cancelled"; False if it is not queued or in flight.

        A handler that is running with it is cancelled within a heartbeat of its worker.
        """
        return await self._backend.workers.cancel_job(self.id)

    async def _look(self) -> Seen[JobInfo | None]:
        found = await self._backend.workers.find_job(self.id)
        status = None if found is None else found.status
        return Seen(found, str(status), status not in {Status.QUEUED, Status.PROCESSING})


def _read_end(message_id: MessageId, found: JobInfo | None) -> Any:
    if found is not None and found.status is Status.DEAD:
        if found.error == CANCELLED:
            raise JobCancelled(f"job {message_id} was cancelled")
        raise JobFailed(f"job {message_id} failed: {found.error}")
    if found is None or found.finished_at is None:
        raise ResultNotFound(message=str(message_id))
    return found.result
