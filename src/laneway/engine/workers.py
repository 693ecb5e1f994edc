"""The broker's calls about workers, handlers' results, and periodic jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from laneway.domain.errors import InvalidRequest, InvalidStateTransition, WorkerBusy
from laneway.domain.escapes import replace_unstorable
from laneway.domain.jobs import CANCELLED
from laneway.domain.messages import LONGEST_NOTE, Status
from laneway.domain.workers import ASKS, STEPS, TARGETS, WorkerState
from laneway.engine.messages import Messages
from laneway.engine.procedures import workers as procedures

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime, timedelta

    from laneway.domain.ids import MessageId
    from laneway.domain.jobs import JobInfo
    from laneway.domain.messages import OutgoingMessage, Progress, Receipt
    from laneway.domain.runs import JobResult
    from laneway.domain.workers import Ask, WorkerIdentity, WorkerInfo, WorkerOrder
    from laneway.engine.core import Core


class Workers:
    def __init__(self, core: Core) -> None:
        self._core = core

    async def register(self, identity: WorkerIdentity) -> None:
        """Register a worker in the state ready; a worker with a known id starts over."""
        async with self._core.pool.lend() as connection:
            await procedures.register_worker(connection, identity)

    async def find_queues(self, worker_id: str) -> list[str]:
        """Return the names of the queues that a worker registered for."""
        async with self._core.pool.lend() as connection:
            return await procedures.find_worker_queues(connection, worker_id)

    async def record_heartbeat(
        self,
        worker_id: str,
        *,
        handled: int,
        failed: int,
        progress: dict[str, Progress] | None = None,
    ) -> WorkerOrder:
        """Record a heartbeat; return the worker's state and the state it is asked to enter.

        progress: of the messages that it handles, by id. What cannot be stored is adjusted.
        """
        async with self._core.pool.lend() as connection:
            return await procedures.record_heartbeat(
                connection,
                worker_id,
                handled=handled,
                failed=failed,
                progress=_write_progress(progress) if progress else None,
            )

    async def extend_leases(self, worker_id: str, *, lease: timedelta) -> None:
        """Extend all leases of a worker to at least this long from now."""
        async with self._core.pool.lend() as connection:
            await procedures.extend_leases_of_worker(connection, worker_id, lease)

    async def step(self, worker_id: str, to: WorkerState) -> None:
        """Change a worker's state on its own request."""
        async with self._core.pool.lend() as connection:
            was, state, _ = await procedures.change_worker_state(
                connection, worker_id, source=STEPS[to], to=to
            )
        if was not in STEPS[to] and state is not to:
            raise InvalidStateTransition(was, to, f'worker "{worker_id}" is {was}')

    async def ask(self, worker_id: str, ask: Ask, *, release: bool = False) -> WorkerState:
        """Suspend, resume or shut down a worker from outside; return its state afterwards.

        A polling worker is interrupted: it finishes its messages in flight first. A shutdown is
        refused with WorkerBusy while it has messages in flight, unless `release`: then they are
        released at once, without counting the attempt, and the worker is stopped.
        """
        target, was = TARGETS[ask], WorkerState.STOPPED
        async with self._core.pool.lend() as connection:
            kind = await procedures.find_worker_kind(connection, worker_id)
            if kind != "worker":
                raise InvalidRequest(
                    f'"{worker_id}" is a {kind}, which takes no orders: end its program instead'
                )
            if ask == "shutdown" and release:
                queues = await procedures.reclaim_worker(connection, worker_id, release=True)
                self._wake(queues)
                return WorkerState.STOPPED
            for source, answer in ASKS[ask].items():
                was, _, held = await procedures.change_worker_state(
                    connection,
                    worker_id,
                    source=(source,),
                    to=answer.state,
                    asked=answer.asked,
                    idle=ask == "shutdown",
                )
                if was is source and held and ask == "shutdown":
                    raise WorkerBusy(worker=worker_id, messages=held)
                if was is source:
                    return answer.state
        raise InvalidStateTransition(was, target, f'worker "{worker_id}" is {was}')

    async def list_all(self, queue: str | None = None) -> list[WorkerInfo]:
        async with self._core.pool.lend() as connection:
            return await procedures.list_workers(connection, queue)

    async def reclaim(self, worker_id: str) -> int:
        """Nack all messages of a worker and stop it; return how many."""
        async with self._core.pool.lend() as connection:
            await procedures.change_worker_state(
                connection,
                worker_id,
                source=STEPS[WorkerState.STOPPED],
                to=WorkerState.STOPPED,
                asked=WorkerState.STOPPED,
            )
        return await self._reclaim(worker_id)

    async def reclaim_dead(self, timeout: timedelta | None = None) -> dict[str, int]:
        """Reclaim each worker that sent no heartbeat for too long; return each one's messages.

        timeout: how long; None: the worker's own timeout. A worker that is alive registers again.
        """
        async with self._core.pool.lend() as connection:
            await procedures.stop_silent_clients(connection)
            dead = await procedures.find_dead_workers(connection, timeout)
        return {worker_id: await self._reclaim(worker_id) for worker_id in dead}

    async def purge(self, age: timedelta) -> int:
        """Delete workers that stopped longer ago than this; return how many."""
        async with self._core.pool.lend() as connection:
            return await procedures.purge_workers(connection, age)

    async def ack_results(
        self, receipts: Sequence[Receipt], results: Sequence[str | None], *, keep: timedelta
    ) -> list[int]:
        """Ack messages and store their handlers' results; return the positions of lost leases."""
        if not receipts:
            return []
        async with self._core.pool.lend() as connection:
            lost = await procedures.ack_results(connection, receipts, results, keep)
        self._core.traffic.count_acks(len(receipts), refused=len(lost))
        return lost

    async def find_result(self, message: MessageId) -> JobResult | None:
        async with self._core.pool.lend() as connection:
            return await procedures.find_result(connection, message)

    async def find_job(self, message: MessageId) -> JobInfo | None:
        """Return a message with its handler's progress and result; None if neither is kept."""
        async with self._core.pool.lend() as connection:
            return await procedures.find_job(connection, message)

    async def cancel_job(self, message: MessageId) -> bool:
        """Dead-letter a message that is queued or in flight; return whether it was.

        A worker that is handling it is told with its next heartbeat.
        """
        messages = Messages(self._core)
        (queue,) = await messages.locate([message])
        if queue is None:
            return False
        # It may be claimed after the first look.
        for source in (Status.PROCESSING, Status.QUEUED, Status.PROCESSING):
            if await messages.move(
                queue, [message], source=source, target=Status.DEAD, reason=CANCELLED
            ):
                return True
        return False

    async def fire_schedule(
        self, name: str, expression: str, due: datetime, *, queue: str, message: OutgoingMessage
    ) -> bool:
        """Push a periodic job's message for one of its times; return whether it is new."""
        found = await self._core.catalog.find(queue)
        async with self._core.pool.lend() as connection:
            fired = await procedures.fire_schedule(
                connection, name, expression, due, queue=queue, message=message
            )
        if fired:
            self._core.traffic.pushed += 1
            self._core.wakeups.wake(found.queue_id)
        return fired

    async def _reclaim(self, worker_id: str) -> int:
        async with self._core.pool.lend() as connection:
            queues = await procedures.reclaim_worker(connection, worker_id)
        self._wake(queues)
        return sum(queues.values())

    def _wake(self, queue_ids: dict[int, int]) -> None:
        for queue_id in queue_ids:
            self._core.wakeups.wake(queue_id, delayed=True)


def _write_progress(progress: dict[str, Progress]) -> str:
    return json.dumps(
        {
            replace_unstorable(message_id): (
                min(max(each.share, 0), 1),
                replace_unstorable(each.note[:LONGEST_NOTE]),
            )
            for message_id, each in progress.items()
        }
    )
