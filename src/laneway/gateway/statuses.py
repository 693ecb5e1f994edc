"""Finds what is known about a transaction: in the cache, in the database, or at the target."""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import TYPE_CHECKING

from laneway.domain.transactions import Finding
from laneway.gateway.calls import CallFailed
from laneway.gateway.failures import CallRefused
from laneway.gateway.findings import make_finding
from laneway.gateway.records import encode_record
from laneway.gateway.targets import Submission

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from laneway.domain.transactions import Recorded, Transaction
    from laneway.engine.transactions import Transactions
    from laneway.gateway.cache import Cache
    from laneway.gateway.calls import Calls
    from laneway.gateway.targets import Upstream

logger = logging.getLogger(__name__)

# A target is asked for a transaction at most this often, in seconds.
INTERVAL = 1.0
MOST_ASKED = 10_000


class Statuses:
    def __init__(
        self,
        transactions: Transactions,
        cache: Cache,
        upstreams: Mapping[str, tuple[Upstream, Calls]],
    ) -> None:
        self._transactions = transactions
        self._cache = cache
        self._upstreams = upstreams
        # When each transaction may be asked for again.
        self._asked: dict[UUID, float] = {}

    async def find(self, transaction_id: UUID) -> bytes | None:
        """Return the record of a transaction as JSON, None if there is none."""
        record = await self._cache.get(transaction_id)
        if record is not None:
            return record
        found = await self._transactions.find(transaction_id)
        if found is None:
            return None
        return await self._keep(await self.refresh(found))

    async def load(self, transaction_id: UUID) -> Transaction | None:
        """Return a transaction as it is stored."""
        return await self._transactions.find(transaction_id)

    async def wait(self, transaction_id: UUID, seconds: float) -> Transaction | None:
        """Return a transaction once it is final, or as it is after so many seconds."""
        found = None
        try:
            async with asyncio.timeout(seconds):
                while True:
                    waiting = asyncio.ensure_future(self._transactions.wait(transaction_id))
                    try:
                        found = await self._transactions.find(transaction_id)
                        if found is None or found.final:
                            return found
                        await waiting
                    finally:
                        waiting.cancel()
        except TimeoutError:
            return await self._transactions.find(transaction_id)

    async def refresh(self, found: Transaction) -> Transaction:
        """Ask the target for a transaction that is submitted and not final; return what is known."""
        known = self._upstreams.get(found.target)
        if known is None or found.final or found.upstream_id is None:
            return found
        now = monotonic()
        if now < self._asked.get(found.id, 0.0):
            return found
        if len(self._asked) >= MOST_ASKED:
            self._asked.clear()
        self._asked[found.id] = now + INTERVAL
        upstream, calls = known
        submission = Submission(
            transaction_id=str(found.id),
            type=found.type,
            request=found.request,
            upstream_id=found.upstream_id,
            upstream_url=found.upstream_url,
        )
        request = upstream.ask_status(submission)
        if request is None:
            return found
        # Without news, only the time of the latest change is recorded, by which targets are asked.
        finding = Finding(found.id)
        try:
            report = upstream.read_status(submission, await calls.send(request))
            if report is not None:
                finding = make_finding(found.id, report, upstream.words)
        except (CallFailed, CallRefused) as error:
            logger.debug("cannot ask target %s for %s: %s", found.target, found.id, error)
        await self._transactions.record([finding])
        return found if finding.status is None else await self._transactions.find(found.id) or found

    async def note_change(self, recorded: Recorded) -> None:
        """Bring the cache up to date after a change by this process."""
        if recorded.changed:
            await self._cache.drop(recorded.id)

    async def forget(self, transaction_id: UUID) -> None:
        await self._cache.drop(transaction_id)

    async def _keep(self, transaction: Transaction) -> bytes:
        record = encode_record(transaction)
        # One that was given up changes again if its message is redriven.
        final = transaction.final and not transaction.given_up
        await self._cache.put(transaction.id, record, final=final)
        return record
