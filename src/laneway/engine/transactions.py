"""The broker's calls about transactions of the gateway."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from laneway.domain.errors import QueueNotFound
from laneway.domain.transactions import (
    TRANSACTIONS,
    WEBHOOKS,
    Acceptance,
    Accepted,
    Action,
    Begun,
    Recorded,
    Settlement,
)
from laneway.engine.procedures import transactions as procedures
from laneway.engine.pumps.conflicts import retry_conflicts
from laneway.engine.pumps.pump import Pump

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import datetime, timedelta
    from uuid import UUID

    import asyncpg

    from laneway.domain.messages import Delivery
    from laneway.domain.settings import PumpSettings
    from laneway.domain.transactions import (
        Breaker,
        Endpoint,
        Finding,
        Finish,
        NewTransaction,
        Reservation,
        Transaction,
        TransactionFigures,
    )
    from laneway.engine.core import Core
    from laneway.engine.procedures.call import Connection
    from laneway.engine.tasks import Tasks


class Transactions:
    """Transactions are stored, begun and finished in batches, as messages are."""

    def __init__(self, core: Core, *, tasks: Tasks, settings: PumpSettings) -> None:
        self._core = core
        self._storing: set[tuple[str, str]] = set()
        self._waiters: dict[UUID, set[asyncio.Future[None]]] = defaultdict(set)
        # As pushes to one queue: concurrent ones would spread over stripes.
        self._accepting: Pump[NewTransaction, Accepted] = Pump(
            "transaction",
            self._accept,
            pool=core.pool,
            tasks=tasks,
            settings=settings,
            calls_per_key=settings.concurrent_calls_per_queue,
        )
        # One call at a time: several, with fewer messages each, cost more commits, and those that
        # settle parts of one claim would wait for each other.
        self._beginning: Pump[tuple[UUID, Delivery], Begun] = Pump(
            "beginning of a call",
            self._begin,
            pool=core.pool,
            tasks=tasks,
            settings=settings,
            calls_per_key=1,
        )
        self._finishing: Pump[Finish, Recorded | None] = Pump(
            "result of a call",
            self._finish,
            pool=core.pool,
            tasks=tasks,
            settings=settings,
            calls_per_key=1,
        )

    async def drain(self) -> None:
        for pump in (self._accepting, self._beginning, self._finishing):
            await pump.drain()

    def abandon(self) -> None:
        for pump in (self._accepting, self._beginning, self._finishing):
            pump.abandon()

    async def accept(self, transaction: NewTransaction) -> Accepted:
        """Store a transaction and push its message, both or neither."""
        size = len(transaction.request) + len(transaction.body)
        if transaction.idempotency_key is None:
            return await self._accepting.submit(transaction, count=1, size=size)
        name = (transaction.owner, transaction.idempotency_key)
        if name in self._storing:
            return Accepted(Acceptance.BUSY, transaction.id, "", None, None)  # type: ignore[arg-type]
        self._storing.add(name)
        try:
            return await self._accepting.submit(transaction, count=1, size=size)
        finally:
            self._storing.discard(name)

    async def begin(self, transaction_id: UUID, delivery: Delivery) -> Begun:
        """Decide what to do with a claimed message, and note that its call begins."""
        return await self._beginning.submit((transaction_id, delivery), count=1)

    async def finish(self, finish: Finish) -> Recorded | None:
        """Settle a message and record what its call found out, both or neither.

        Return the transaction, None if there is no finding or no such transaction.
        """
        return await self._finishing.submit(finish, count=1)

    async def record(self, findings: Sequence[Finding]) -> list[Recorded]:
        """Record what was found out otherwise than by a message's call."""
        if not findings:
            return []
        webhooks = await self._find_webhook_queue()
        async with self._core.pool.lend() as connection:
            rows = await retry_conflicts(
                lambda: procedures.record_reports(
                    connection, findings=findings, webhook_queue_id=webhooks
                )
            )
        self._announce(rows, webhooks)
        return [Recorded(*row[:4]) for row in rows]

    async def find(self, transaction_id: UUID) -> Transaction | None:
        async with self._core.pool.lend() as connection:
            found = await procedures.find_transactions(connection, [transaction_id])
        return found[0] if found else None

    async def find_upstream(self, target: str, upstream_id: str) -> Transaction | None:
        """Return the transaction that a target knows by this id."""
        async with self._core.pool.lend() as connection:
            return await procedures.find_upstream(
                connection, target=target, upstream_id=upstream_id
            )

    async def list_all(
        self,
        *,
        statuses: Sequence[str] | None = None,
        target: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: tuple[datetime, UUID] | None = None,
        limit: int = 100,
    ) -> list[Transaction]:
        """Return transactions, newest first. before: those after this one in the list."""
        async with self._core.pool.lend() as connection:
            return await procedures.list_transactions(
                connection,
                statuses=statuses,
                target=target,
                since=since,
                until=until,
                before=before,
                limit=limit,
            )

    async def list_submitted(self, quiet: timedelta, *, limit: int) -> list[Transaction]:
        """Return submitted transactions that are not final and did not change for this long."""
        async with self._core.pool.lend() as connection:
            return await procedures.list_submitted(connection, quiet=quiet, limit=limit)

    async def cancel(self, transaction_id: UUID) -> tuple[str, bool] | None:
        """Cancel a transaction that was not sent yet.

        Return its status and whether it is cancelled now; None if there is no such transaction.
        """
        webhooks = await self._find_webhook_queue()
        async with self._core.pool.lend() as connection:
            row = await procedures.cancel_transaction(
                connection, transaction_id, webhook_queue_id=webhooks
            )
        if row is None:
            return None
        if row["cancelled"]:
            self._wake({transaction_id})
        if row["told"] and webhooks is not None:
            self._core.wakeups.wake(webhooks)
        return row["status"], row["cancelled"]

    async def retry(
        self, transaction_id: UUID, *, body: str, max_attempts: int | None
    ) -> tuple[str, bool] | None:
        """Send a transaction again that was given up. body: its message, if it must be pushed anew.

        Return its status and whether it is sent again; None if there is no such transaction.
        """
        queue = await self._core.catalog.find(TRANSACTIONS)
        async with self._core.pool.lend() as connection:
            row = await procedures.retry_transaction(
                connection,
                transaction_id,
                queue_id=queue.queue_id,
                body=body,
                max_attempts=max_attempts,
            )
        if row is None:
            return None
        if row["retried"]:
            self._core.wakeups.wake(queue.queue_id)
        return row["status"], row["retried"]

    async def fail_lost(
        self, *, after: tuple[datetime, UUID] | None, limit: int, min_age: timedelta
    ) -> tuple[int, tuple[datetime, UUID] | None]:
        """Give up transactions whose messages are gone, of the next `limit` open ones.

        Return how many, and where to continue; None: at the beginning.
        """
        webhooks = await self._find_webhook_queue()
        async with self._core.pool.lend() as connection:
            row = await procedures.fail_lost_transactions(
                connection, after=after, limit=limit, min_age=min_age, webhook_queue_id=webhooks
            )
        if row["told"] and webhooks is not None:
            self._core.wakeups.wake(webhooks)
        place = None if row["next_at"] is None else (row["next_at"], row["next_id"])
        return row["failed"], place

    async def sweep(self, *, age: timedelta, key_age: timedelta, limit: int) -> int:
        """Delete final transactions and idempotency keys that are older; return how many."""
        async with self._core.pool.lend() as connection:
            return await procedures.sweep_transactions(
                connection, age=age, key_age=key_age, limit=limit
            )

    async def summarise(self) -> TransactionFigures:
        queue = await self._core.catalog.find(TRANSACTIONS)
        async with self._core.pool.lend() as connection:
            return await procedures.summarise_transactions(connection, queue.queue_id)

    async def wait(self, transaction_id: UUID) -> None:
        """Return when a transaction may have become final. It costs no calls."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiters = self._waiters[transaction_id]
        waiters.add(future)
        try:
            await future
        finally:
            waiters.discard(future)
            if not waiters:
                self._waiters.pop(transaction_id, None)

    def hear(self, ids: Iterable[UUID]) -> None:
        """Wake those who wait for these transactions here."""
        for each in ids:
            for future in self._waiters.get(each, ()):
                if not future.done():
                    future.set_result(None)

    def hear_gap(self) -> None:
        """Wake all who wait here: announcements may have been missed."""
        self.hear(list(self._waiters))

    async def reserve_calls(
        self,
        target: str,
        *,
        process: UUID,
        wanted: int,
        running: int,
        concurrency: int | None,
        rate: float | None,
        open_for: timedelta,
    ) -> Reservation:
        """Reserve calls at a target, which its breaker and the limits of all processes allow."""
        async with self._core.pool.lend() as connection:
            return await procedures.reserve_calls(
                connection,
                target,
                process=process,
                wanted=wanted,
                running=running,
                concurrency=concurrency,
                rate=rate,
                open_for=open_for,
            )

    async def note_calls(
        self,
        target: str,
        *,
        succeeded: bool,
        failures: int,
        reason: str | None,
        limit: int,
        open_for: timedelta,
    ) -> tuple[int, bool, bool]:
        """Note results of calls for the breaker.

        Return the failures in a row, whether it is open, and whether this opened or closed it.
        """
        async with self._core.pool.lend() as connection:
            row = await procedures.note_calls(
                connection,
                target,
                succeeded=succeeded,
                failures=failures,
                reason=reason,
                limit=limit,
                open_for=open_for,
            )
        return row["failures"], row["is_open"], row["changed"]

    async def set_breaker(self, target: str, *, is_open: bool, open_for: timedelta) -> None:
        async with self._core.pool.lend() as connection:
            await procedures.set_breaker(connection, target, is_open=is_open, open_for=open_for)

    async def list_breakers(self) -> list[Breaker]:
        async with self._core.pool.lend() as connection:
            return await procedures.list_breakers(connection)

    async def note_webhook(
        self, url: str, *, reason: str | None, disable: bool, patience: timedelta
    ) -> tuple[bool, bool]:
        """Note the result of a webhook; reason None: it succeeded.

        Return whether its endpoint is disabled, and whether this disabled it.
        """
        async with self._core.pool.lend() as connection:
            row = await procedures.note_webhook(
                connection, url, reason=reason, disable=disable, patience=patience
            )
        return row["disabled"], row["changed"]

    async def list_endpoints(self) -> list[Endpoint]:
        """Return the webhook endpoints that fail."""
        async with self._core.pool.lend() as connection:
            return await procedures.list_endpoints(connection)

    async def enable_endpoint(self, url: str) -> bool:
        """Send to an endpoint again; return whether it had failed."""
        async with self._core.pool.lend() as connection:
            return await procedures.enable_endpoint(connection, url)

    async def _accept(
        self, connection: Connection, loads: Sequence[NewTransaction]
    ) -> list[Accepted]:
        queue = await self._core.catalog.find(TRANSACTIONS)
        rows = await procedures.accept_transactions(
            connection, queue_id=queue.queue_id, transactions=loads
        )
        answers: dict[int, Accepted] = {}
        for idx, outcome, *found in rows:
            answers[idx] = Accepted(Acceptance(outcome), *found)
        new = {loads[n].target for n, each in answers.items() if each.outcome is Acceptance.NEW}
        if new:
            self._core.traffic.pushed += sum(
                each.outcome is Acceptance.NEW for each in answers.values()
            )
            self._core.wakeups.wake(queue.queue_id, partitions=new, plain=True)
        return [answers[n] for n in range(len(loads))]

    async def _begin(
        self, connection: Connection, loads: Sequence[tuple[UUID, Delivery]]
    ) -> list[Begun]:
        # Of two messages of one transaction, the second is delivered again after the first.
        first: dict[UUID, int] = {}
        for number, (transaction_id, _) in enumerate(loads):
            first.setdefault(transaction_id, number)
        chosen = sorted(first.values())
        rows = await procedures.begin_transactions(
            connection,
            ids=[loads[n][0] for n in chosen],
            tokens=[loads[n][1].token for n in chosen],
            segments=[loads[n][1].segment for n in chosen],
            lanes=[loads[n][1].lane for n in chosen],
            seqs=[loads[n][1].seq for n in chosen],
        )
        answers = [Begun(Action.BUSY, 0, None, None, None)] * len(loads)
        for idx, action, calls, *upstream in rows:
            answers[chosen[idx]] = Begun(Action(action), calls or 0, *upstream)
        return answers

    async def _finish(
        self, connection: Connection, loads: Sequence[Finish]
    ) -> list[Recorded | None]:
        webhooks = await self._find_webhook_queue()
        rows = await procedures.finish_transactions(
            connection, finishes=loads, webhook_queue_id=webhooks
        )
        lanes = [load.receipt.lane for load in loads]
        requeued = any(load.settlement in {Settlement.RETRY, Settlement.RELEASE} for load in loads)
        self._core.lanes.free(lanes, requeued=requeued)
        self._count(loads, rows)
        self._announce(rows, webhooks)
        found = {row[0]: Recorded(row[0], row[1], row[2], row[3], row[5]) for row in rows}
        return [None if load.finding is None else found.get(load.finding.id) for load in loads]

    def _count(self, loads: Sequence[Finish], rows: Sequence[asyncpg.Record]) -> None:
        traffic = self._core.traffic
        traffic.acked += sum(load.settlement is Settlement.ACK for load in loads)
        for row in rows:
            traffic.dead += row["outcome"] == "dead"
            traffic.requeued += row["outcome"] == "requeued"
            traffic.refused += row["outcome"] == "lost"

    def _announce(self, rows: Sequence[asyncpg.Record], webhooks: int | None) -> None:
        self._wake({row["transaction_id"] for row in rows if row["changed"]})
        if webhooks is not None and any(row["told"] for row in rows):
            self._core.wakeups.wake(webhooks)

    def _wake(self, ids: set[UUID]) -> None:
        if ids:
            self.hear(ids)
            self._core.notices.tell_transactions(ids)

    async def _find_webhook_queue(self) -> int | None:
        try:
            return (await self._core.catalog.find(WEBHOOKS)).queue_id
        except QueueNotFound:
            return None
